//! A NIC's transmit scheduler through the generic netlink family "net-shaper" (Linux 6.13 and later): weights of queues.
//!
//! The kernel has a tree of shapers for each device: leaves are queues, nodes group leaves, and the root is the device
//! (Documentation/netlink/specs/net_shaper.yaml, net/shaper/shaper.c). [`Shaper::set_weights`] maintains one node with the
//! weighted queues below it. The NIC divides the node's rate among backlogged queues in proportion to their weights.

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

/// An error of a NIC's scheduler.
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
         configured (CONFIG_NET_SHAPER); upgrade the kernel to set queue weights",
        crate::sysctl::release()
    )]
    NoFamily,
    /// The driver does not support this (EOPNOTSUPP).
    #[error(
        "the driver of interface {ifindex} cannot {what} (Operation not supported{}); use another NIC, or leave its \
         queues with equal weights", .says.as_ref().map(|says| format!(": {says}")).unwrap_or_default()
    )]
    NotSupported {
        /// The device's number.
        ifindex: u32,
        /// The unsupported operation.
        what: &'static str,
        /// The kernel's explanation.
        says: Option<String>,
    },
    /// No queues were given.
    #[error("interface {ifindex}: no queues were given; to remove weights, use delete")]
    NoQueues {
        /// The device's number.
        ifindex: u32,
    },
    /// A queue was given more than once.
    #[error("interface {ifindex}: queue {queue} has two weights; give each queue one")]
    Twice {
        /// The device's number.
        ifindex: u32,
        /// The queue.
        queue: u32,
    },
    /// An answer that lacks the requested data.
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

/// The kind of a shaper's place in the tree (`enum net_shaper_scope`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole device (`NET_SHAPER_SCOPE_NETDEV`).
    Device,
    /// A transmit queue.
    Queue,
    /// An inner node.
    Node,
}

/// The identity of a shaper. The number of a queue is the queue's, that of the device is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    /// The kind of place.
    pub scope: Scope,
    /// Its number among shapers of the same kind.
    pub id: u32,
}

/// The capabilities of a kind of shaper at a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Rates in bits per second.
    pub metric_bps: bool,
    /// Rates in packets per second.
    pub metric_pps: bool,
    /// Grouping under a node.
    pub nesting: bool,
    /// A guaranteed rate.
    pub bw_min: bool,
    /// A maximum rate.
    pub bw_max: bool,
    /// A burst above the maximum rate.
    pub burst: bool,
    /// Strict priorities.
    pub priority: bool,
    /// Weights.
    pub weight: bool,
}

/// A snapshot of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperInfo {
    /// Its identity.
    pub handle: Handle,
    /// Its parent.
    pub parent: Option<Handle>,
    /// Its weight, if one was set.
    pub weight: Option<Weight>,
    /// Its strict priority.
    pub priority: u32,
    /// Its maximum rate, if one is set in bits per second.
    pub bw_max: Option<BitsPerSec>,
}

/// The schedulers of the NICs of one namespace.
pub struct Shaper {
    family: Family,
    ns: String,
    /// The number of weftline's node at each device.
    nodes: BTreeMap<u32, u32>,
}

impl Shaper {
    /// Opens a socket in the namespace, where it remains.
    ///
    /// # Errors
    /// [`ShaperError::NoFamily`] if the kernel lacks the family; otherwise if no socket can be made.
    pub fn open(ns: &NetNs) -> Result<Shaper> {
        let family = ns.run(|| Family::open(FAMILY))?.map_err(|e| {
            OsError::new(format!("ask for the netlink family {FAMILY} in namespace {ns}"), e.error)
                .detail(e.says)
        })?;
        let family = family.ok_or(ShaperError::NoFamily)?;
        Ok(Shaper { family, ns: ns.to_string(), nodes: BTreeMap::new() })
    }

    /// The capabilities of this kind of shaper at the device.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no shapers of this kind.
    pub fn capabilities(&mut self, ifindex: u32, scope: Scope) -> Result<Capabilities> {
        let answers = self
            .family
            .request(codec::CMD_CAP_GET, &codec::capabilities(ifindex, scope), Ask::Request)
            .map_err(|e| self.refused(e, ifindex, "schedule its queues by net-shaper"))?;
        let answer = answers.first().ok_or(ShaperError::Answer { ifindex })?;
        Ok(codec::read_capabilities(answer))
    }

    /// Sets the weights of these queues of the device, and removes those that this value gave to other queues. The first call makes a
    /// node, later calls change it; they need not name the same queues.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no queue weights; otherwise the kernel's error, such as ENOENT for a missing
    /// queue. The weights are then unchanged.
    pub fn set_weights(&mut self, ifindex: u32, weights: &[(TxQueueId, Weight)]) -> Result<()> {
        let mut queues = BTreeSet::new();
        if let Some((twice, _)) = weights.iter().find(|(queue, _)| !queues.insert(queue.0)) {
            return Err(ShaperError::Twice { ifindex, queue: twice.0 });
        }
        if weights.is_empty() {
            return Err(ShaperError::NoQueues { ifindex });
        }
        // A node is deleted with its last queue, for example because the device now has fewer queues.
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
        // Queues under the node that are not named would keep their old weights.
        for leaf in self.leaves(ifindex, made.handle)? {
            if !queues.contains(&leaf.id) {
                self.delete(ifindex, leaf)?;
            }
        }
        Ok(())
    }

    /// The number of the node with the device's weighted queues, for [`adopt`](Self::adopt) by a later process.
    pub fn node(&self, ifindex: u32) -> Option<u32> {
        self.nodes.get(&ifindex).copied()
    }

    /// Adopts the node that an earlier process made at the device.
    pub fn adopt(&mut self, ifindex: u32, node: u32) {
        self.nodes.insert(ifindex, node);
    }

    /// Removes all weights of [`set_weights`](Self::set_weights) together with their node. Does nothing if none exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn delete_weights(&mut self, ifindex: u32) -> Result<()> {
        let Some(id) = self.nodes.get(&ifindex).copied() else { return Ok(()) };
        // The kernel deletes a node with its last leaf (`__net_shaper_delete`). Deleting the node first would leave its leaves
        // with the device, as weights without an owner.
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

    /// A shaper, if it exists.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no shapers; otherwise the kernel's error.
    pub fn get(&mut self, ifindex: u32, handle: Handle) -> Result<Option<ShaperInfo>> {
        match self.family.request(codec::CMD_GET, &codec::one(ifindex, handle), Ask::Request) {
            Ok(answers) => {
                let found = answers.iter().find_map(|answer| codec::shaper(answer));
                found.map(Some).ok_or(ShaperError::Answer { ifindex })
            }
            // A missing device also gives ENOENT; `list` fails for it too.
            Err(e) if Errno::from_io_error(&e.error) == Some(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.refused(e, ifindex, "schedule its queues by net-shaper")),
        }
    }

    /// All shapers at the device, from any process.
    ///
    /// # Errors
    /// [`ShaperError::NotSupported`] if the driver has no shapers; otherwise the kernel's error.
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
    /// The kernel's error: ENOENT if it does not exist.
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

    /// A kernel without the family reports that; one with it reports that `lo` has no scheduler.
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
