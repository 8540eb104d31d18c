//! Threaded NAPI: a device's receive processing in kernel threads, which can be bound to processors
//! (Documentation/networking/napi.rst).

use std::fs;

use rustix::process::Pid;
use rustix::thread::CpuSet;

use crate::error::OsError;
use crate::netns::{NetNs, NetNsError};
use crate::xps::private_sysfs;

/// An error of an operation on a device's NAPI threads.
#[derive(Debug, thiserror::Error)]
pub enum NapiError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel made no thread for the device.
    #[error(
        "device {device} has no NAPI thread; a veth has one only while GRO is on, and Linux before 5.12 has none"
    )]
    NoThread {
        /// The device.
        device: String,
    },
}

/// Moves the receive processing of `device` into kernel threads, bound to processor `cpu`. The threads end with the device.
///
/// # Errors
/// If the kernel refuses, or makes no thread.
pub fn bind(ns: &NetNs, device: &str, cpu: u32) -> Result<(), NapiError> {
    let path = format!("/sys/class/net/{device}/threaded");
    ns.run(|| private_sysfs().and_then(|()| fs::write(&path, "1")))?.map_err(|e| {
        OsError::new(format!("move NAPI of {device} of {ns} into threads"), e).needs("CAP_NET_ADMIN")
    })?;
    let threads = threads(device);
    if threads.is_empty() {
        return Err(NapiError::NoThread { device: device.to_owned() });
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    for pid in threads {
        rustix::thread::sched_setaffinity(Some(pid), &set)
            .map_err(|e| OsError::new(format!("bind NAPI of {device} to processor {cpu}"), e))?;
    }
    Ok(())
}

/// The kernel threads of a device, by their name `napi/DEVICE-ID`, of which the kernel keeps 15 bytes in some versions and all
/// in others. A device of the same name in another namespace has threads of the same name: names must be the run's own.
pub fn threads(device: &str) -> Vec<Pid> {
    const SHORT: usize = 15;
    let name = format!("napi/{device}-");
    let short = &name[..name.floor_char_boundary(SHORT)];
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_device = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|comm| comm.starts_with(&name) || comm.trim_end() == short)
    };
    pids.filter(of_device).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::{Nic, Offload, Switch};
    use crate::link::{self, VethOptions};
    use crate::{RunId, testing};

    #[test]
    fn a_veth_has_a_thread_of_its_own() {
        if !testing::privileged("a_veth_has_a_thread_of_its_own") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        let (near, far) = (RunId::current().device("na0"), RunId::current().device("na1"));
        link::create_veth((&a, &near), (&b, &far), &VethOptions::default()).expect("veth");
        let gro = Nic::open(&a, &near).and_then(|mut nic| nic.set_offload(Offload::Gro, Switch::On));
        assert_eq!(gro.expect("GRO"), Switch::On);
        link::set_up(&a, &near).expect("up");
        link::set_up(&b, &far).expect("up");
        bind(&a, &near, 0).expect("bind");
        let found = threads(&near);
        assert!(!found.is_empty());
        let set = rustix::thread::sched_getaffinity(found.first().copied()).expect("affinity");
        assert!(set.is_set(0) && set.count() == 1);
        assert!(threads("no-such-device").is_empty());
    }
}
