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
    #[error("device {device}: rps_cpus is {found:?} although processors {cpus:?} were set")]
    NotFollowed {
        /// The device.
        device: String,
        /// The processors.
        cpus: Vec<u32>,
        /// The content of the file.
        found: String,
    },
}

/// Lets `cpus` alone do the receive processing of `device` above its driver, each packet by its hash, and reads the setting back. The
/// kernel leaves out isolated processors (`rps_cpumask_housekeeping`, net/core/net-sysfs.c); none at all turns steering off.
///
/// # Errors
/// If the kernel refuses, lacks it, or does not follow.
pub fn steer(ns: &NetNs, device: &str, cpus: &BTreeSet<u32>) -> Result<(), RpsError> {
    let failed = |e: io::Error| {
        let cpus = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        OsError::new(format!("steer what {device} of {ns} receives to processors {cpus} (rps_cpus)"), e)
            .needs("CAP_SYS_ADMIN")
    };
    ns.run(|| {
        private_sysfs().map_err(failed)?;
        let files = files(device).map_err(failed)?;
        if files.is_empty() {
            return Err(RpsError::NoSteering { device: device.to_owned() });
        }
        for file in files {
            fs::write(&file, mask(cpus)).map_err(failed)?;
            let found = fs::read_to_string(&file).map_err(failed)?;
            if !parse_mask(&found).is_some_and(|set| follows(&set, cpus)) {
                let cpus = cpus.iter().copied().collect();
                return Err(RpsError::NotFollowed { device: device.to_owned(), cpus, found });
            }
        }
        Ok(())
    })?
}

fn follows(found: &BTreeSet<u32>, cpus: &BTreeSet<u32>) -> bool {
    found.is_subset(cpus) && found.is_empty() == cpus.is_empty()
}

/// The processors of each receive queue of `device`, by the queues' names; an empty set where steering is off.
///
/// # Errors
/// If the kernel refuses, or a file has no set.
pub fn processors(ns: &NetNs, device: &str) -> Result<Vec<BTreeSet<u32>>, RpsError> {
    let failed = |e: io::Error| OsError::new(format!("read rps_cpus of {device} of {ns}"), e);
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file)?;
        parse_mask(&text).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, text))
    };
    Ok(ns.run(|| {
        private_sysfs().map_err(failed)?;
        let mut files = files(device).map_err(failed)?;
        files.sort();
        files.iter().map(read).collect::<io::Result<Vec<_>>>().map_err(failed)
    })??)
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

/// A set of processors as the kernel reads it (`bitmap_parse`): words of 32 bits in hexadecimal, the highest first.
fn mask(cpus: &BTreeSet<u32>) -> String {
    let mut words = vec![0_u32; cpus.last().map_or(0, |last| *last as usize / 32) + 1];
    for cpu in cpus {
        words[*cpu as usize / 32] |= 1 << (cpu % 32);
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{self, VethOptions};
    use crate::{RunId, testing};

    #[test]
    fn processors_receive() {
        if !testing::privileged("processors_receive") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        let (near, far) = (RunId::current().device("rp0"), RunId::current().device("rp1"));
        link::create_veth((&a, &near), (&b, &far), &VethOptions::default()).expect("veth");
        match steer(&b, &far, &BTreeSet::from([0])) {
            Err(RpsError::NoSteering { .. }) => {
                weft_units::testing::skip("processors_receive", "no CONFIG_RPS")
            }
            result => result.expect("bound"),
        }
        steer(&b, &far, &crate::cpus::online().expect("processors")).expect("all");
        steer(&b, &far, &BTreeSet::new()).expect("none");
        let error = steer(&b, "none0", &BTreeSet::from([0])).expect_err("no such device").to_string();
        assert!(error.contains("none0"), "{error}");
    }

    #[test]
    fn masks_are_those_that_the_kernel_writes() {
        let sets: [&[u32]; 6] = [&[], &[0], &[31], &[0, 1, 2, 3, 8], &[31, 32, 64], &[100]];
        for cpus in sets {
            let cpus: BTreeSet<u32> = cpus.iter().copied().collect();
            assert_eq!(parse_mask(&mask(&cpus)), Some(cpus.clone()), "{}", mask(&cpus));
        }
        assert_eq!(mask(&BTreeSet::from([0, 1, 2, 3, 8])), "0000010f");
        assert_eq!(mask(&BTreeSet::from([31, 32, 64])), "00000001,00000001,80000000");
    }

    #[test]
    fn isolated_processors_may_be_missing_but_not_all() {
        let set = |cpus: &[u32]| cpus.iter().copied().collect::<BTreeSet<u32>>();
        let all = set(&[0, 1, 2]);
        assert!(follows(&all, &all) && follows(&set(&[1]), &all) && follows(&set(&[]), &set(&[])));
        assert!(!follows(&set(&[]), &all) && !follows(&set(&[3]), &all) && !follows(&set(&[0]), &set(&[])));
    }
}
