//! A class of hierarchical fair service curves (net/sched/sch_hfsc.c).

use weft_units::{BitsPerSec, Nanos};

use crate::netlink::{attributes, u32_at};
use crate::tc::error::{Result, TcError};
use crate::tc::wire::{Options, TYPE_MASK, byte_rate, micros, of_byte_rate, of_micros};

const KIND: &str = "hfsc class";
/// `TCA_HFSC_RSC`, `TCA_HFSC_FSC`, `TCA_HFSC_USC`.
const REAL_TIME: u16 = 1;
const LINK_SHARE: u16 = 2;
const UPPER_LIMIT: u16 = 3;
/// `struct tc_service_curve`: m1 in bytes per second, d in microseconds, m2.
const CURVE_LEN: usize = 12;

/// A service curve of two slopes. Rates are whole bytes per second below 34.3 Gb/s; the kernel keeps them with a grain of some
/// bytes per second (`m2sm`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceCurve {
    /// The slope at first.
    pub first: BitsPerSec,
    /// The time until the second slope, in whole microseconds.
    pub until: Nanos,
    /// The slope from then on.
    pub then: BitsPerSec,
}

impl ServiceCurve {
    /// Returns the curve of a constant rate.
    pub const fn constant(rate: BitsPerSec) -> Self {
        Self { first: BitsPerSec::ZERO, until: Nanos::ZERO, then: rate }
    }
}

/// A class of hierarchical fair service curves. A message has only the curves that are given, and `hfsc_change_class` keeps the others. A
/// change of `link_share`, even to the same curve, starves a class that was held at its upper limit for about as long as it was
/// held: give only the curve that changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HfscClass {
    /// The guarantee (`rt`), for classes without children. It ignores the upper limits above it.
    pub real_time: Option<ServiceCurve>,
    /// The share of spare capacity (`ls`).
    pub link_share: Option<ServiceCurve>,
    /// The limit (`ul`), which needs a `link_share`.
    pub upper_limit: Option<ServiceCurve>,
}

impl HfscClass {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let curves =
            [(REAL_TIME, self.real_time), (LINK_SHARE, self.link_share), (UPPER_LIMIT, self.upper_limit)];
        let mut options = Options::of(KIND);
        for (attribute, curve) in curves.into_iter().filter_map(|(at, curve)| Some((at, curve?))) {
            let words = [
                byte_rate(KIND, "first slope", curve.first)?,
                micros(KIND, "time of a slope", curve.until)?,
                byte_rate(KIND, "second slope", curve.then)?,
            ];
            options = options.with(attribute, &words.map(u32::to_ne_bytes).concat());
        }
        match *self == Self::default() {
            true => Err(TcError::invalid(KIND, "it needs a curve")),
            false => Ok(options.bytes()),
        }
    }

    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let mut class = Self::default();
        for (kind, value) in attributes(options) {
            let place = match kind & TYPE_MASK {
                REAL_TIME => &mut class.real_time,
                LINK_SHARE => &mut class.link_share,
                UPPER_LIMIT => &mut class.upper_limit,
                _ => return None,
            };
            *place = Some(curve(value)?);
        }
        (class != Self::default()).then_some(class)
    }
}

fn curve(value: &[u8]) -> Option<ServiceCurve> {
    let rate = |at| of_byte_rate(u32_at(value, at).into());
    (value.len() == CURVE_LEN).then(|| ServiceCurve {
        first: rate(0),
        until: of_micros(u32_at(value, 4)),
        then: rate(8),
    })
}
