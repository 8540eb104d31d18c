//! Classes with typed parameters, in the binary form of their options and back.

mod hfsc;
mod htb;
#[cfg(test)]
mod tests;

use weft_units::Bytes;

pub use hfsc::{HfscClass, ServiceCurve};
pub use htb::HtbClass;

use super::error::{Result, TcError};
use super::wire::{Options, TYPE_MASK, raw, u32_of};
use crate::netlink::attributes;

const TCA_DRR_QUANTUM: u16 = 1;

/// A class with its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// Of a hierarchical token bucket.
    Htb(HtbClass),
    /// Of deficit round robin (net/sched/sch_drr.c).
    Drr {
        /// The bytes of its turn, which is its weight; `None` for the MTU with its header (`drr_change_class`).
        quantum: Option<Bytes>,
    },
    /// Of hierarchical fair service curves.
    Hfsc(HfscClass),
    /// Of another kind, or with parameters that have no type here.
    Other {
        /// The kind of its qdisc.
        kind: String,
        /// Its options (`TCA_OPTIONS`); empty for none.
        options: Vec<u8>,
    },
}

impl Class {
    /// The kind of its qdisc, as `tc` writes it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Htb(_) => "htb",
            Self::Drr { .. } => "drr",
            Self::Hfsc(_) => "hfsc",
            Self::Other { kind, .. } => kind,
        }
    }

    /// Returns the options (`TCA_OPTIONS`) that make this class; empty for none.
    ///
    /// # Errors
    /// [`TcError::Invalid`] for a value that the kernel's field cannot hold.
    pub fn encode(&self) -> Result<Vec<u8>> {
        match self {
            Self::Htb(class) => class.encode(),
            Self::Drr { quantum: Some(Bytes(0)) } => {
                Err(TcError::invalid("drr class", "its quantum must be at least 1 byte"))
            }
            Self::Drr { quantum } => {
                let options = Options::of("drr class");
                Ok(options.word(TCA_DRR_QUANTUM, "quantum", quantum.map(Bytes::get))?.bytes())
            }
            Self::Hfsc(class) => class.encode(),
            Self::Other { options, .. } => raw("class", options),
        }
    }

    /// Reads the kind of a class and its options. Parameters that have no type here are kept as [`Class::Other`].
    pub fn decode(kind: &str, options: &[u8]) -> Self {
        let typed = match kind {
            "htb" => HtbClass::decode(options).map(Self::Htb),
            "drr" => drr(options),
            "hfsc" => HfscClass::decode(options).map(Self::Hfsc),
            _ => None,
        };
        typed.unwrap_or_else(|| Self::Other { kind: kind.to_owned(), options: options.to_vec() })
    }
}

fn drr(options: &[u8]) -> Option<Class> {
    let mut quantum = None;
    for (kind, value) in attributes(options) {
        match kind & TYPE_MASK {
            TCA_DRR_QUANTUM => quantum = Some(Bytes(u32_of(value)?.into())),
            _ => return None,
        }
    }
    Some(Class::Drr { quantum })
}
