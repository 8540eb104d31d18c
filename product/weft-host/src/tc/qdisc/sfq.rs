//! Stochastic fair queueing (net/sched/sch_sfq.c).

use weft_units::{Bytes, Nanos, Packets};

use crate::netlink::u32_at;
use crate::tc::error::{Result, TcError};
use crate::tc::wire::word;

const KIND: &str = "sfq";
/// `struct tc_sfq_qopt` and `struct tc_sfq_qopt_v1`; the latter ends with the parameters of RED and its counters.
const SHORT: usize = 20;
const LONG: usize = 72;
const RED: core::ops::Range<usize> = 28..48;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Stochastic fair queueing. `None` leaves a value as it is, or in a new qdisc at the kernel's default (`sfq_init`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sfq {
    /// The bytes of a flow's turn; by default the MTU with its header.
    pub quantum: Option<Bytes>,
    /// The time after which flows are spread anew, in whole seconds; zero for never.
    pub perturb: Nanos,
    /// The packets of all flows; by default 127.
    pub limit: Option<Packets>,
    /// The number of places of the table of hashes, a power of two; by default 1024.
    pub divisor: Option<u32>,
    /// The number of flows; by default 127.
    pub flows: Option<u32>,
    /// The packets of a flow; by default 127.
    pub depth: Option<Packets>,
    /// Whether the oldest packet of a flow is dropped, or else the arriving one.
    pub head_drop: bool,
}

impl Sfq {
    /// Returns nothing for the defaults, as `tc` does. Zeros are values that are not given (`sfq_change`).
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        if *self == Self::default() {
            return Ok(Vec::new());
        }
        let seconds = self.perturb.0 / NANOS_PER_SEC;
        if !self.perturb.0.is_multiple_of(NANOS_PER_SEC) || i32::try_from(seconds).is_err() {
            return Err(TcError::invalid(
                KIND,
                "the time of a perturbation must be whole seconds below 2^31",
            ));
        }
        let fields = [
            ("quantum", self.quantum.map(Bytes::get)),
            ("perturbation", Some(seconds)),
            ("limit", self.limit.map(Packets::get)),
            ("divisor", self.divisor.map(u64::from)),
            ("number of flows", self.flows.map(u64::from)),
            ("depth", self.depth.map(Packets::get)),
            ("dropping at the head", Some(self.head_drop.into())),
        ];
        let mut bytes = Vec::with_capacity(LONG);
        for (what, value) in fields {
            bytes.extend(word(KIND, what, value.unwrap_or(0))?.to_ne_bytes());
        }
        bytes.resize(LONG, 0);
        Ok(bytes)
    }

    /// Reads the options; `None` with RED, which this type lacks.
    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        if ![0, SHORT, LONG].contains(&options.len()) || options.get(RED).is_some_and(|red| red != [0; 20]) {
            return None;
        }
        // Zero beyond the end of a short structure.
        let given = |at| Some(u32_at(options, at)).filter(|value| *value != 0);
        Some(Self {
            quantum: given(0).map(|value| Bytes(value.into())),
            perturb: Nanos::from_secs(given(4).filter(|s| *s <= i32::MAX as u32).unwrap_or(0).into()),
            limit: given(8).map(|value| Packets(value.into())),
            divisor: given(12),
            flows: given(16),
            depth: given(20).map(|value| Packets(value.into())),
            head_drop: given(24).is_some(),
        })
    }
}
