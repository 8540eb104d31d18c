//! Streams, and the sockets that send them.

use crate::ids::{CoreId, FlowNumber, HostId};
use weft_units::TxQueueId;

/// The facts of a stream, which never change: one direction of a connection, a stream of datagrams, or of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Host that sends.
    pub(crate) from: HostId,
    /// Host that receives.
    pub(crate) to: HostId,
    /// Core of the application at the sending side.
    pub(crate) core: CoreId,
    pub(crate) class: u16,
    pub(crate) band: u8,
    pub(crate) weight: u32,
    pub(crate) hash: u32,
    /// The NIC's traffic class, whose queues alone it uses.
    pub(crate) traffic_class: Option<u32>,
    /// The flow whose data it carries; none for acknowledgements only and probes.
    pub(crate) flow: Option<FlowNumber>,
}

/// The sending side's socket of a stream, as far as the layers below TCP know it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Socket {
    /// Its transmit queue, where it has one.
    pub(crate) queue: Option<TxQueueId>,
    /// Segments in qdisc and ring.
    pub(crate) outstanding: u32,
    /// Truesize of segments in qdisc and ring (`sk_wmem_alloc`).
    pub(crate) charged: u64,
    /// The core that touched it last.
    pub(crate) touched: Option<CoreId>,
}
