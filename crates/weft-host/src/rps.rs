//! Receive packet steering (RPS): the processor whose backlog takes what a device receives (Documentation/networking/scaling.rst,
//! `get_rps_cpu` in net/core/dev.c).

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use crate::error::OsError;
use crate::netns::{NetNs, NetNsError};
use crate::xps::{parse_mask, private_sysfs};

/// An error of the setting.
#[derive(Debug, thiserror::Error)]
pub enum RpsError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel has no receive packet steering.
    #[error("device {device} has no receive packet steering; the kernel needs CONFIG_RPS")]
    NoSteering {
        /// The device.
        device: String,
    },
    /// The kernel took the setting and has another.
    #[error("device {device}: rps_cpus is {found:?} although processor {cpu} alone was set")]
    NotFollowed {
        /// The device.
        device: String,
        /// The processor.
        cpu: u32,
        /// The content of the file.
        found: String,
    },
}

/// Lets processor `cpu` alone do the receive processing of `device` above its driver, and reads the setting back.
///
/// # Errors
/// If the kernel refuses, lacks it, or does not follow.
pub fn bind(ns: &NetNs, device: &str, cpu: u32) -> Result<(), RpsError> {
    let failed = |e: io::Error| {
        OsError::new(format!("steer what {device} of {ns} receives to processor {cpu} (rps_cpus)"), e)
            .needs("CAP_NET_ADMIN")
    };
    ns.run(|| {
        private_sysfs().map_err(failed)?;
        let files = files(device).map_err(failed)?;
        if files.is_empty() {
            return Err(RpsError::NoSteering { device: device.to_owned() });
        }
        for file in files {
            fs::write(&file, mask(cpu)).map_err(failed)?;
            let found = fs::read_to_string(&file).map_err(failed)?;
            if parse_mask(&found) != Some(BTreeSet::from([cpu])) {
                return Err(RpsError::NotFollowed { device: device.to_owned(), cpu, found });
            }
        }
        Ok(())
    })?
}

/// The files of the device's receive queues.
fn files(device: &str) -> io::Result<Vec<PathBuf>> {
    let queues = fs::read_dir(format!("/sys/class/net/{device}/queues"))?;
    let folders = queues.collect::<io::Result<Vec<_>>>()?.into_iter();
    let received = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"));
    let exists = |file: &PathBuf| match fs::metadata(file) {
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        // Another error comes back when the file is written.
        _ => true,
    };
    Ok(received.map(|entry| entry.path().join("rps_cpus")).filter(exists).collect())
}

/// A set of one processor as the kernel reads it (`bitmap_parse`): words of 32 bits in hexadecimal, the highest first.
fn mask(cpu: u32) -> String {
    format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu as usize / 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{self, VethOptions};
    use crate::{RunId, testing};

    #[test]
    fn one_processor_receives() {
        if !testing::privileged("one_processor_receives") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        let (near, far) = (RunId::current().device("rp0"), RunId::current().device("rp1"));
        link::create_veth((&a, &near), (&b, &far), &VethOptions::default()).expect("veth");
        match bind(&b, &far, 0) {
            Err(RpsError::NoSteering { .. }) => {
                weft_units::testing::skip("one_processor_receives", "no CONFIG_RPS")
            }
            result => result.expect("bound"),
        }
        let error = bind(&b, "none0", 0).expect_err("no such device").to_string();
        assert!(error.contains("none0"), "{error}");
    }

    #[test]
    fn masks_are_those_that_the_kernel_writes() {
        for cpu in [0, 1, 31, 32, 100] {
            assert_eq!(parse_mask(&mask(cpu)), Some(BTreeSet::from([cpu])), "{}", mask(cpu));
        }
    }
}
