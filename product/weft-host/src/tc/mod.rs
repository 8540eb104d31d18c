//! Traffic control: the qdiscs, classes and filters of a device, through netlink.
//!
//! A [`TcDevice`] reads and changes them. An [`TcObject`] is a [`Qdisc`], a [`Class`] or a [`Filter`] at its place; places are named by
//! [`Handle`]s. Quantities have units; the kernel's fields, of which many are bytes per second or microseconds in 32 bits, are
//! made from them in one place each, beside the type.
//!
//! Qdiscs, classes and filters of others are left alone: an object is added only where none is, except by [`TcAction::Replace`]; a filter is
//! deleted by priority and number; a `clsact` is deleted only if it is empty. What others have put at the root is kept by
//! [`TcDevice::save`].
//!
//! Install qdiscs while the device is down, where that is possible: each change of a device that is up stops all its queues for a
//! moment.

mod class;
mod counters;
mod device;
mod error;
mod filter;
mod handle;
mod kinds;
mod message;
mod object;
mod qdisc;
mod saved;
mod wire;

pub use class::{Class, HfscClass, HtbClass, ServiceCurve};
pub use counters::QdiscCounters;
pub use device::{ClassFound, QdiscFound, TcDevice, filters};
pub use error::{Family, Result, TcError};
pub use filter::{
    BpfProgram, ETH_P_ALL, ETH_P_IP, Filter, FilterAction, FilterFound, FilterRule, U32Key, free_priority,
};
pub use handle::{Handle, ParseHandleError};
pub use kinds::{EgressKinds, in_this_kernel};
pub use message::TcPlace;
pub use object::{TcAction, TcObject};
pub use qdisc::{Fq, FqCodel, Htb, Prio, Qdisc, Sfq, Tbf};
pub use saved::Saved;
