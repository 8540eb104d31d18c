//! Filters as the kernel dumps them.

use super::BPF;
use crate::netlink::{attributes, c_string, u16_at, u32_at};
use crate::tc::handle::Handle;
use crate::tc::message::Entry;
use crate::tc::wire::TYPE_MASK;

/// `TCA_BPF_*` and the flag for direct action: `linux/pkt_cls.h`.
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_CLASSID: u16 = 3;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_TAG: u16 = 10;
const TCA_BPF_ID: u16 = 11;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// `TCA_U32_CLASSID` and `TCA_MATCHALL_CLASSID`.
const CLASSID: u16 = 1;

/// A snapshot of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterFound {
    /// Its classifier: "bpf", "flower", ...
    pub kind: String,
    /// Its priority ("pref" in `tc`); the lowest runs first.
    pub priority: u16,
    /// The EtherType that it matches; [`ETH_P_ALL`](super::ETH_P_ALL) for all.
    pub protocol: u16,
    /// Its number within its priority; zero for a priority that is in use but has no filter.
    pub handle: u32,
    /// Its chain; packets begin in chain 0.
    pub chain: u32,
    /// The class for its packets, of a filter of bpf, u32 or matchall.
    pub class: Option<Handle>,
    /// The program of an eBPF filter.
    pub program: Option<BpfProgram>,
}

/// The program of a cls_bpf filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfProgram {
    /// Its kernel id, as shown by `bpftool prog`; zero for a classic BPF program.
    pub id: u32,
    /// The filter's name, chosen when it was added.
    pub name: String,
    /// The hash of its instructions.
    pub tag: [u8; 8],
    /// Whether the program's result is the verdict.
    pub direct_action: bool,
    /// Whether actions follow when the program matches.
    pub has_actions: bool,
}

impl FilterFound {
    /// Reads an entry of a dump.
    pub(in crate::tc) fn of(entry: Entry) -> Self {
        let class = match entry.kind.as_str() {
            BPF => TCA_BPF_CLASSID,
            "u32" | "matchall" => CLASSID,
            _ => 0,
        };
        let class = attributes(&entry.options).find(|(kind, _)| class != 0 && kind & TYPE_MASK == class);
        let has_program = entry.kind == BPF && entry.handle != Handle::NONE;
        Self {
            priority: (entry.info >> 16) as u16,
            protocol: u16::from_be(entry.info as u16),
            handle: entry.handle.raw(),
            chain: entry.chain,
            class: class.map(|(_, value)| Handle::from_raw(u32_at(value, 0))),
            program: has_program.then(|| program(&entry.options)),
            kind: entry.kind,
        }
    }
}

fn program(options: &[u8]) -> BpfProgram {
    let mut program = BpfProgram::default();
    for (kind, value) in attributes(options) {
        match kind & TYPE_MASK {
            TCA_BPF_ID => program.id = u32_at(value, 0),
            TCA_BPF_NAME => program.name = c_string(value),
            TCA_BPF_TAG => program.tag = value.try_into().unwrap_or_default(),
            TCA_BPF_FLAGS => program.direct_action = u32_at(value, 0) & TCA_BPF_FLAG_ACT_DIRECT != 0,
            TCA_BPF_ACT => program.has_actions = u16_at(value, 0) != 0,
            _ => {}
        }
    }
    program
}

/// Arranges filters in the order in which they run. A dump has an additional entry without a handle for each priority; it
/// remains only where the priority has no filter.
pub(in crate::tc) fn in_order(mut filters: Vec<FilterFound>) -> Vec<FilterFound> {
    filters.sort_by_key(|filter| (filter.chain, filter.priority, filter.handle == 0));
    filters.dedup_by(|next, kept| {
        next.handle == 0 && (next.chain, next.priority) == (kept.chain, kept.priority)
    });
    filters
}
