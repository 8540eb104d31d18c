//! Transmit packet steering (XPS): the transmit queues to which each CPU sends.
//!
//! Read from sysfs, where `class/net` shows the devices of the network namespace in which it was mounted
//! (Documentation/networking/scaling.rst, Documentation/ABI/testing/sysfs-class-net-queues).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use weft_units::TxQueueId;

use crate::error::OsError;
use crate::netns::{NetNs, NetNsError};

/// An error of a query for transmit queues.
#[derive(Debug, thiserror::Error)]
pub enum XpsError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// No such device exists.
    #[error("there is no device {device} in network namespace {ns}; `ip link` shows those that exist")]
    NoSuchDevice {
        /// The device.
        device: String,
        /// The namespace.
        ns: String,
    },
    /// A file does not have the kernel's format.
    #[error(
        "device {device}: {file} of transmit queue {queue} is not a set of CPUs: {text:?}; please report it"
    )]
    BadMask {
        /// The device.
        device: String,
        /// The queue.
        queue: u32,
        /// The file's name.
        file: &'static str,
        /// Its content.
        text: String,
    },
}

/// The transmit queues of a device, and the CPUs that send to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxQueues {
    /// The number that the device uses (`real_num_tx_queues`).
    pub count: u32,
    /// The CPUs that XPS assigns to each queue; empty if XPS is not configured or the kernel lacks it (CONFIG_XPS).
    pub cpus: BTreeMap<TxQueueId, BTreeSet<u32>>,
}

impl TxQueues {
    /// The queues that each CPU known to XPS may send to.
    pub fn pools(&self) -> BTreeMap<u32, BTreeSet<TxQueueId>> {
        let mut pools: BTreeMap<u32, BTreeSet<TxQueueId>> = BTreeMap::new();
        for (queue, cpus) in &self.cpus {
            for cpu in cpus {
                pools.entry(*cpu).or_default().insert(*queue);
            }
        }
        pools
    }
}

/// The transmit queues of `device` in the namespace. Reads a new mount of sysfs in a private mount namespace of a scratch
/// thread; the host's mounts are not changed.
///
/// # Errors
/// If the device does not exist, CAP_SYS_ADMIN is missing, or a file has an unexpected format.
pub fn tx_queues(ns: &NetNs, device: &str) -> Result<TxQueues, XpsError> {
    crate::link::check_name(device)
        .map_err(|_| XpsError::NoSuchDevice { device: device.to_owned(), ns: ns.to_string() })?;
    ns.run(|| {
        private_sysfs().map_err(|e| {
            OsError::new(format!("mount the sysfs of network namespace {ns}"), e).needs("CAP_SYS_ADMIN")
        })?;
        read(Path::new("/sys/class/net"), device, &ns.to_string())
    })?
}

/// Mounts the sysfs of the thread's network namespace at `/sys`, for this thread alone. The thread must then end.
pub(crate) fn private_sysfs() -> io::Result<()> {
    // SAFETY: CLONE_NEWNS (and the CLONE_FS that the kernel adds) changes only what the calling thread sees of the file
    // system; CLONE_FILES, the flag that makes this call unsafe, is not passed.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    // Later mounts must not reach the host.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match rustix::mount::mount("sysfs", "/sys", "sysfs", flags, None) {
        // This namespace's sysfs is already mounted there (`do_add_mount` in fs/namespace.c).
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn read(class_net: &Path, device: &str, ns: &str) -> Result<TxQueues, XpsError> {
    let folder = class_net.join(device).join("queues");
    let failed = |e: io::Error| XpsError::from(OsError::new(format!("read {}", folder.display()), e));
    let entries = match std::fs::read_dir(&folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(XpsError::NoSuchDevice { device: device.to_owned(), ns: ns.to_owned() });
        }
        entries => entries.map_err(failed)?,
    };
    let mut queues = TxQueues::default();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let Some(queue) = name.to_str().and_then(|n| n.strip_prefix("tx-")?.parse::<u32>().ok()) else {
            continue;
        };
        queues.count += 1;
        queues.cpus.insert(TxQueueId(queue), cpus(&entry.path(), device, queue)?);
    }
    Ok(queues)
}

fn cpus(folder: &Path, device: &str, queue: u32) -> Result<BTreeSet<u32>, XpsError> {
    const FILE: &str = "xps_cpus";
    let path = folder.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => parse_mask(&text).ok_or_else(|| XpsError::BadMask {
            device: device.to_owned(),
            queue,
            file: FILE,
            text,
        }),
        // Without CONFIG_XPS the file is missing. For a device with one queue, reading it gives ENOENT (`xps_cpus_show`); for one
        // whose traffic classes do not cover the queue, EINVAL.
        Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::NOENT | Errno::INVAL)) => {
            Ok(BTreeSet::new())
        }
        Err(e) => Err(OsError::new(format!("read {}", path.display()), e).into()),
    }
}

/// Reads a set in the kernel's format (`%*pb`, lib/vsprintf.c): 32-bit words in hexadecimal, highest first, separated by
/// commas. `None` if the text is not a set.
pub fn parse_mask(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for (word, digits) in text.trim_end_matches('\n').split(',').rev().enumerate() {
        if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let base = u32::try_from(word).ok()?.checked_mul(32)?;
        set.extend((0..32).filter(|bit| bits >> bit & 1 != 0).map(|bit| base + bit));
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::{self, VethOptions};
    use crate::testing;

    fn set(text: &str) -> Option<Vec<u32>> {
        parse_mask(text).map(|set| set.into_iter().collect())
    }

    #[test]
    fn masks_are_read_as_the_kernel_prints_them() {
        assert_eq!(set("00000000\n"), Some(vec![]));
        assert_eq!(set("5\n"), Some(vec![0, 2]));
        assert_eq!(set("ff"), Some((0..8).collect()));
        assert_eq!(set("80000001,00000003\n"), Some(vec![0, 1, 32, 63]));
        assert_eq!(set("1,00000000,00000000"), Some(vec![64]));
        for bad in ["", "\n", ",", "1,", ",1", "g", "+1", "-1", "0x1", " 1", "123456789", "1\n1"] {
            assert_eq!(set(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(expected in prop::collection::btree_set(0_u32..300, 0..40), pad in 0_usize..4) {
            let words = expected.last().map_or(0, |last| *last as usize / 32) + 1 + pad;
            let word = |w: usize| {
                (0..32).filter(|b| expected.contains(&(w as u32 * 32 + b))).fold(0_u32, |all, b| all | 1 << b)
            };
            let text: Vec<_> = (0..words).rev().map(|w| format!("{:08x}", word(w))).collect();
            prop_assert_eq!(parse_mask(&text.join(",")), Some(expected));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[0-9a-fA-F,\n\\-x ]{0,60}") {
            let _ = parse_mask(&text);
        }
    }

    #[test]
    fn pools_are_the_sets_the_other_way_round() {
        let cpus = |list: &[u32]| list.iter().copied().collect::<BTreeSet<_>>();
        let queues = TxQueues {
            count: 3,
            cpus: [(TxQueueId(0), cpus(&[0])), (TxQueueId(1), cpus(&[0, 1])), (TxQueueId(2), cpus(&[]))]
                .into(),
        };
        let pools = queues.pools();
        assert_eq!(pools.len(), 2);
        assert_eq!(pools[&0], [TxQueueId(0), TxQueueId(1)].into());
        assert_eq!(pools[&1], [TxQueueId(1)].into());
    }

    #[test]
    fn queues_of_another_namespace_are_seen() {
        if !testing::privileged("queues_of_another_namespace_are_seen") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        link::create_veth((&a, "wx0"), (&b, "wx1"), &VethOptions { queues: Some(4), ..Default::default() })
            .expect("veth");
        let mounts = || std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        let before = mounts().lines().filter(|line| line.contains(" /sys ")).count();
        let queues = tx_queues(&a, "wx0").expect("queues");
        assert_eq!(queues.count, 4);
        assert_eq!(queues.cpus.len(), 4);
        assert_eq!(mounts().lines().filter(|line| line.contains(" /sys ")).count(), before);
        assert!(queues.pools().is_empty(), "{queues:?}");
        a.run(|| {
            private_sysfs().expect("sysfs");
            std::fs::write("/sys/class/net/wx0/queues/tx-2/xps_cpus", "1").expect("set XPS");
        })
        .expect("run");
        assert_eq!(tx_queues(&a, "wx0").expect("queues").pools(), [(0, [TxQueueId(2)].into())].into());
        let none = tx_queues(&b, "wx0").expect_err("the other end").to_string();
        assert_eq!(
            none,
            "there is no device wx0 in network namespace (unnamed); `ip link` shows those that exist"
        );
        assert!(matches!(tx_queues(&a, "../wx0"), Err(XpsError::NoSuchDevice { .. })));
    }
}
