//! Filters: classifiers with their actions, at a `clsact` or at a qdisc with classes.
//!
//! Filters run in the order of their priorities, lowest first, until one returns a verdict. (Programs attached by tcx links, Linux 6.6
//! and later, run before all filters of a `clsact` and are not listed here.)

mod action;
mod found;
#[cfg(test)]
mod tests;

use std::os::fd::{AsRawFd, BorrowedFd};

pub use action::FilterAction;
pub(super) use found::in_order;
pub use found::{BpfProgram, FilterFound};

use super::error::{Result, TcError};
use super::handle::Handle;
use super::wire::Options;

/// `ETH_P_ALL` of `linux/if_ether.h`: packets of every protocol.
pub const ETH_P_ALL: u16 = 3;
/// `ETH_P_IP`: packets of IPv4.
pub const ETH_P_IP: u16 = 0x0800;
/// The classifier's name, as shown by `tc filter`.
const BPF: &str = "bpf";
/// `CLS_BPF_NAME_LEN` of net/sched/cls_bpf.c, minus the terminating zero.
const MAX_NAME: usize = 255;

/// `TCA_BPF_*` and the flag for direct action: `linux/pkt_cls.h`.
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_CLASSID: u16 = 3;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
/// `TC_U32_TERMINAL`: a match is the result.
const TC_U32_TERMINAL: u8 = 1;
/// The most keys that cls_u32's length of 8 bits counts.
const MAX_KEYS: usize = 255;
const TCA_MATCHALL_CLASSID: u16 = 1;
const TCA_MATCHALL_ACT: u16 = 2;

/// A filter.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    /// Its place: [`Handle::EGRESS`] or [`Handle::INGRESS`] of a clsact, or a qdisc with classes.
    pub hook: Handle,
    /// Its priority; zero lets the kernel choose.
    pub priority: u16,
    /// Its number within its priority; zero lets the kernel choose, as u32 demands.
    pub handle: u32,
    /// The EtherType that it matches; [`ETH_P_ALL`] for all.
    pub protocol: u16,
    /// The class for its packets. A program of direct action that sets `skb->tc_classid` sets the minor number only: the major is that
    /// of this class (`cls_bpf_classify`, net/sched/cls_bpf.c).
    pub class: Option<Handle>,
    /// The packets that it matches.
    pub rule: FilterRule<'a>,
    /// The action for them.
    pub action: Option<FilterAction>,
}

/// The classifier of a filter, with what it matches.
#[derive(Clone, Debug)]
pub enum FilterRule<'a> {
    /// An eBPF program.
    Bpf {
        /// A loaded program of type `BPF_PROG_TYPE_SCHED_CLS`.
        program: BorrowedFd<'a>,
        /// The name of the filter, visible to others; 1 to 255 bytes.
        name: &'a str,
        /// Whether the program's result is the verdict (`TC_ACT_*`), so that no action runs. Otherwise zero means no match and -1 a match.
        direct_action: bool,
    },
    /// Packets with all these keys (net/sched/cls_u32.c).
    U32(Vec<U32Key>),
    /// All packets (net/sched/cls_matchall.c).
    Matchall,
}

/// A word of a packet that must have a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct U32Key {
    /// The place of the word in bytes from the network header, a multiple of 4.
    pub offset: i32,
    /// The bits that count.
    pub mask: u32,
    /// Their value, as written in the packet: the first byte is the highest.
    pub value: u32,
}

impl<'a> Filter<'a> {
    /// Returns a filter for packets of every protocol, without class and action.
    pub const fn new(hook: Handle, priority: u16, handle: u32, rule: FilterRule<'a>) -> Self {
        Self { hook, priority, handle, protocol: ETH_P_ALL, class: None, rule, action: None }
    }

    /// The classifier's name, as `tc` writes it.
    pub fn kind(&self) -> &'static str {
        match self.rule {
            FilterRule::Bpf { .. } => BPF,
            FilterRule::U32(_) => "u32",
            FilterRule::Matchall => "matchall",
        }
    }

    /// `tcm_info`: the priority in the upper half, the protocol in network byte order in the lower.
    pub(super) fn info(&self) -> u32 {
        u32::from(self.priority) << 16 | u32::from(self.protocol.to_be())
    }

    /// Returns the options, attributes in the order in which iproute2 sends them.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let class = self.class.map(|class| class.raw().into());
        let (class_attribute, action_attribute) = match self.rule {
            FilterRule::Bpf { .. } => (TCA_BPF_CLASSID, TCA_BPF_ACT),
            FilterRule::U32(_) => (TCA_U32_CLASSID, TCA_U32_ACT),
            FilterRule::Matchall => (TCA_MATCHALL_CLASSID, TCA_MATCHALL_ACT),
        };
        let mut options = Options::of("filter").word(class_attribute, "class", class)?;
        if let Some(action) = &self.action {
            options = options.with(action_attribute, &action.encode()?);
        }
        match &self.rule {
            FilterRule::Bpf { program, name, direct_action } => {
                let invalid = |why| Err(TcError::invalid("filter", format!("`{name}`: {why}")));
                if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
                    return invalid("the name must be 1 to 255 bytes without zeros");
                }
                if *direct_action && self.action.is_some() {
                    return invalid("a filter of direct action runs no actions");
                }
                options = options
                    .with(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes())
                    .with(TCA_BPF_NAME, &[name.as_bytes(), b"\0"].concat());
                if *direct_action {
                    options = options.with(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes());
                }
            }
            FilterRule::U32(keys) => options = options.with(TCA_U32_SEL, &selector(keys)?),
            FilterRule::Matchall => {}
        }
        Ok(options.bytes())
    }
}

/// `struct tc_u32_sel` with its keys: mask and value in network byte order, offset, offset mask.
fn selector(keys: &[U32Key]) -> Result<Vec<u8>> {
    if keys.is_empty() || keys.len() > MAX_KEYS || keys.iter().any(|key| key.offset % 4 != 0) {
        let why = "u32 needs 1 to 255 keys, each at a multiple of 4 bytes";
        return Err(TcError::invalid("filter", why));
    }
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[2]) = (TC_U32_TERMINAL, keys.len() as u8);
    for key in keys {
        bytes.extend(key.mask.to_be_bytes());
        bytes.extend((key.value & key.mask).to_be_bytes());
        bytes.extend(key.offset.to_ne_bytes());
        bytes.extend([0; 4]);
    }
    Ok(bytes)
}

/// A priority for a filter that should run before all of `filters`: one below the lowest in use, or 1 if none is in use. If the
/// lowest is 1, no filter can run before it, and the result is the lowest unused priority; the caller must report that
/// some filters run first. `None` if all are in use.
pub fn free_priority(filters: &[FilterFound]) -> Option<u16> {
    let mut used: Vec<u16> = filters.iter().filter(|f| f.chain == 0).map(|f| f.priority).collect();
    used.sort_unstable();
    used.dedup();
    match used.first() {
        None => Some(1),
        Some(&smallest) if smallest > 1 => Some(smallest - 1),
        Some(_) => (1..=u16::MAX).find(|priority| used.binary_search(priority).is_err()),
    }
}
