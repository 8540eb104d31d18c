//! Fair queueing with controlled delay (net/sched/sch_fq_codel.c).

use weft_units::{Bytes, Nanos, Packets};

use crate::netlink::attributes;
use crate::tc::error::Result;
use crate::tc::wire::{Options, TYPE_MASK, of_micros, u32_of};

const KIND: &str = "fq_codel";
/// `TCA_FQ_CODEL_*` of `linux/pkt_sched.h`.
const TARGET: u16 = 1;
const LIMIT: u16 = 2;
const INTERVAL: u16 = 3;
const ECN: u16 = 4;
const FLOWS: u16 = 5;
const QUANTUM: u16 = 6;
const CE_THRESHOLD: u16 = 7;
const DROP_BATCH: u16 = 8;
const MEMORY_LIMIT: u16 = 9;

/// Fair queueing with controlled delay. `None` leaves a value as it is, or in a new qdisc at the kernel's default
/// (`fq_codel_init`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FqCodel {
    /// The packets of all flows; by default 10240.
    pub limit: Option<Packets>,
    /// The number of queues, by default 1024. It is fixed when the qdisc is made.
    pub flows: Option<u32>,
    /// The delay that is aimed at, in whole microseconds; by default 5 ms. The kernel keeps units of 1024 ns, so that up to 2 us less are
    /// read back.
    pub target: Option<Nanos>,
    /// The time in which the delay must fall below the target once, in whole microseconds; by default 100 ms.
    pub interval: Option<Nanos>,
    /// The bytes of a flow's turn; by default the MTU with its header.
    pub quantum: Option<Bytes>,
    /// Whether packets are marked instead of dropped where they allow it; by default they are.
    pub ecn: Option<bool>,
    /// The delay above which all packets are marked, in whole microseconds; by default none.
    pub ce_threshold: Option<Nanos>,
    /// The most packets dropped at once when the limit is exceeded; by default 64.
    pub drop_batch: Option<Packets>,
    /// The memory of all packets; by default 32 MiB.
    pub memory_limit: Option<Bytes>,
}

impl FqCodel {
    /// Returns the attributes in the order in which `tc` sends them.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let options = Options::of(KIND)
            .word(LIMIT, "limit", self.limit.map(Packets::get))?
            .word(FLOWS, "number of flows", self.flows.map(u64::from))?
            .word(QUANTUM, "quantum", self.quantum.map(Bytes::get))?
            .micros(INTERVAL, "interval", self.interval)?
            .micros(TARGET, "target", self.target)?
            .word(ECN, "mark", self.ecn.map(u64::from))?
            .micros(CE_THRESHOLD, "threshold of marks", self.ce_threshold)?
            .word(MEMORY_LIMIT, "memory limit", self.memory_limit.map(Bytes::get))?
            .word(DROP_BATCH, "batch of drops", self.drop_batch.map(Packets::get))?;
        Ok(options.bytes())
    }

    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let mut read = Self::default();
        for (kind, value) in attributes(options) {
            let value = u32_of(value)?;
            match kind & TYPE_MASK {
                LIMIT => read.limit = Some(Packets(value.into())),
                FLOWS => read.flows = Some(value),
                QUANTUM => read.quantum = Some(Bytes(value.into())),
                INTERVAL => read.interval = Some(of_micros(value)),
                TARGET => read.target = Some(of_micros(value)),
                ECN => read.ecn = Some(value != 0),
                CE_THRESHOLD => read.ce_threshold = Some(of_micros(value)),
                MEMORY_LIMIT => read.memory_limit = Some(Bytes(value.into())),
                DROP_BATCH => read.drop_batch = Some(Packets(value.into())),
                _ => return None,
            }
        }
        Some(read)
    }
}
