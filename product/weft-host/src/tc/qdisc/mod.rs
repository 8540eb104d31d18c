//! Queueing disciplines with typed parameters, in the binary form of their options and back.

mod fq;
mod fq_codel;
mod htb;
mod prio;
mod sfq;
mod tbf;
#[cfg(test)]
mod tests;

use weft_units::{Bytes, Packets};

pub use fq::Fq;
pub use fq_codel::FqCodel;
pub use htb::Htb;
pub(super) use htb::direct_packets;
pub use prio::Prio;
pub use sfq::Sfq;
pub use tbf::Tbf;

use super::error::{Result, TcError};
use super::wire::{raw, u32_of, word};

/// A queueing discipline with its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Qdisc {
    /// Hierarchical token bucket.
    Htb(Htb),
    /// Token bucket filter.
    Tbf(Tbf),
    /// A qdisc for each transmit queue: queue `q` is class `q + 1` (`mq_attach`, net/sched/sch_mq.c).
    Mq,
    /// Deficit round robin. A packet that no filter and no `skb->priority` gives a class is dropped (`drr_enqueue`).
    Drr,
    /// Strict priority between bands.
    Prio(Prio),
    /// Hierarchical fair service curves.
    Hfsc {
        /// The minor number of the class for packets that name none, which are dropped if it does not exist (`hfsc_enqueue`).
        default_class: u16,
    },
    /// Fair queueing with controlled delay.
    FqCodel(FqCodel),
    /// Fair queueing with departure times.
    Fq(Box<Fq>),
    /// A FIFO bounded in packets.
    Pfifo {
        /// Its length; `None` for the device's txqueuelen (`fifo_init`, net/sched/sch_fifo.c).
        limit: Option<Packets>,
    },
    /// A FIFO bounded in bytes.
    Bfifo {
        /// Its length; `None` for the device's txqueuelen of largest packets.
        limit: Option<Bytes>,
    },
    /// Three FIFOs by priority, each as long as the device's txqueuelen; it has no parameters (net/sched/sch_generic.c).
    PfifoFast,
    /// Stochastic fair queueing.
    Sfq(Sfq),
    /// The place of filters at a device's ingress.
    Ingress,
    /// The place of filters at a device's ingress and egress.
    Clsact,
    /// None: packets go to the device at once. The kernel puts it there by itself; here it is only read.
    Noqueue,
    /// Another kind, or parameters that have no type here.
    Other {
        /// Its kind.
        kind: String,
        /// Its options (`TCA_OPTIONS`); empty for none.
        options: Vec<u8>,
    },
}

impl Qdisc {
    /// The kind, as `tc` writes it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Htb(_) => "htb",
            Self::Tbf(_) => "tbf",
            Self::Mq => "mq",
            Self::Drr => "drr",
            Self::Prio(_) => "prio",
            Self::Hfsc { .. } => "hfsc",
            Self::FqCodel(_) => "fq_codel",
            Self::Fq(_) => "fq",
            Self::Pfifo { .. } => "pfifo",
            Self::Bfifo { .. } => "bfifo",
            Self::PfifoFast => "pfifo_fast",
            Self::Sfq(_) => "sfq",
            Self::Ingress => "ingress",
            Self::Clsact => "clsact",
            Self::Noqueue => "noqueue",
            Self::Other { kind, .. } => kind,
        }
    }

    /// Returns the options (`TCA_OPTIONS`) that make this qdisc; empty for none.
    ///
    /// # Errors
    /// [`TcError::Invalid`] for a value that the kernel's field cannot hold, and for `noqueue`.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let fifo = |object, limit: Option<u64>| match limit {
            Some(limit) => Ok(word(object, "limit", limit)?.to_ne_bytes().to_vec()),
            None => Ok(Vec::new()),
        };
        match self {
            Self::Htb(htb) => htb.encode(),
            Self::Tbf(tbf) => tbf.encode(),
            Self::Prio(prio) => prio.encode(),
            // `struct tc_hfsc_qopt`.
            Self::Hfsc { default_class } => Ok(default_class.to_ne_bytes().to_vec()),
            Self::FqCodel(fq_codel) => fq_codel.encode(),
            Self::Fq(fq) => fq.encode(),
            // `struct tc_fifo_qopt`, without attributes inside.
            Self::Pfifo { limit } => fifo("pfifo", limit.map(Packets::get)),
            Self::Bfifo { limit } => fifo("bfifo", limit.map(Bytes::get)),
            Self::Sfq(sfq) => sfq.encode(),
            Self::Mq | Self::Drr | Self::PfifoFast | Self::Ingress | Self::Clsact => Ok(Vec::new()),
            Self::Noqueue => Err(TcError::invalid(
                "noqueue",
                "the kernel puts it there by itself when the root is deleted",
            )),
            Self::Other { options, .. } => raw("qdisc", options),
        }
    }

    /// Reads a kind and its options. Parameters that have no type here are kept as [`Qdisc::Other`].
    pub fn decode(kind: &str, options: &[u8]) -> Self {
        let other = || Self::Other { kind: kind.to_owned(), options: options.to_vec() };
        Self::typed(kind, options).unwrap_or_else(other)
    }

    fn typed(kind: &str, options: &[u8]) -> Option<Self> {
        let limit = || match options {
            [] => Some(None),
            limit => u32_of(limit).map(|limit| Some(u64::from(limit))),
        };
        let empty = |qdisc| options.is_empty().then_some(qdisc);
        match kind {
            "htb" => Htb::decode(options).map(Self::Htb),
            "tbf" => Tbf::decode(options).map(Self::Tbf),
            "mq" => empty(Self::Mq),
            "drr" => empty(Self::Drr),
            "prio" => Prio::decode(options).map(Self::Prio),
            "hfsc" => {
                let default_class = u16::from_ne_bytes(options.try_into().ok()?);
                Some(Self::Hfsc { default_class })
            }
            "fq_codel" => FqCodel::decode(options).map(Self::FqCodel),
            "fq" => Fq::decode(options).map(|fq| Self::Fq(Box::new(fq))),
            "pfifo" => Some(Self::Pfifo { limit: limit()?.map(Packets) }),
            "bfifo" => Some(Self::Bfifo { limit: limit()?.map(Bytes) }),
            // Its dump has the map of its bands, which is a constant.
            "pfifo_fast" => Some(Self::PfifoFast),
            "sfq" => Sfq::decode(options).map(Self::Sfq),
            "ingress" => empty(Self::Ingress),
            "clsact" => empty(Self::Clsact),
            "noqueue" => empty(Self::Noqueue),
            _ => None,
        }
    }
}
