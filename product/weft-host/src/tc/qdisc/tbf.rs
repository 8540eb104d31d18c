//! The token bucket filter (net/sched/sch_tbf.c): a link of a known rate with one FIFO of a known number of bytes.

use weft_units::{BitsPerSec, Bytes};

use crate::netlink::{attributes, u32_at};
use crate::tc::error::{Result, TcError};
use crate::tc::wire::{Options, RateSpec, TYPE_MASK, bytes_of_ticks, ticks, u32_of, u64_of, word};

const KIND: &str = "tbf";
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_TBF_RTAB: u16 = 2;
/// `struct tc_tbf_qopt`: rate, peak rate, limit, depth in ticks, the depth at the peak rate.
const PARMS_LEN: usize = 36;

/// A token bucket filter. It makes its FIFO itself, a `bfifo` of `limit` bytes (`tbf_change`), and drops an arriving packet that does
/// not fit whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tbf {
    /// The rate of the link. The kernel counts whole bytes per second.
    pub rate: BitsPerSec,
    /// Bytes added to each packet for framing on the wire: 24 for Ethernet (preamble 8, checksum 4, gap 12). It counts
    /// towards the rate, not the queue.
    pub overhead: u16,
    /// The depth of the bucket, which may pass at once after a pause. At least the largest frame with its overhead. The kernel keeps it as
    /// a time in ticks of 64 ns, so that above 125 Mb/s some bytes less are read back.
    pub burst: Bytes,
    /// The length of the FIFO in bytes of frames.
    pub limit: Bytes,
}

impl Tbf {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let at_least_one = |what: &str, bytes: Bytes| match word(KIND, what, bytes.0)? {
            0 => Err(TcError::invalid(KIND, format!("the {what} must be at least 1 byte"))),
            word => Ok(word),
        };
        let (limit, burst) = (at_least_one("limit", self.limit)?, at_least_one("burst", self.burst)?);
        if self.rate.0 < 8 {
            return Err(TcError::invalid(KIND, "the link needs a rate of at least 8 b/s"));
        }
        let mut parameters = [0; PARMS_LEN];
        parameters[..RateSpec::LEN].copy_from_slice(&self.spec().bytes());
        parameters[24..28].copy_from_slice(&limit.to_ne_bytes());
        parameters[28..32].copy_from_slice(&ticks(self.rate, self.burst).to_ne_bytes());
        let options = Options::of(KIND)
            .with(TCA_TBF_PARMS, &parameters)
            .with(TCA_TBF_RATE64, &(self.rate.0 / 8).to_ne_bytes())
            .with(TCA_TBF_BURST, &burst.to_ne_bytes());
        Ok(options.bytes())
    }

    fn spec(&self) -> RateSpec {
        RateSpec { rate: self.rate, overhead: self.overhead, mpu: 0 }
    }

    /// Reads the options; `None` with a peak rate or a least packet, which this type lacks.
    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let (mut parameters, mut wide, mut burst) = (None, None, None);
        for (kind, value) in attributes(options) {
            match kind & TYPE_MASK {
                TCA_TBF_PARMS if value.len() == PARMS_LEN => parameters = Some(value),
                TCA_TBF_RATE64 => wide = Some(u64_of(value)?),
                TCA_TBF_BURST => burst = Some(Bytes(u32_of(value)?.into())),
                TCA_TBF_RTAB => {}
                _ => return None,
            }
        }
        let parameters = parameters?;
        let spec = RateSpec::parse(parameters, wide)?;
        let of_ticks = || {
            // The kernel's depth includes the overhead of one packet (`psched_l2t_ns`).
            let depth = bytes_of_ticks(spec.rate, u32_at(parameters, 28));
            depth.saturating_sub(Bytes(spec.overhead.into()))
        };
        let tbf = Self {
            rate: spec.rate,
            overhead: spec.overhead,
            burst: burst.unwrap_or_else(of_ticks),
            limit: Bytes(u32_at(parameters, 24).into()),
        };
        (u32_at(parameters, 20) == 0 && spec == tbf.spec()).then_some(tbf)
    }
}
