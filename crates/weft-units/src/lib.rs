//! Units and identities shared by every floor of weftline.
//!
//! A quantity that crosses a boundary has a type that says what it is: [`Bytes`], [`BitsPerSec`], [`Packets`]; a point in
//! time is an [`Instant`], a span of time is [`Nanos`]. An identity is a dense index with a type of its own ([`TxQueueId`], [`RxQueueId`], [`FlowId`], ...),
//! so that the number of a queue can never be taken for that of a flow, nor a transmit queue for a receive queue. The formulas that join them stand here, once.
#![forbid(unsafe_code)]

mod exact_rate;
mod ids;
mod instant;
mod packet;
mod quantity;
#[doc(hidden)]
pub mod testing;

pub use exact_rate::{BIT_NANOS_PER_BYTE, ExactRate};
pub use ids::{ClassId, FlowId, LaneId, LeafId, LimitId, LoggedFlowId, NodeId, RingId, RxQueueId, TxQueueId};
pub use instant::Instant;
pub use packet::{FlowKey, PacketMeta, Protocol};
pub use quantity::{BitsPerSec, Bytes, Nanos, Packets, ParseUnitError, Weight};
