//! Order checks along a path: the first with a late packet follows the place of the overtaking.

use super::{Hook, LatePacket, OrderCheck, OrderCounts, OrderError};
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use weft_host::NetNs;

/// A device, with its namespace.
pub type NamespacedDevice<'a> = (&'a NetNs, &'a str);

/// The path of packets.
#[derive(Clone, Copy, Debug)]
pub struct PacketPath<'a> {
    /// The device that sockets send from: the port, or the device with the queues.
    pub sender: NamespacedDevice<'a>,
    /// The port's other end, if it is a veth; its ingress precedes the rings.
    pub far: Option<NamespacedDevice<'a>>,
    /// The device at which packets arrive.
    pub receiver: NamespacedDevice<'a>,
    /// The receiver's address.
    pub server: IpAddr,
}

/// The places of checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OrderStage {
    /// The sender's egress hook, where queues are assigned. A packet late here was overtaken in the stack.
    Egress,
    /// The ingress of the veth's far end. A packet late first here was overtaken within the veth: each core has a
    /// separate backlog (`netif_rx`, net/core/dev.c).
    FarEnd,
    /// The receiver's ingress. A packet late first here was overtaken in the rings, in the NIC or on the wire.
    Receiver,
}

impl fmt::Display for OrderStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Egress => "egress of the sender",
            Self::FarEnd => "far end of the veth",
            Self::Receiver => "ingress of the receiver",
        })
    }
}

/// Results of a stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageReport {
    /// The stage.
    pub stage: OrderStage,
    /// The counts.
    pub counts: OrderCounts,
    /// The first late packets.
    pub late: Vec<LatePacket>,
}

/// The checks of a path, in the order in which packets pass them.
#[derive(Debug)]
pub struct Stages {
    checks: Vec<(OrderStage, OrderCheck)>,
}

impl Stages {
    /// Attaches a check to each stage of the path. Queue assignment must be attached already
    /// ([`OrderCheck::attach`]).
    ///
    ///
    /// # Errors
    /// Fails when a device does not exist, or the kernel refuses the program.
    pub fn attach(path: &PacketPath<'_>) -> Result<Self, OrderError> {
        let all = [
            (OrderStage::Egress, Some(path.sender), Hook::Egress),
            (OrderStage::FarEnd, path.far, Hook::Ingress),
            (OrderStage::Receiver, Some(path.receiver), Hook::Ingress),
        ];
        let there = all.into_iter().filter_map(|(stage, device, hook)| Some((stage, device?, hook)));
        let checks = there
            .map(|(stage, (ns, link), hook)| Ok((stage, OrderCheck::attach(ns, link, hook)?)))
            .collect::<Result<_, OrderError>>()?;
        Ok(Self { checks })
    }

    /// Returns the counts of a stage; `None` if it is not on the path.
    pub fn counts(&self, stage: OrderStage) -> Option<OrderCounts> {
        self.checks.iter().find(|(s, _)| *s == stage).map(|(_, check)| check.counts())
    }

    /// Returns the results of each stage so far.
    pub fn report(&self) -> Vec<StageReport> {
        let report = |(stage, check): &(OrderStage, OrderCheck)| StageReport {
            stage: *stage,
            counts: check.counts(),
            late: check.late(),
        };
        self.checks.iter().map(report).collect()
    }

    /// Frees entries at all stages: [`OrderCheck::forget_closed`].
    pub fn forget_closed(&self, idle: Duration) {
        for (_, check) in &self.checks {
            check.forget_closed(idle);
        }
    }
}
