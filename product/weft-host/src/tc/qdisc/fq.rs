//! Fair queueing with departure times (net/sched/sch_fq.c).

use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

use crate::netlink::{attributes, u32_at};
use crate::tc::error::Result;
use crate::tc::wire::{Options, TYPE_MASK, of_byte_rate, of_micros, u32_of};

const KIND: &str = "fq";
/// `TCA_FQ_*` of `linux/pkt_sched.h`.
const LIMIT: u16 = 1;
const FLOW_LIMIT: u16 = 2;
const QUANTUM: u16 = 3;
const INITIAL_QUANTUM: u16 = 4;
const RATE_ENABLE: u16 = 5;
const FLOW_MAX_RATE: u16 = 7;
const BUCKETS_LOG: u16 = 8;
const REFILL_DELAY: u16 = 9;
const ORPHAN_MASK: u16 = 10;
const LOW_RATE_THRESHOLD: u16 = 11;
const CE_THRESHOLD: u16 = 12;
const TIMER_SLACK: u16 = 13;
const HORIZON: u16 = 14;
const HORIZON_DROP: u16 = 15;
const PRIOMAP: u16 = 16;
const WEIGHTS: u16 = 17;
const OFFLOAD_HORIZON: u16 = 18;
/// `FQ_BANDS`: the only number of bands that the kernel accepts.
const BANDS: u32 = 3;

/// Fair queueing that sends packets at their departure times (`skb->tstamp`). `None` leaves a value as it is, or in a new qdisc at the
/// kernel's default (`fq_init`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fq {
    /// The packets of all flows; by default 10000.
    pub limit: Option<Packets>,
    /// The packets of a flow; by default 100.
    pub flow_limit: Option<Packets>,
    /// The bytes of a flow's turn; by default two full packets.
    pub quantum: Option<Bytes>,
    /// The bytes of a flow's first turn; by default ten full packets.
    pub initial_quantum: Option<Bytes>,
    /// Whether TCP's rates are enforced; by default they are.
    pub pacing: Option<bool>,
    /// The most that a flow may send, below 34.3 Gb/s. The kernel reads the largest value, 2^32 - 1 bytes per second, as none.
    pub max_rate: Option<BitsPerSec>,
    /// The binary logarithm of the number of buckets of the table of flows; by default 10.
    pub buckets_log: Option<u8>,
    /// The pause after which a flow gets its first turn's bytes again, in whole microseconds; by default 40 ms.
    pub refill_delay: Option<Nanos>,
    /// The mask of hashes of packets without a socket; by default 1023.
    pub orphan_mask: Option<u32>,
    /// The rate below which each packet waits for the next one's time; by default 550 kb/s.
    pub low_rate_threshold: Option<BitsPerSec>,
    /// The delay above which packets are marked, in whole microseconds; by default none.
    pub ce_threshold: Option<Nanos>,
    /// The lateness that timers may have; by default 10 us.
    pub timer_slack: Option<Nanos>,
    /// The time beyond which a departure time is not accepted, in whole microseconds; by default 10 s.
    pub horizon: Option<Nanos>,
    /// Whether packets beyond the horizon are dropped, or else sent at it; by default they are.
    pub horizon_drop: Option<bool>,
    /// The band, 0 to 2, of each priority (Linux 6.7 and later).
    pub priomap: Option<[u8; 16]>,
    /// The weights of the three bands, in bytes of a turn (Linux 6.7 and later).
    pub weights: Option<[Bytes; 3]>,
    /// The departure times that are left to the device, in whole microseconds (Linux 6.13 and later).
    pub offload_horizon: Option<Nanos>,
}

impl Fq {
    /// Returns the attributes in the order in which `tc` sends them.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut options = Options::of(KIND)
            .word(BUCKETS_LOG, "number of buckets", self.buckets_log.map(u64::from))?
            .word(LIMIT, "limit", self.limit.map(Packets::get))?
            .word(FLOW_LIMIT, "limit of a flow", self.flow_limit.map(Packets::get))?
            .word(QUANTUM, "quantum", self.quantum.map(Bytes::get))?
            .word(INITIAL_QUANTUM, "initial quantum", self.initial_quantum.map(Bytes::get))?
            .word(RATE_ENABLE, "pacing", self.pacing.map(u64::from))?
            .byte_rate(FLOW_MAX_RATE, "rate of a flow", self.max_rate)?
            .byte_rate(LOW_RATE_THRESHOLD, "low rate", self.low_rate_threshold)?
            .micros(REFILL_DELAY, "delay of refills", self.refill_delay)?
            .word(ORPHAN_MASK, "mask", self.orphan_mask.map(u64::from))?
            .micros(CE_THRESHOLD, "threshold of marks", self.ce_threshold)?
            .word(TIMER_SLACK, "slack of timers", self.timer_slack.map(Nanos::get))?
            .micros(HORIZON, "horizon", self.horizon)?;
        if let Some(drop) = self.horizon_drop {
            options = options.with(HORIZON_DROP, &[drop.into()]);
        }
        if let Some(map) = self.priomap {
            options = options.with(PRIOMAP, &[&BANDS.to_ne_bytes()[..], &map].concat());
        }
        if let Some(weights) = self.weights {
            let mut field = Vec::new();
            for weight in weights {
                field.extend(crate::tc::wire::word(KIND, "weight", weight.0)?.to_ne_bytes());
            }
            options = options.with(WEIGHTS, &field);
        }
        Ok(options.micros(OFFLOAD_HORIZON, "offloaded horizon", self.offload_horizon)?.bytes())
    }

    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let mut read = Self::default();
        for (kind, value) in attributes(options) {
            match kind & TYPE_MASK {
                HORIZON_DROP => read.horizon_drop = Some(*value.first().filter(|_| value.len() == 1)? != 0),
                PRIOMAP if u32_at(value, 0) == BANDS => read.priomap = Some(value.get(4..)?.try_into().ok()?),
                WEIGHTS if value.len() == 12 => {
                    read.weights = Some([0, 4, 8].map(|at| Bytes(u32_at(value, at).into())));
                }
                kind => read.set(kind, u32_of(value)?)?,
            }
        }
        Some(read)
    }

    /// Sets a field of 32 bits.
    fn set(&mut self, kind: u16, value: u32) -> Option<()> {
        let wide = u64::from(value);
        match kind {
            LIMIT => self.limit = Some(Packets(wide)),
            FLOW_LIMIT => self.flow_limit = Some(Packets(wide)),
            QUANTUM => self.quantum = Some(Bytes(wide)),
            INITIAL_QUANTUM => self.initial_quantum = Some(Bytes(wide)),
            RATE_ENABLE => self.pacing = Some(value != 0),
            FLOW_MAX_RATE => self.max_rate = Some(of_byte_rate(wide)),
            BUCKETS_LOG => self.buckets_log = Some(u8::try_from(value).ok()?),
            REFILL_DELAY => self.refill_delay = Some(of_micros(value)),
            ORPHAN_MASK => self.orphan_mask = Some(value),
            LOW_RATE_THRESHOLD => self.low_rate_threshold = Some(of_byte_rate(wide)),
            CE_THRESHOLD => self.ce_threshold = Some(of_micros(value)),
            TIMER_SLACK => self.timer_slack = Some(Nanos(wide)),
            HORIZON => self.horizon = Some(of_micros(value)),
            OFFLOAD_HORIZON => self.offload_horizon = Some(of_micros(value)),
            _ => return None,
        }
        Some(())
    }
}
