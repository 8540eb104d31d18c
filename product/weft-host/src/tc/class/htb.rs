//! A class of a hierarchical token bucket (net/sched/sch_htb.c).

use weft_units::{BitsPerSec, Bytes};

use crate::netlink::{attributes, u32_at};
use crate::tc::error::{Result, TcError};
use crate::tc::wire::{Options, RateSpec, TYPE_MASK, bytes_of_ticks, ticks, u64_of, word};

const KIND: &str = "htb class";
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_CTAB: u16 = 3;
const TCA_HTB_RTAB: u16 = 4;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// `struct tc_htb_opt`: rate, ceil, their depths in ticks, quantum, level, prio.
const PARMS_LEN: usize = 44;
/// `TC_HTB_NUMPRIO`.
const PRIORITIES: u8 = 8;

/// A class of a hierarchical token bucket. A change must repeat all its values: `htb_change_class` sets those that are left away to
/// their defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HtbClass {
    /// Its guaranteed rate, at least 8 b/s. The kernel counts whole bytes per second.
    pub rate: BitsPerSec,
    /// Its maximum rate, which it can use when others leave capacity.
    pub ceil: BitsPerSec,
    /// The depth of its bucket at `rate`, kept by the kernel as a time in ticks of 64 ns: above 125 Mb/s some bytes less are read back.
    pub burst: Bytes,
    /// The depth of its bucket at `ceil`, likewise.
    pub cburst: Bytes,
    /// The order in which spare capacity is offered, lowest first; 0 to 7. It counts only for classes without children.
    pub priority: u8,
    /// Its share of spare capacity: bytes per round. `None` for its rate divided by the root's `rate_to_quantum`.
    pub quantum: Option<Bytes>,
    /// Bytes added to each packet for framing on the wire: 24 for Ethernet (preamble 8, checksum 4, gap 12). The kernel adds it
    /// once for each packet at the qdisc, and therefore once for an uncut segment.
    pub overhead: u16,
    /// The least that a packet counts for, in bytes.
    pub mpu: u16,
}

impl HtbClass {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let invalid = |why: &str| Err(TcError::invalid(KIND, why));
        if self.rate.0 < 8 || self.ceil.0 < self.rate.0 {
            return invalid("it needs a rate of at least 8 b/s, and a ceil that is not below it");
        }
        if self.priority >= PRIORITIES || self.quantum == Some(Bytes::ZERO) {
            return invalid("its priority must be 0 to 7, and its quantum at least 1 byte");
        }
        let quantum = word(KIND, "quantum", self.quantum.map_or(0, Bytes::get))?;
        let mut parameters = Vec::with_capacity(PARMS_LEN);
        parameters.extend(self.spec(self.rate).bytes());
        parameters.extend(self.spec(self.ceil).bytes());
        let depths = [ticks(self.rate, self.burst), ticks(self.ceil, self.cburst)];
        let words = [depths[0], depths[1], quantum, 0, self.priority.into()];
        parameters.extend(words.into_iter().flat_map(u32::to_ne_bytes));
        let options = Options::of(KIND)
            .with(TCA_HTB_PARMS, &parameters)
            .with(TCA_HTB_RATE64, &(self.rate.0 / 8).to_ne_bytes())
            .with(TCA_HTB_CEIL64, &(self.ceil.0 / 8).to_ne_bytes());
        Ok(options.bytes())
    }

    fn spec(&self, rate: BitsPerSec) -> RateSpec {
        RateSpec { rate, overhead: self.overhead, mpu: self.mpu }
    }

    /// Reads the options. Rate tables follow from the rates.
    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let (mut parameters, mut wide) = (None, [None; 2]);
        for (kind, value) in attributes(options) {
            match kind & TYPE_MASK {
                TCA_HTB_PARMS if value.len() == PARMS_LEN => parameters = Some(value),
                TCA_HTB_RATE64 => wide[0] = Some(u64_of(value)?),
                TCA_HTB_CEIL64 => wide[1] = Some(u64_of(value)?),
                TCA_HTB_CTAB | TCA_HTB_RTAB => {}
                _ => return None,
            }
        }
        let parameters = parameters?;
        let (rate, ceil) = parameters.split_at(RateSpec::LEN);
        let (rate, ceil) = (RateSpec::parse(rate, wide[0])?, RateSpec::parse(ceil, wide[1])?);
        let class = Self {
            rate: rate.rate,
            ceil: ceil.rate,
            burst: bytes_of_ticks(rate.rate, u32_at(parameters, 24)),
            cburst: bytes_of_ticks(ceil.rate, u32_at(parameters, 28)),
            priority: u8::try_from(u32_at(parameters, 40)).ok()?,
            quantum: Some(Bytes(u32_at(parameters, 32).into())).filter(|quantum| quantum.0 > 0),
            overhead: rate.overhead,
            mpu: rate.mpu,
        };
        (ceil == class.spec(ceil.rate)).then_some(class)
    }
}
