//! A NIC's own transmit scheduler, by the generic netlink family "net-shaper" (Linux 6.13 and later): weights of queues.
//!
//! The kernel keeps a tree of shapers for each device: leaves are queues, a node joins leaves, the root is the device
//! (Documentation/netlink/specs/net_shaper.yaml, net/shaper/shaper.c). [`Shaper::set_weights`] keeps one node of ours with
//! the weighted queues under it; the NIC divides the node's rate among queues that have packets, in proportion to weights.

mod codec;

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use weft_units::{BitsPerSec, TxQueueId, Weight};

use crate::error::OsError;
use crate::ethtool::Ask;
use crate::ethtool::Refused;
use crate::ethtool::genl::Family;
use crate::netns::{NetNs, NetNsError};

/// The family's name: `NET_SHAPER_FAMILY_NAME`.
const FAMILY: &str = "net-shaper";

/// What can go wrong with a NIC's scheduler.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel lacks the family.
    #[error(
        "this kernel has no netlink family net-shaper (release {}): Linux 6.13 or later has it, if a driver that uses it is \
         configured (CONFIG_NET_SHAPER); set the weights of queues elsewhere",
        crate::sysctl::release()
    )]
    NoFamily,
    /// The driver cannot do this (EOPNOTSUPP).
    #[error(
        "the driver of interface {ifindex} cannot {what} (Operation not supported{}); take another NIC, or leave its \
         queues alike", .says.as_ref().map(|says| format!(": {says}")).unwrap_or_default()
    )]
    NotSupported {
        /// The device's number.
        ifindex: u32,
        /// What was asked of it.
        what: &'static str,
        /// The kernel's sentence.
        says: Option<String>,
    },
    /// No queues were given.
    #[error("interface {ifindex}: no queues to weigh were given; to take weights away use delete")]
    NoQueues {
        /// The device's number.
        ifindex: u32,
    },
    /// A queue was given twice.
    #[error("interface {ifindex}: queue {queue} has two weights; give each queue one")]
    Twice {
        /// The device's number.
        ifindex: u32,
        /// The queue.
        queue: u32,
    },
    /// An answer without what was asked for.
    #[error(
        "interface {ifindex}: the kernel's answer names no shaper; this is an error of the kernel or of weftline, please \
         report it"
    )]
    Answer {
        /// The device's number.
        ifindex: u32,
    },
}

/// The result of an operation on a NIC's scheduler.
pub type Result<T> = std::result::Result<T, ShaperError>;

/// Which kind of place in the tree (`enum net_shaper_scope`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole device (`NET_SHAPER_SCOPE_NETDEV`).
    Device,
    /// A transmit queue.
    Queue,
    /// A node between.
    Node,
}

/// The name of a shaper: for queues the number is the queue's, for the device it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    /// The kind of place.
    pub scope: Scope,
    /// Its number among those of its kind.
    pub id: u32,
}

/// What shapers of a kind can do at a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Rates in bits for each second.
    pub metric_bps: bool,
    /// Rates in packets for each second.
    pub metric_pps: bool,
    /// Being put under a node.
    pub nesting: bool,
    /// A guaranteed rate.
    pub bw_min: bool,
    /// A highest rate.
    pub bw_max: bool,
    /// A burst above the highest rate.
    pub burst: bool,
    /// Strict priorities.
    pub priority: bool,
    /// Weights.
    pub weight: bool,
}

/// A shaper, as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperInfo {
    /// Its name.
    pub handle: Handle,
    /// What it is under.
    pub parent: Option<Handle>,
    /// Its weight, if one was set.
    pub weight: Option<Weight>,
    /// Its strict priority.
    pub priority: u32,
    /// Its highest rate, if one was set in bits for each second.
    pub bw_max: Option<BitsPerSec>,
}

/// The schedulers of the NICs of one namespace.
pub struct Shaper {
    family: Family,
    ns: String,
    /// For each device the number of the node of ours.
    nodes: BTreeMap<u32, u32>,
}

impl Shaper {
    /// Opens a socket in the namespace; it stays there.
    ///
    /// # Errors
    /// [`ShaperError::NoFamily`] if the kernel lacks the family; else when no socket can be made.
    pub fn open(ns: &NetNs) -> Result<Shaper> {
        let family = ns.run(|| Family::open(FAMILY))?.map_err(|e| {
            OsError::new(format!("ask for the netlink family {FAMILY} in namespace {ns}"), e.error)
                .detail(e.says)
        })?;
        let family = family.ok_or(ShaperError::NoFamily)?;
        Ok(Shaper { family, ns: ns.to_string(), nodes: BTreeMap::new() })
    }

    /// What shapers of the kind can do at the device.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no shapers of the kind.
    pub fn capabilities(&mut self, ifindex: u32, scope: Scope) -> Result<Capabilities> {
        let answers = self
            .family
            .request(codec::CMD_CAP_GET, &codec::capabilities(ifindex, scope), Ask::Request)
            .map_err(|e| self.refused(e, ifindex, "schedule its queues by net-shaper"))?;
        let answer = answers.first().ok_or(ShaperError::Answer { ifindex })?;
        Ok(codec::read_capabilities(answer))
    }

    /// Gives queues of the device these weights, and takes away those of other queues that had one from this value. The first
    /// call makes a node, later calls change it; they need not name the same queues.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no weights of queues, and what the kernel says, such as of a queue that
    /// is not there (ENOENT). The weights are then as they were.
    pub fn set_weights(&mut self, ifindex: u32, weights: &[(TxQueueId, Weight)]) -> Result<()> {
        let mut queues = BTreeSet::new();
        if let Some((twice, _)) = weights.iter().find(|(queue, _)| !queues.insert(queue.0)) {
            return Err(ShaperError::Twice { ifindex, queue: twice.0 });
        }
        if weights.is_empty() {
            return Err(ShaperError::NoQueues { ifindex });
        }
        // A node goes when its last queue does, for instance because the device has fewer queues now.
        let known = self.nodes.get(&ifindex).copied();
        let node = match known {
            Some(id) if self.get(ifindex, Handle { scope: Scope::Node, id })?.is_some() => Some(id),
            _ => None,
        };
        let answers = self
            .family
            .request(codec::CMD_GROUP, &codec::group(ifindex, node, weights), Ask::Request)
            .map_err(|e| self.refused(e, ifindex, "weigh its queues by net-shaper"))?;
        let made = answers.iter().find_map(|answer| codec::shaper(answer));
        let made = made.filter(|m| m.handle.scope == Scope::Node).ok_or(ShaperError::Answer { ifindex })?;
        self.nodes.insert(ifindex, made.handle.id);
        // Queues that were under the node and are not named stay there with their old weights.
        for leaf in self.leaves(ifindex, made.handle)? {
            if !queues.contains(&leaf.id) {
                self.delete(ifindex, leaf)?;
            }
        }
        Ok(())
    }

    /// The number of the node that holds the device's weighted queues, for [`adopt`](Self::adopt) by a later process.
    pub fn node(&self, ifindex: u32) -> Option<u32> {
        self.nodes.get(&ifindex).copied()
    }

    /// Takes over the node that an earlier process made at the device.
    pub fn adopt(&mut self, ifindex: u32, node: u32) {
        self.nodes.insert(ifindex, node);
    }

    /// Takes away all weights that [`set_weights`](Self::set_weights) gave, and the node with them. No weights are no error.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn delete_weights(&mut self, ifindex: u32) -> Result<()> {
        let Some(id) = self.nodes.get(&ifindex).copied() else { return Ok(()) };
        // The kernel deletes a node with its last leaf (`__net_shaper_delete`). A node that is deleted first leaves its leaves
        // to the device, which would then have weights of nobody.
        for leaf in self.leaves(ifindex, Handle { scope: Scope::Node, id })? {
            self.delete(ifindex, leaf)?;
        }
        self.nodes.remove(&ifindex);
        Ok(())
    }

    fn leaves(&mut self, ifindex: u32, node: Handle) -> Result<Vec<Handle>> {
        let all = self.list(ifindex)?;
        Ok(all
            .into_iter()
            .filter(|shaper| shaper.parent == Some(node) && shaper.handle.scope == Scope::Queue)
            .map(|shaper| shaper.handle)
            .collect())
    }

    /// A shaper, if it is there.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no shapers; else what the kernel says.
    pub fn get(&mut self, ifindex: u32, handle: Handle) -> Result<Option<ShaperInfo>> {
        match self.family.request(codec::CMD_GET, &codec::one(ifindex, handle), Ask::Request) {
            Ok(answers) => {
                let found = answers.iter().find_map(|answer| codec::shaper(answer));
                found.map(Some).ok_or(ShaperError::Answer { ifindex })
            }
            // ENOENT of a device that is not there looks the same; `list` of it fails too.
            Err(e) if Errno::from_io_error(&e.error) == Some(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.refused(e, ifindex, "schedule its queues by net-shaper")),
        }
    }

    /// Everybody's shapers at the device.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no shapers; else what the kernel says.
    pub fn list(&mut self, ifindex: u32) -> Result<Vec<ShaperInfo>> {
        let answers = self
            .family
            .request(codec::CMD_GET, &codec::device(ifindex), Ask::Dump)
            .map_err(|e| self.refused(e, ifindex, "schedule its queues by net-shaper"))?;
        Ok(answers.iter().filter_map(|answer| codec::shaper(answer)).collect())
    }

    /// Deletes one shaper.
    ///
    /// # Errors
    /// What the kernel says: ENOENT if it is not there.
    pub fn delete(&mut self, ifindex: u32, handle: Handle) -> Result<()> {
        self.family
            .request(codec::CMD_DELETE, &codec::one(ifindex, handle), Ask::Request)
            .map(drop)
            .map_err(|e| self.refused(e, ifindex, "delete a shaper"))
    }

    fn refused(&self, refused: Refused, ifindex: u32, what: &'static str) -> ShaperError {
        if Errno::from_io_error(&refused.error) == Some(Errno::OPNOTSUPP) {
            return ShaperError::NotSupported { ifindex, what, says: refused.says };
        }
        OsError::new(format!("{what}: interface {ifindex} of {}", self.ns), refused.error)
            .detail(refused.says)
            .needs("CAP_NET_ADMIN")
            .into()
    }
}

impl std::fmt::Debug for Shaper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shaper").field("ns", &self.ns).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link;
    use crate::testing;

    /// A kernel without the family says so; one with it says that `lo` has no scheduler.
    #[test]
    fn what_the_kernel_lacks_is_said() {
        if !testing::privileged("what_the_kernel_lacks_is_said") {
            return;
        }
        let ns = NetNs::anonymous().expect("ns");
        let lo = link::index(&ns, "lo").expect("lo");
        match Shaper::open(&ns) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("this kernel has no netlink family net-shaper (release "), "{text}");
            }
            Ok(mut shaper) => {
                let error = shaper.capabilities(lo, Scope::Queue).expect_err("lo has none").to_string();
                let begin = "the driver of interface 1 cannot schedule its queues by net-shaper (Operation not supported";
                assert!(error.starts_with(begin), "{error}");
                assert!(shaper.list(lo).is_err());
                let weight = [(TxQueueId(0), Weight::ONE)];
                assert!(matches!(shaper.set_weights(lo, &weight), Err(ShaperError::NotSupported { .. })));
                assert!(matches!(shaper.set_weights(lo, &[]), Err(ShaperError::NoQueues { .. })));
                let twice = [(TxQueueId(3), Weight::ONE), (TxQueueId(3), Weight::ONE)];
                assert!(matches!(shaper.set_weights(lo, &twice), Err(ShaperError::Twice { queue: 3, .. })));
                shaper.delete_weights(lo).expect("no weights are no error");
            }
        }
    }
}
