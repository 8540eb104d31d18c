//! The choice of the core whose backlog a packet passes on its way through a veth.
//!
//! `veth_xmit` (drivers/net/veth.c) puts a packet into the receive backlog of the sending core, so two packets of a
//! flow sent from two cores may be reordered. Receive packet steering selects the core by the packet's hash instead
//! (`get_rps_cpu`, net/core/dev.c): one flow, one backlog. The setting is a file in sysfs, which shows the devices of
//! the network namespace in which it was mounted. It is therefore mounted detached, invisible to other processes.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_host::error::OsError;
use weft_host::netns::{NetNs, NetNsError};

/// Errors from setting the backlog.
#[derive(Debug, thiserror::Error)]
pub enum BacklogError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel has no receive packet steering.
    #[error(
        "link {link} of {ns} has no receive packet steering (CONFIG_RPS), so a flow that sends from two cores may be \
         reordered; use a kernel that has it, or do not ask for a single backlog"
    )]
    NoSteering {
        /// The link.
        link: String,
        /// The namespace of the link.
        ns: String,
    },
}

/// Selects the core of a packet's backlog by its hash, among all online cores, for packets received by link `name` of
/// `ns`.
pub(super) fn by_hash(ns: &NetNs, name: &str) -> Result<(), BacklogError> {
    let failed = |step: &str, e: Errno| {
        OsError::new(format!("steer what link {name} of {ns} receives by hash: {step}"), e)
            .needs("CAP_SYS_ADMIN")
    };
    ns.run(|| {
        let sysfs = mount_sysfs().map_err(|e| failed("mount sysfs", e))?;
        let cpus =
            read(sysfs.as_fd(), "devices/system/cpu/online").map_err(|e| failed("read the cores", e))?;
        let mask = mask_of(&cpus).ok_or_else(|| failed("read the cores", Errno::INVAL))?;
        let path = format!("class/net/{name}/queues/rx-0/rps_cpus");
        match write(sysfs.as_fd(), &path, &mask) {
            Err(Errno::NOENT) => Err(BacklogError::NoSteering { link: name.to_owned(), ns: ns.to_string() }),
            result => Ok(result.map_err(|e| failed("write rps_cpus", e))?),
        }
    })?
}

/// Mounts the sysfs of the calling thread's network namespace, detached from the file system tree.
fn mount_sysfs() -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen(c"sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Reads a small file of sysfs, in one call.
fn read(sysfs: BorrowedFd<'_>, path: &str) -> Result<String, Errno> {
    let file = rustix::fs::openat(sysfs, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; 4096];
    let length = rustix::io::read(&file, &mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn write(sysfs: BorrowedFd<'_>, path: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::openat(sysfs, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(|_| ())
}

/// Converts a list of cores such as `0-3,8` to the kernel's bitmap format: words of 32 bits, the highest first.
fn mask_of(list: &str) -> Option<String> {
    let mut words: Vec<u32> = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // The kernel's largest NR_CPUS is 8192.
        if last >= 8192 {
            return None;
        }
        words.resize(words.len().max(last / 32 + 1), 0);
        (first..=last).for_each(|cpu| words[cpu / 32] |= 1 << (cpu % 32));
    }
    let words: Vec<String> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    Some(words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::link::{self, VethOptions};

    #[test]
    fn lists_become_masks() {
        assert_eq!(mask_of("0-3,8\n").as_deref(), Some("0000010f"));
        assert_eq!(mask_of("0").as_deref(), Some("00000001"));
        assert_eq!(mask_of("31-32,64").as_deref(), Some("00000001,00000001,80000000"));
        for bad in ["", "x", "1-", "9000", "0,,1"] {
            assert_eq!(mask_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_far_end_is_steered_by_hash() {
        if !weft_host::testing::privileged("the_far_end_is_steered_by_hash") {
            return;
        }
        let (near, far) = (NetNs::anonymous().expect("near"), NetNs::anonymous().expect("far"));
        link::create_veth((&near, "near"), (&far, "far"), &VethOptions::default()).expect("veth");
        let read_mask = || {
            far.run(|| read(mount_sysfs().expect("sysfs").as_fd(), "class/net/far/queues/rx-0/rps_cpus"))
                .expect("namespace")
                .expect("mask")
        };
        let count =
            |mask: &str| mask.chars().filter_map(|c| c.to_digit(16)).map(u32::count_ones).sum::<u32>();
        assert_eq!(count(&read_mask()), 0);
        by_hash(&far, "far").expect("set");
        let cores = std::thread::available_parallelism().expect("cores").get();
        assert!(count(&read_mask()) as usize >= cores, "{}", read_mask());
        assert!(matches!(by_hash(&far, "nothing"), Err(BacklogError::NoSteering { .. })));
    }
}
