//! Facts about a device that files below `/sys` and `/proc` show.

use std::fs;
use std::path::{Path, PathBuf};

use weft_units::{BitsPerSec, Bytes};

use crate::cpus::parse_list;
use crate::xps::parse_mask;

/// More than a device has queues.
const MOST: u64 = 1 << 16;

/// The folders that files are read from.
#[derive(Clone, Debug)]
pub struct Tree {
    /// In place of `/sys`.
    pub sys: PathBuf,
    /// In place of `/proc`.
    pub proc: PathBuf,
}

/// Byte queue limits of all queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteLimits {
    /// The driver has none.
    Off,
    /// The kernel moves them, up to this much.
    Dynamic {
        /// The limit in force, the largest of the queues'.
        limit: Bytes,
        /// The most that it may become.
        most: Bytes,
    },
    /// They are fixed: the least and the most are equal.
    Fixed(Bytes),
}

/// The interrupts of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupts {
    /// Their number.
    pub count: u32,
    /// Whether each goes to one processor only.
    pub pinned: bool,
}

/// The device of the default route, by the kernel's table of routes over IPv4.
pub fn default_device(tree: &Tree) -> Option<String> {
    let table = fs::read_to_string(tree.proc.join("thread-self/net/route"))
        .or_else(|_| fs::read_to_string(tree.proc.join("net/route")))
        .ok()?;
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [device, to, _, _, _, _, metric, mask, ..] = fields[..] else { return None };
        let is_default = to == "00000000" && mask == "00000000";
        Some((metric.parse::<u32>().ok()?, device.to_owned())).filter(|_| is_default)
    });
    routes.min().map(|(_, device)| device)
}

impl Tree {
    /// The files of this host.
    pub fn of_this_host() -> Self {
        Self { sys: PathBuf::from("/sys"), proc: PathBuf::from("/proc") }
    }

    fn folder(&self, device: &str) -> PathBuf {
        self.sys.join("class/net").join(device)
    }

    /// The devices, sorted.
    pub(super) fn devices(&self) -> Vec<String> {
        names(&self.sys.join("class/net"))
    }

    /// A number in a file of the device.
    pub(super) fn number(&self, device: &str, file: &str) -> Option<u64> {
        text(&self.folder(device).join(file))?.parse().ok()
    }

    /// The words of a setting.
    pub(super) fn words(&self, setting: &str) -> Vec<String> {
        let found = text(&self.proc.join("sys").join(setting)).unwrap_or_default();
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// A number of a setting, by its position.
    pub(super) fn setting(&self, setting: &str, position: usize) -> Option<u64> {
        self.words(setting).get(position)?.parse().ok()
    }

    /// The driver, by the name of its folder.
    pub(super) fn driver(&self, device: &str) -> Option<String> {
        let driver = fs::read_link(self.folder(device).join("device/driver")).ok()?;
        Some(driver.file_name()?.to_str()?.to_owned())
    }

    /// The rate of the link, which the file has in Mb/s; -1 or an error where the driver has none.
    pub(super) fn rate(&self, device: &str) -> Option<BitsPerSec> {
        let mbps = self.number(device, "speed").filter(|mbps| *mbps > 0)?;
        mbps.checked_mul(1_000_000).map(BitsPerSec)
    }

    /// The numbers of transmit and of receive queues in use.
    pub(super) fn queues(&self, device: &str) -> Option<(u32, u32)> {
        let all = names(&self.folder(device).join("queues"));
        let count = |kind: &str| {
            let of_kind = all.iter().filter_map(|name| name.strip_prefix(kind)?.parse::<u32>().ok());
            u32::try_from(of_kind.count()).unwrap_or(u32::MAX)
        };
        (!all.is_empty()).then(|| (count("tx-"), count("rx-")))
    }

    /// The folders of the transmit queues.
    fn transmit_queues(&self, device: &str) -> Vec<PathBuf> {
        let folder = self.folder(device).join("queues");
        let all = names(&folder);
        all.iter().filter(|name| name.starts_with("tx-")).map(|name| folder.join(name)).collect()
    }

    /// The byte queue limits. A driver without them never moves the limit away from zero (`netdev_tx_sent_queue`), so zero after packets
    /// were sent means that the driver has none, and zero before is unknown.
    pub(super) fn byte_limits(&self, device: &str) -> Option<ByteLimits> {
        let queues = self.transmit_queues(device);
        let limits: Vec<PathBuf> = queues.iter().map(|queue| queue.join("byte_queue_limits")).collect();
        if queues.is_empty() {
            return None;
        }
        // Linux 6.9 and later show no folder for devices without them (netdev_uses_bql).
        if !limits.iter().any(|folder| folder.is_dir()) {
            return Some(ByteLimits::Off);
        }
        let largest = |file: &str| {
            limits.iter().filter_map(|folder| text(&folder.join(file))?.parse::<u64>().ok()).max()
        };
        let (limit, least, most) = (largest("limit")?, largest("limit_min")?, largest("limit_max")?);
        if least == most && most > 0 {
            return Some(ByteLimits::Fixed(Bytes(most)));
        }
        if limit > 0 {
            return Some(ByteLimits::Dynamic { limit: Bytes(limit), most: Bytes(most) });
        }
        (self.number(device, "statistics/tx_packets")? > 0).then_some(ByteLimits::Off)
    }

    /// Whether XPS is configured: a device of one queue has nothing to choose.
    pub(super) fn xps(&self, device: &str) -> Option<bool> {
        let queues = self.transmit_queues(device);
        if queues.len() == 1 {
            return Some(false);
        }
        let masks: Vec<_> =
            queues.iter().filter_map(|queue| parse_mask(&text(&queue.join("xps_cpus"))?)).collect();
        (!masks.is_empty()).then(|| masks.iter().any(|cpus| !cpus.is_empty()))
    }

    /// The interrupts, those of the bus device where the network device is below one of virtio.
    pub(super) fn interrupts(&self, device: &str) -> Option<Interrupts> {
        let bus = self.folder(device).join("device");
        let mut numbers = names(&bus.join("msi_irqs"));
        if numbers.is_empty() {
            numbers = names(&fs::canonicalize(&bus).ok()?.parent()?.join("msi_irqs"));
        }
        let processors = |number: &String| {
            let folder = self.proc.join("irq").join(number);
            parse_list(&text(&folder.join("smp_affinity_list"))?).map(|cpus| cpus.len())
        };
        let known: Vec<usize> = numbers.iter().filter_map(processors).collect();
        let count = u32::try_from(numbers.len()).ok()?;
        (!known.is_empty()).then(|| Interrupts { count, pinned: known.iter().all(|cpus| *cpus == 1) })
    }

    /// The processors that are online.
    pub(super) fn processors(&self) -> Option<u32> {
        self.list("devices/system/cpu/online")
    }

    /// The NUMA nodes.
    pub(super) fn numa_nodes(&self) -> Option<u32> {
        self.list("devices/system/node/online")
    }

    fn list(&self, file: &str) -> Option<u32> {
        u32::try_from(parse_list(&text(&self.sys.join(file))?)?.len()).ok()
    }
}

/// The text of a small file, without white space at its ends.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty() && (text.len() as u64) < MOST)
}

/// The names in a folder, sorted; none without it.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
    names.sort();
    names
}
