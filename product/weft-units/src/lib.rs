//! Units and identities shared by all floors of weftline.
//!
//! A quantity that crosses a boundary has its own type: [`Bytes`], [`BitsPerSec`], [`Packets`]. A point in time is an
//! [`Instant`], a span of time is [`Nanos`]. An identity is a dense index with its own type ([`TxQueueId`], [`RxQueueId`],
//! [`FlowId`], ...), so that a queue's number cannot be mistaken for a flow's, nor a transmit queue for a receive queue. The formulas
//! that join quantities are defined here, once.
#![forbid(unsafe_code)]

mod counted;
mod exact_rate;
mod ids;
mod instant;
mod link_transmitter;
pub mod meant;
mod packet;
mod quantity;
#[doc(hidden)]
pub mod testing;

pub use counted::Counted;
pub use exact_rate::{BIT_NANOS_PER_BYTE, Divided, ExactRate};
pub use ids::{ClassId, FlowId, LaneId, LeafId, LimitId, LoggedFlowId, NodeId, RingId, RxQueueId, TxQueueId};
pub use instant::Instant;
pub use link_transmitter::LinkTransmitter;
pub use packet::{FlowKey, PacketMeta, ProcessName, Protocol, VlanTag};
pub use quantity::{BitsPerSec, Bytes, Nanos, Packets, ParseUnitError, Weight};
