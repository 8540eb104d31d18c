//! Streams and their sending sockets.

use crate::ids::{CoreId, FlowNumber, HostId};
use weft_units::TxQueueId;

/// The constant properties of a stream: one direction of a connection, of datagrams, or of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// The sending host.
    pub(crate) from: HostId,
    /// The receiving host.
    pub(crate) to: HostId,
    /// The core of the sending application.
    pub(crate) core: CoreId,
    pub(crate) class: u16,
    pub(crate) band: u8,
    pub(crate) weight: u32,
    pub(crate) hash: u32,
    /// The NIC's traffic class; the stream only uses the queues of this class.
    pub(crate) traffic_class: Option<u32>,
    /// The flow whose data it carries; `None` for probes and for streams of acknowledgements only.
    pub(crate) flow: Option<FlowNumber>,
}

/// The part of a sending socket that the layers below TCP use.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Socket {
    /// Its transmit queue, once assigned.
    pub(crate) queue: Option<TxQueueId>,
    /// Number of segments in qdisc and ring.
    pub(crate) outstanding: u32,
    /// Truesize of segments in qdisc and ring (`sk_wmem_alloc`).
    pub(crate) charged: u64,
    /// The core that touched it last.
    pub(crate) touched: Option<CoreId>,
}
