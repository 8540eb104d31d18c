//! Filters at a link's `clsact`: queries of all filters, and insertion and deletion of weftline's own eBPF filters.
//!
//! Filters run in the order of their priorities, lowest first, until one returns a verdict. Filters of others are never replaced or
//! deleted: weftline adds a filter exclusively, deletes it by priority and handle, and deletes `clsact` only if it is
//! empty. (Programs attached by tcx links, Linux 6.6 and later, run before all filters and are not listed here.)

mod message;

use core::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::error::OsError;
use crate::link::{self, LinkError};
use crate::netlink::{Netlink, Refusal, attributes, c_string, u32_at};
use crate::netns::{NetNs, NetNsError};
use crate::tc::{self, CLSACT, FilterPlace, Place};

/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)` and its egress counterpart: `linux/pkt_sched.h`.
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// `ETH_P_ALL` of `linux/if_ether.h`: packets of every protocol.
pub const ETH_P_ALL: u16 = 3;
/// The classifier's name, as shown by `tc filter`.
const CLS_BPF: &str = "bpf";
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;
const TCMSG_LEN: usize = 20;
const TCA_KIND: u16 = 1;
/// `CLS_BPF_NAME_LEN` of net/sched/cls_bpf.c, minus the terminating zero.
const MAX_NAME: usize = 255;

/// An error of a filter operation.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The link does not exist.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel has no cls_bpf (ENOENT).
    #[error(
        "this kernel has no eBPF classifier: cls_bpf (CONFIG_NET_CLS_BPF) is neither built in nor loadable; \
         use a kernel that has it"
    )]
    NoClsBpf,
    /// The kernel has no act_skbedit (ENOENT).
    #[error(
        "this kernel cannot choose queues in a filter: act_skbedit (CONFIG_NET_ACT_SKBEDIT) is neither built in nor \
         loadable; use a kernel that has it"
    )]
    NoSkbedit,
    /// The kernel has no clsact.
    #[error(
        "this kernel has no clsact qdisc: sch_ingress (CONFIG_NET_SCH_INGRESS) is neither built in nor loadable; use a \
         kernel that has it"
    )]
    NoClsact,
    /// The link has no clsact for filters.
    #[error("link {link} of {ns} has no clsact qdisc; add it with: tc qdisc add dev {link} clsact")]
    NoHook {
        /// The link.
        link: String,
        /// Its namespace.
        ns: String,
    },
    /// A filter of this priority exists already.
    #[error(
        "link {link} of {ns} has a filter of priority {priority} at its egress already; choose another priority"
    )]
    PriorityTaken {
        /// The link.
        link: String,
        /// Its namespace.
        ns: String,
        /// The priority.
        priority: u16,
    },
    /// No such filter exists.
    #[error(
        "link {link} of {ns} has no filter of priority {priority} and handle {handle:#x} at its egress; \
         `tc filter show dev {link} egress` shows those that exist"
    )]
    NoSuchFilter {
        /// The link.
        link: String,
        /// Its namespace.
        ns: String,
        /// The priority asked for.
        priority: u16,
        /// The handle asked for.
        handle: u32,
    },
    /// The clsact to be deleted contains filters.
    #[error(
        "the clsact of link {link} of {ns} is in use ({ingress} filters at ingress, {egress} at egress) and was left \
         in place"
    )]
    InUse {
        /// The link.
        link: String,
        /// Its namespace.
        ns: String,
        /// The number of filters at the ingress.
        ingress: usize,
        /// The number of filters at the egress.
        egress: usize,
    },
    /// The configuration is invalid.
    #[error("eBPF filter: {0}")]
    Invalid(String),
}

/// The result of an operation on filters.
pub type Result<T> = std::result::Result<T, FilterError>;

/// A snapshot of a filter at a clsact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its classifier: "bpf", "flower", ...
    pub kind: String,
    /// Its priority ("pref" in `tc`); the lowest runs first.
    pub priority: u16,
    /// The EtherType that it matches; [`ETH_P_ALL`] for all.
    pub protocol: u16,
    /// Its number within its priority; zero for a priority that is in use but has no filter.
    pub handle: u32,
    /// Its chain; packets begin in chain 0.
    pub chain: u32,
    /// The program of an eBPF filter.
    pub program: Option<BpfProgram>,
}

/// The program of a cls_bpf filter.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// An eBPF filter to be added.
#[derive(Clone, Debug)]
pub struct BpfFilter<'a> {
    /// A loaded program of type `BPF_PROG_TYPE_SCHED_CLS`.
    pub program: BorrowedFd<'a>,
    /// The name of the filter, visible to others; 1 to 255 bytes.
    pub name: &'a str,
    /// Its priority, not zero.
    pub priority: u16,
    /// Its number within its priority, not zero.
    pub handle: u32,
    /// Whether the program's result is the verdict (`TC_ACT_*`). Otherwise zero means no match and -1 a match
    /// (`cls_bpf_classify`, net/sched/cls_bpf.c).
    pub direct_action: bool,
    /// The queues for packets that the program matches: the kernel takes the first plus the hash modulo their number. This
    /// overrides XPS and the queue that the socket remembers (`tcf_skbedit_hash` in net/sched/act_skbedit.c, `netdev_xmit_skip_txqueue` in
    /// net/core/dev.c). Later filters still run. Invalid with `direct_action`, which runs no
    /// actions.
    pub queue_by_hash: Option<RangeInclusive<u16>>,
}

/// Whether the link has a `clsact`.
///
/// # Errors
/// If the link does not exist, or the kernel refuses the dump.
pub fn has_clsact(ns: &NetNs, link: &str) -> Result<bool> {
    let index = link::index(ns, link)?;
    let answers = tc::dump_qdiscs(&mut Netlink::open(ns)?, index)
        .map_err(|e| e.during(format!("read the qdiscs of link {link} of {ns}")))?;
    Ok(answers.iter().any(|(message, body)| {
        let kind = attributes(body.get(TCMSG_LEN..).unwrap_or_default()).find(|(kind, _)| *kind == TCA_KIND);
        *message == RTM_NEWQDISC
            && u32_at(body, 4) == index
            && kind.is_some_and(|(_, name)| c_string(name) == "clsact")
    }))
}

/// Adds a `clsact` to the link.
///
/// # Errors
/// If the link does not exist, already has a clsact (or ingress qdisc), or the kernel refuses or lacks it.
pub fn add_clsact(ns: &NetNs, link: &str) -> Result<()> {
    let (parent, handle) = CLSACT;
    let place = Place { link_index: link::index(ns, link)?, parent, handle };
    tc::add_qdisc(&mut Netlink::open(ns)?, place, "clsact", None).map_err(|e| match e.is(Errno::NOENT) {
        true => FilterError::NoClsact,
        false => e.during(format!("add clsact to link {link} of {ns}")).into(),
    })
}

/// Deletes the link's `clsact` if it contains no filter. The kernel would delete filters with it, so a filter that another
/// process adds between the check and the deletion is lost.
///
/// # Errors
/// [`FilterError::InUse`] if there are filters, [`FilterError::NoHook`] without a clsact; otherwise the kernel's error.
pub fn delete_clsact(ns: &NetNs, link: &str) -> Result<()> {
    if !has_clsact(ns, link)? {
        return Err(FilterError::NoHook { link: link.to_string(), ns: ns.to_string() });
    }
    let (ingress, egress) = (ingress_filters(ns, link)?.len(), egress_filters(ns, link)?.len());
    if ingress + egress > 0 {
        return Err(FilterError::InUse { link: link.to_string(), ns: ns.to_string(), ingress, egress });
    }
    let (parent, handle) = CLSACT;
    let place = Place { link_index: link::index(ns, link)?, parent, handle };
    tc::delete_qdisc(&mut Netlink::open(ns)?, place)
        .map_err(|e| e.during(format!("delete clsact of link {link} of {ns}")).into())
}

/// All filters at the link's egress, in the order in which they run (by chain and priority); empty without a clsact.
///
/// # Errors
/// If the link does not exist, or the kernel refuses the dump.
pub fn egress_filters(ns: &NetNs, link: &str) -> Result<Vec<Filter>> {
    filters(ns, link, EGRESS)
}

/// All filters at the link's ingress; otherwise like [`egress_filters`].
///
/// # Errors
/// As [`egress_filters`].
pub fn ingress_filters(ns: &NetNs, link: &str) -> Result<Vec<Filter>> {
    filters(ns, link, INGRESS)
}

fn filters(ns: &NetNs, link: &str, parent: u32) -> Result<Vec<Filter>> {
    let index = link::index(ns, link)?;
    let answers = tc::dump_filters(&mut Netlink::open(ns)?, index, parent)
        .map_err(|e| e.during(format!("read the filters of link {link} of {ns}")))?;
    let all =
        answers.iter().filter(|(kind, _)| *kind == RTM_NEWTFILTER).map(|(_, body)| message::parse(body));
    Ok(without_heads(all.collect()))
}

/// Removes the entries of handle zero that a dump has for each priority, except where the priority has no filter.
fn without_heads(mut filters: Vec<Filter>) -> Vec<Filter> {
    filters.sort_by_key(|filter| (filter.chain, filter.priority, filter.handle == 0));
    filters.dedup_by(|next, kept| {
        next.handle == 0 && (next.chain, next.priority) == (kept.chain, kept.priority)
    });
    filters
}

/// Adds an eBPF filter at the link's egress for packets of every protocol. It remains until it, the clsact or the link is
/// deleted.
///
/// # Errors
/// [`FilterError::PriorityTaken`] if any filter has the priority, so that the new one neither replaces a filter nor joins a
/// group that another process may delete. [`FilterError::NoHook`] without a clsact, [`FilterError::NoClsBpf`] and
/// [`FilterError::NoSkbedit`] if the kernel lacks a module, [`FilterError::Invalid`] if the configuration is invalid.
pub fn add_bpf_egress(ns: &NetNs, link: &str, filter: &BpfFilter<'_>) -> Result<()> {
    check(filter)?;
    if !has_clsact(ns, link)? {
        return Err(FilterError::NoHook { link: link.to_string(), ns: ns.to_string() });
    }
    let taken = || FilterError::PriorityTaken {
        link: link.to_string(),
        ns: ns.to_string(),
        priority: filter.priority,
    };
    if egress_filters(ns, link)?.iter().any(|there| there.chain == 0 && there.priority == filter.priority) {
        return Err(taken());
    }
    let options = message::bpf_options(
        filter.program.as_raw_fd(),
        filter.name,
        filter.direct_action,
        filter.queue_by_hash.as_ref(),
    );
    let place = egress_place(link::index(ns, link)?, filter.priority, filter.handle);
    tc::add_filter(&mut Netlink::open(ns)?, place, CLS_BPF, options).map_err(|e| {
        if e.is(Errno::EXIST) {
            return taken();
        }
        let action = format!(
            "add eBPF filter `{}` of priority {} to the egress of link {link} of {ns}",
            filter.name, filter.priority
        );
        absent_module(&e, filter.queue_by_hash.is_some()).unwrap_or_else(|| e.during(action).into())
    })
}

fn check(filter: &BpfFilter<'_>) -> Result<()> {
    let invalid = |why: &str| Err(FilterError::Invalid(format!("`{}`: {why}", filter.name)));
    if filter.name.is_empty() || filter.name.len() > MAX_NAME || filter.name.contains('\0') {
        return invalid("the name must be 1 to 255 bytes without zeros");
    }
    if filter.priority == 0 || filter.handle == 0 {
        return invalid("priority and handle must not be zero, which lets the kernel choose");
    }
    match &filter.queue_by_hash {
        Some(_) if filter.direct_action => invalid("a filter of direct action runs no actions"),
        Some(queues) if queues.is_empty() => invalid("the range of queues is empty"),
        // Kernels before commit be054cc66f73 store the number of queues in 16 bits, and divide by zero for this range.
        Some(queues) if *queues == (0..=u16::MAX) => {
            invalid("the range of queues has more than 65535 queues")
        }
        _ => Ok(()),
    }
}

/// The module that is missing after ENOENT. The kernel returns it for an unknown classifier and for an unknown action; its
/// explanation distinguishes them: "TC classifier not found" (`tcf_proto_lookup_ops`), "Failed to load TC action module"
/// (`tc_action_load_ops`).
fn absent_module(refusal: &Refusal, with_action: bool) -> Option<FilterError> {
    if !refusal.is(Errno::NOENT) {
        return None;
    }
    match refusal.says.as_deref() {
        Some(says) if says.contains("classifier") => Some(FilterError::NoClsBpf),
        Some(says) if with_action && says.contains("action") => Some(FilterError::NoSkbedit),
        _ => None,
    }
}

fn egress_place(link_index: u32, priority: u16, handle: u32) -> FilterPlace {
    let info = u32::from(priority) << 16 | u32::from(ETH_P_ALL.to_be());
    FilterPlace { link_index, parent: EGRESS, handle, info }
}

/// Deletes the eBPF filter of this priority and handle, and no other, from the link's egress.
///
/// # Errors
/// [`FilterError::NoSuchFilter`] if it does not exist; otherwise the kernel's error.
pub fn delete_egress(ns: &NetNs, link: &str, priority: u16, handle: u32) -> Result<()> {
    let absent =
        || FilterError::NoSuchFilter { link: link.to_string(), ns: ns.to_string(), priority, handle };
    // For the kernel, handle zero means all filters of the priority, and priority zero all filters.
    let there = egress_filters(ns, link)?;
    let ours = |f: &Filter| f.priority == priority && f.handle == handle && f.kind == CLS_BPF && f.chain == 0;
    if priority == 0 || handle == 0 || !there.iter().any(ours) {
        return Err(absent());
    }
    let place = egress_place(link::index(ns, link)?, priority, handle);
    tc::delete_filter(&mut Netlink::open(ns)?, place, CLS_BPF).map_err(|e| match e.is(Errno::NOENT) {
        true => absent(),
        false => e
            .during(format!(
                "delete eBPF filter {handle:#x} of priority {priority} at the egress of link {link} of {ns}"
            ))
            .into(),
    })
}

/// A priority for a filter that should run before all of `filters`: one below the lowest in use, or 1 if none is in use. If the
/// lowest is 1, no filter can run before it, and the result is the lowest unused priority; the caller must report that
/// some filters run first. `None` if all are in use.
pub fn free_priority(filters: &[Filter]) -> Option<u16> {
    let mut used: Vec<u16> = filters.iter().filter(|f| f.chain == 0).map(|f| f.priority).collect();
    used.sort_unstable();
    used.dedup();
    match used.first() {
        None => Some(1),
        Some(&smallest) if smallest > 1 => Some(smallest - 1),
        Some(_) => (1..=u16::MAX).find(|priority| used.binary_search(priority).is_err()),
    }
}

#[cfg(test)]
mod tests;
