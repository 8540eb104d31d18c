//! The binary form of filters: the options of cls_bpf and act_skbedit, and the entries of a dump.

use core::ops::RangeInclusive;

use super::{BpfProgram, Filter};
use crate::netlink::{attributes, c_string, u16_at, u32_at};
use crate::tc::Attributes;

/// `NLA_F_NESTED`, and the mask of an attribute's type: `linux/netlink.h`.
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// `struct tcmsg` and the attributes after it: `linux/rtnetlink.h`.
const TCMSG_LEN: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_CHAIN: u16 = 11;

/// `TCA_BPF_*` and the flag for direct action: `linux/pkt_cls.h`.
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_TAG: u16 = 10;
const TCA_BPF_ID: u16 = 11;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// `TCA_ACT_KIND`, `TCA_ACT_OPTIONS`, and the verdict that continues with the next filter: `linux/pkt_cls.h`.
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TC_ACT_UNSPEC: i32 = -1;

/// `linux/tc_act/tc_skbedit.h`.
const TCA_SKBEDIT_PARMS: u16 = 2;
const TCA_SKBEDIT_QUEUE_MAPPING: u16 = 4;
const TCA_SKBEDIT_FLAGS: u16 = 9;
const TCA_SKBEDIT_QUEUE_MAPPING_MAX: u16 = 10;
const SKBEDIT_F_TXQ_SKBHASH: u64 = 0x40;

/// The options of a cls_bpf filter, in the order in which iproute2 sends them.
pub(super) fn bpf_options(
    program_fd: i32,
    name: &str,
    direct_action: bool,
    queue_by_hash: Option<&RangeInclusive<u16>>,
) -> Vec<u8> {
    let mut options = Attributes::default();
    if let Some(queues) = queue_by_hash {
        options = options.with(TCA_BPF_ACT, &skbedit_action(queues));
    }
    options = options
        .with(TCA_BPF_FD, &program_fd.to_ne_bytes())
        .with(TCA_BPF_NAME, &[name.as_bytes(), b"\0"].concat());
    if direct_action {
        options = options.with(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes());
    }
    options.bytes()
}

/// A list of one action, act_skbedit, which chooses a queue by the packet's hash and continues.
///
/// `tcf_skbedit_init` (net/sched/act_skbedit.c) derives the flag for the queue from its attribute; only the flag for the
/// hash is sent.
fn skbedit_action(queues: &RangeInclusive<u16>) -> Vec<u8> {
    // `struct tc_skbedit` is `tc_gen`: index, capab, action, refcnt, bindcnt. Index zero: the kernel chooses one.
    let parameters: Vec<u8> = [0, 0, TC_ACT_UNSPEC, 0, 0].into_iter().flat_map(i32::to_ne_bytes).collect();
    let options = Attributes::default()
        .with(TCA_SKBEDIT_PARMS, &parameters)
        .with(TCA_SKBEDIT_QUEUE_MAPPING, &queues.start().to_ne_bytes())
        .with(TCA_SKBEDIT_QUEUE_MAPPING_MAX, &queues.end().to_ne_bytes())
        .with(TCA_SKBEDIT_FLAGS, &SKBEDIT_F_TXQ_SKBHASH.to_ne_bytes())
        .bytes();
    let action = Attributes::default()
        .with(TCA_ACT_KIND, b"skbedit\0")
        .with(NESTED | TCA_ACT_OPTIONS, &options)
        .bytes();
    /// The position of an action in the list is its attribute's type, starting at 1.
    const FIRST: u16 = 1;
    Attributes::default().with(FIRST, &action).bytes()
}

/// Reads one filter of a dump, without the netlink header.
pub(super) fn parse(body: &[u8]) -> Filter {
    let info = u32_at(body, 16);
    let mut filter = Filter {
        kind: String::new(),
        priority: (info >> 16) as u16,
        protocol: u16::from_be(info as u16),
        handle: u32_at(body, 8),
        chain: 0,
        program: None,
    };
    let mut options: &[u8] = &[];
    for (kind, value) in attributes(body.get(TCMSG_LEN..).unwrap_or_default()) {
        match kind & TYPE_MASK {
            TCA_KIND => filter.kind = c_string(value),
            TCA_OPTIONS => options = value,
            TCA_CHAIN => filter.chain = u32_at(value, 0),
            _ => {}
        }
    }
    if filter.kind == super::CLS_BPF && filter.handle != 0 {
        filter.program = Some(parse_bpf(options));
    }
    filter
}

fn parse_bpf(options: &[u8]) -> BpfProgram {
    let mut program =
        BpfProgram { id: 0, name: String::new(), tag: [0; 8], direct_action: false, has_actions: false };
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
