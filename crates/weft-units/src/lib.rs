//! Units and identities shared by every floor of weftline.
//!
//! A quantity that crosses a boundary has a type that says what it is: [`Bytes`], [`BitsPerSec`], [`Packets`]; a point in
//! time is an [`Instant`], a span of time is [`Nanos`]. An identity is a dense index with a type of its own ([`QueueId`], [`FlowId`], ...), so that a queue
//! number can never be taken for a flow number. The formulas that join them stand here, once.
#![forbid(unsafe_code)]

mod exact_rate;
mod ids;
mod instant;
mod packet;
mod quantity;
#[doc(hidden)]
pub mod testing;

pub use exact_rate::{BIT_NANOS_PER_BYTE, ExactRate};
pub use ids::{ClassId, FlowId, LaneId, LeafId, LimitId, NodeId, QueueId};
pub use instant::Instant;
pub use packet::{FlowKey, PacketMeta, Protocol};
pub use quantity::{BitsPerSec, Bytes, Nanos, Packets, ParseUnitError, Weight};
