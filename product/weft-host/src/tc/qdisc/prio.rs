//! Strict priority between bands (net/sched/sch_prio.c).

use crate::netlink::u32_at;
use crate::tc::error::{Result, TcError};

const KIND: &str = "prio";
/// `struct tc_prio_qopt`: bands, and a band for each priority (`TC_PRIO_MAX` + 1).
const LEN: usize = 20;
/// `TCQ_MIN_PRIO_BANDS` and `TCQ_PRIO_BANDS`.
const BANDS: core::ops::RangeInclusive<u8> = 2..=16;

/// Strict priority between bands, each of which is a class with a qdisc: band `b` is class `b + 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prio {
    /// The number of bands, 2 to 16; band 0 is served first.
    pub bands: u8,
    /// The band of a packet without a class, by the lower four bits of its `skb->priority` (`prio_classify`).
    pub priomap: [u8; 16],
}

impl Default for Prio {
    /// The bands of `tc` without parameters, which are those of `pfifo_fast` (`prio2band`).
    fn default() -> Self {
        Self { bands: 3, priomap: [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1] }
    }
}

impl Prio {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        if !self.is_valid() {
            let why = "there must be 2 to 16 bands, and each priority must have one of them";
            return Err(TcError::invalid(KIND, why));
        }
        Ok([&u32::from(self.bands).to_ne_bytes()[..], &self.priomap].concat())
    }

    fn is_valid(&self) -> bool {
        BANDS.contains(&self.bands) && self.priomap.iter().all(|band| *band < self.bands)
    }

    /// Reads the options. `tc` appends an empty attribute to the structure, which the kernel does not read.
    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let priomap = options.get(4..LEN)?.try_into().ok()?;
        let prio = Self { bands: u8::try_from(u32_at(options, 0)).ok()?, priomap };
        prio.is_valid().then_some(prio)
    }
}
