//! The settings of a device's transmission: queues, qdiscs, limits, segments, interrupts. Reads, and changes nothing.
//!
//! `files` reads what `/sys` and `/proc` show, below folders that tests replace; [`Facts::read`] asks the kernel for the rest by netlink
//! and ethtool. A fact that cannot be read is `None`: it is unknown, and no default takes its place.

mod files;

use std::collections::BTreeMap;

use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

use crate::ethtool::{Limited, Moderation, Nic, Offload, Rings, Switch};
use crate::link::{self, LinkError};
use crate::net_shaper::{Scope, Shaper, ShaperError};
use crate::netns::{NetNs, NetNsError};
use crate::tc::{self, EgressKinds};
use crate::xps::private_sysfs;

pub use files::{ByteLimits, Interrupts, Tree, default_device};

/// Kinds of links that have no wire; what they report as their speed is a constant of the driver.
const VIRTUAL: [&str; 9] = ["veth", "bridge", "tun", "dummy", "ifb", "vxlan", "macvtap", "macvlan", "ipvlan"];

/// The reason that nothing is known of a device.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The device does not exist.
    #[error("there is no device {device}; there are: {there}")]
    NoDevice {
        /// The device.
        device: String,
        /// The existing ones.
        there: String,
    },
    /// The device's name is impossible.
    #[error(transparent)]
    Name(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
}

/// The segments that the stack passes to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    /// The largest over IPv4, in bytes (`gso_ipv4_max_size`, or `gso_max_size` where there is only that).
    pub size: Bytes,
    /// The most packets of one (`gso_max_segs`).
    pub packets: Packets,
}

/// Facts about a device and the stack above it. `None` is unknown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// The device.
    pub device: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Its kind, such as "veth"; empty for hardware.
    pub kind: Option<String>,
    /// The largest packet, without the Ethernet header.
    pub mtu: Option<Bytes>,
    /// The rate of its link; unknown for links without a wire.
    pub rate: Option<BitsPerSec>,
    /// Transmit queues in use.
    pub transmit_queues: Option<u32>,
    /// Receive queues in use.
    pub receive_queues: Option<u32>,
    /// Combined channels in use, and their maximum.
    pub channels: Option<Limited>,
    /// The qdiscs at its egress.
    pub qdiscs: Option<EgressKinds>,
    /// Byte queue limits.
    pub byte_limits: Option<ByteLimits>,
    /// Segments.
    pub segments: Option<Segments>,
    /// TCP segmentation by the device.
    pub tso: Option<bool>,
    /// Merging of received packets.
    pub gro: Option<bool>,
    /// Whether XPS gives each processor separate queues.
    pub xps: Option<bool>,
    /// The interrupts of the device.
    pub interrupts: Option<Interrupts>,
    /// Their moderation.
    pub moderation: Option<Moderation>,
    /// The lengths of the rings.
    pub rings: Option<Rings>,
    /// Whether queues can have weights, set by the kernel's net-shapers.
    pub queue_weights: Option<bool>,
    /// TCP small queues (`net.ipv4.tcp_limit_output_bytes`).
    pub small_queue: Option<Bytes>,
    /// The congestion control of new connections.
    pub congestion_control: Option<String>,
    /// The largest send buffer of a TCP socket.
    pub send_buffer: Option<Bytes>,
    /// The largest receive buffer of a TCP socket.
    pub receive_buffer: Option<Bytes>,
    /// Processors that are online.
    pub processors: Option<u32>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Whether this kernel has a qdisc, by its name.
    pub kernel_qdiscs: BTreeMap<String, Option<bool>>,
}

impl Facts {
    /// The facts about a device of the namespace. `kinds` are the qdiscs to look for in this kernel.
    ///
    /// # Errors
    /// If there is no such device. What cannot be read of an existing one is unknown.
    pub fn read(ns: &NetNs, device: &str, kinds: &[&str]) -> Result<Self, FactsError> {
        link::check_name(device)?;
        let mut facts = in_sysfs(ns, |tree| Self::from_files(tree, device))??;
        facts.ask_links(ns);
        facts.ask_driver(ns);
        facts.kernel_qdiscs =
            kinds.iter().map(|kind| ((*kind).to_owned(), tc::in_this_kernel(kind))).collect();
        Ok(facts)
    }

    /// The facts that files below `tree` show.
    ///
    /// # Errors
    /// If they show no such device.
    pub fn from_files(tree: &Tree, device: &str) -> Result<Self, FactsError> {
        let devices = tree.devices();
        if !devices.iter().any(|known| known == device) {
            return Err(FactsError::NoDevice { device: device.to_owned(), there: devices.join(", ") });
        }
        let queues = tree.queues(device);
        Ok(Self {
            device: device.to_owned(),
            driver: tree.driver(device),
            mtu: tree.number(device, "mtu").map(Bytes),
            rate: tree.rate(device),
            transmit_queues: queues.map(|(transmit, _)| transmit).filter(|count| *count > 0),
            receive_queues: queues.map(|(_, receive)| receive).filter(|count| *count > 0),
            byte_limits: tree.byte_limits(device),
            xps: tree.xps(device),
            interrupts: tree.interrupts(device),
            small_queue: tree.setting("net/ipv4/tcp_limit_output_bytes", 0).map(Bytes),
            congestion_control: tree.words("net/ipv4/tcp_congestion_control").into_iter().next(),
            send_buffer: tree.setting("net/ipv4/tcp_wmem", 2).map(Bytes),
            receive_buffer: tree.setting("net/ipv4/tcp_rmem", 2).map(Bytes),
            processors: tree.processors(),
            numa_nodes: tree.numa_nodes(),
            ..Self::default()
        })
    }

    /// Asks for the link and its qdiscs.
    fn ask_links(&mut self, ns: &NetNs) {
        self.qdiscs = EgressKinds::of_device(ns, &self.device).ok().flatten();
        let Ok(link) = link::show(ns, &self.device) else { return };
        self.segments = Some(Segments {
            size: Bytes(link.gso_ipv4_max_size.unwrap_or(link.gso_max_size).into()),
            packets: Packets(link.gso_max_segs.into()),
        });
        let kind = link.kind.unwrap_or_default();
        if VIRTUAL.contains(&kind.as_str()) {
            self.rate = None;
        }
        self.kind = Some(kind);
        let scope = Scope::Queue;
        let can = Shaper::open(ns).and_then(|mut shaper| shaper.capabilities(link.index, scope));
        self.queue_weights = match can {
            Ok(can) => Some(can.weight && can.nesting),
            Err(ShaperError::NoFamily | ShaperError::NotSupported { .. }) => Some(false),
            Err(_) => None,
        };
    }

    /// Asks for what the driver says.
    fn ask_driver(&mut self, ns: &NetNs) {
        let Ok(mut nic) = Nic::open(ns, &self.device) else { return };
        if self.driver.is_none() {
            self.driver = Some(nic.driver().name.clone());
        }
        self.channels =
            nic.channels().ok().flatten().map(|channels| channels.combined).filter(|one| one.max > 0);
        self.moderation = nic.moderation().ok().flatten();
        self.rings = nic.rings().ok().flatten();
        let mut is_on = |offload| nic.offload(offload).ok().map(|state| state == Switch::On);
        (self.tso, self.gro) = (is_on(Offload::Tso), is_on(Offload::Gro));
    }

    /// The time between two interrupts of a queue; unknown where the driver does not say, zero where it delays none.
    pub fn interrupt_interval(&self) -> Option<Nanos> {
        self.moderation.map(|moderation| moderation.tx.max(moderation.rx))
    }
}

/// Calls `f` with the files of the namespace. Without the rights to mount its sysfs, those that are mounted are read.
fn in_sysfs<R: Send>(ns: &NetNs, f: impl Fn(&Tree) -> R + Send + Sync) -> Result<R, FactsError> {
    let mounted = || {
        // Without rights the sysfs in place is that of this process's own namespace.
        let _ = private_sysfs();
        f(&Tree::of_this_host())
    };
    match ns.run(mounted) {
        Ok(found) => Ok(found),
        Err(error) if ns.inode()? != NetNs::current()?.inode()? => Err(error.into()),
        Err(_) => Ok(f(&Tree::of_this_host())),
    }
}
