//! The root of a hierarchical token bucket (net/sched/sch_htb.c). Its classes are [`HtbClass`](crate::tc::HtbClass).

use weft_units::Packets;

use crate::netlink::{attributes, u32_at};
use crate::tc::error::Result;
use crate::tc::wire::{Options, TYPE_MASK, u32_of};

const KIND: &str = "htb";
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_DIRECT_QLEN: u16 = 5;
const INIT_LEN: usize = 20;
/// The version of the interface that the kernel accepts, `TC_HTB_PROTOVER`.
const VERSION: u32 = 3;
/// The version in its dumps, `HTB_VER`: `htb_init` refuses it, so that a dump is no input.
const DUMPED: u32 = 0x3_0011;
/// `rate2quantum` of iproute2.
const RATE_TO_QUANTUM: u32 = 10;

/// The root of a hierarchical token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Htb {
    /// The minor number of the class for packets that name none. They are sent unshaped if it does not exist (`htb_classify`).
    pub default_class: u16,
    /// The divisor of a class's rate, in bytes per second, that gives its quantum, in bytes, where it has none of its own.
    pub rate_to_quantum: u32,
    /// The length of the queue of unshaped packets; `None` for the device's txqueuelen.
    pub direct_queue: Option<Packets>,
}

impl Htb {
    /// Returns a root with the settings of `tc qdisc add ... htb default MINOR`.
    pub const fn with_default(default_class: u16) -> Self {
        Self { default_class, rate_to_quantum: RATE_TO_QUANTUM, direct_queue: None }
    }

    /// `struct tc_htb_glob`: version, rate2quantum, defcls, debug, direct_pkts.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let words = [VERSION, self.rate_to_quantum, self.default_class.into(), 0, 0];
        let init: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        let direct = self.direct_queue.map(Packets::get);
        let options = Options::of(KIND).with(TCA_HTB_INIT, &init);
        Ok(options.word(TCA_HTB_DIRECT_QLEN, "direct queue", direct)?.bytes())
    }

    pub(super) fn decode(options: &[u8]) -> Option<Self> {
        let (mut read, mut found) = (Self::with_default(0), false);
        for (kind, value) in attributes(options) {
            match kind & TYPE_MASK {
                TCA_HTB_INIT if value.len() == INIT_LEN && [VERSION, DUMPED].contains(&u32_at(value, 0)) => {
                    read.rate_to_quantum = u32_at(value, 4);
                    read.default_class = u16::try_from(u32_at(value, 8)).ok()?;
                    found = true;
                }
                TCA_HTB_DIRECT_QLEN => read.direct_queue = Some(Packets(u32_of(value)?.into())),
                _ => return None,
            }
        }
        found.then_some(read)
    }
}

/// Returns the packets that an HTB sent unshaped, from the options of its dump.
pub(in crate::tc) fn direct_packets(options: &[u8]) -> Option<Packets> {
    let (_, init) = attributes(options).find(|(kind, _)| kind & TYPE_MASK == TCA_HTB_INIT)?;
    (init.len() == INIT_LEN).then(|| Packets(u32_at(init, 16).into()))
}
