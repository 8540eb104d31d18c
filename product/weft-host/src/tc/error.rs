//! The error of traffic control.

use std::fmt;

use rustix::io::Errno;

use super::handle::{Handle, ParseHandleError};
use crate::error::OsError;
use crate::link::LinkError;
use crate::netlink::Refusal;
use crate::netns::NetNsError;

/// The result of an operation of traffic control.
pub type Result<T> = std::result::Result<T, TcError>;

/// An error of traffic control. Texts name the action, the object and the device, the kernel's own explanation where it gives one
/// (netlink's extended acknowledgement), and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum TcError {
    /// The kernel refused a call.
    #[error(transparent)]
    Refused(#[from] OsError),
    /// The device does not exist.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel lacks a qdisc, a classifier or an action.
    #[error(
        "{action}: the kernel has no {family} {kind}; load {} or use a kernel that has it ({})",
        .family.module(.kind), .family.option(.kind)
    )]
    NoKind {
        /// The action and its object.
        action: String,
        /// Whether it is a qdisc, a classifier or an action.
        family: Family,
        /// Its name.
        kind: String,
    },
    /// The device has no such qdisc.
    #[error("{device} has no qdisc {handle}; `tc qdisc show` lists those that exist")]
    NotThere {
        /// The device.
        device: String,
        /// The handle asked for; that of the root is any.
        handle: Handle,
    },
    /// A value is invalid, or does not fit into the kernel's field.
    #[error("{object}: {why}")]
    Invalid {
        /// The kind of the object.
        object: &'static str,
        /// The value and its bounds.
        why: String,
    },
    /// A text is no handle.
    #[error(transparent)]
    Handle(#[from] ParseHandleError),
    /// The former root has more than a message can put back.
    #[error(
        "{action}: {kind} {handle} cannot be put back, since {why}; delete it or leave the device as it is"
    )]
    NotRestorable {
        /// The action and its device.
        action: String,
        /// The kind of the qdisc.
        kind: String,
        /// Its handle.
        handle: Handle,
        /// The part that would be lost.
        why: &'static str,
    },
    /// The root is another one than that to be replaced.
    #[error(
        "the root of {device} is {kind} {handle} by now, which another program has put there; it was left in place"
    )]
    NotOurs {
        /// The device.
        device: String,
        /// The kind of the root.
        kind: String,
        /// Its handle.
        handle: Handle,
    },
    /// A step of several failed; those before it were carried out.
    #[error("{source} (step {} of {of}; those before it were carried out)", .done + 1)]
    Batch {
        /// The object of the step.
        object: String,
        /// The number of steps before it.
        done: usize,
        /// The number of all steps.
        of: usize,
        /// The reason.
        source: Box<TcError>,
    },
    /// The device has no clsact for filters.
    #[error("{device} has no clsact qdisc; add it with: tc qdisc add dev {name} clsact")]
    NoHook {
        /// The device.
        device: String,
        /// Its name.
        name: String,
    },
    /// A filter of this priority exists already.
    #[error("{device} has a filter of priority {priority} at its {hook} already; choose another priority")]
    PriorityTaken {
        /// The device.
        device: String,
        /// The hook: "egress", "ingress", or the handle of a qdisc.
        hook: String,
        /// The priority.
        priority: u16,
    },
    /// No such filter exists.
    #[error(
        "{device} has no filter of priority {priority} and handle {handle:#x} at its {hook}; `tc filter show` lists \
         those that exist"
    )]
    NoSuchFilter {
        /// The device.
        device: String,
        /// The hook.
        hook: String,
        /// The priority asked for.
        priority: u16,
        /// The number asked for.
        handle: u32,
    },
    /// The clsact to be deleted contains filters.
    #[error(
        "the clsact of {device} is in use ({ingress} filters at ingress, {egress} at egress) and was left in place"
    )]
    InUse {
        /// The device.
        device: String,
        /// The number of filters at the ingress.
        ingress: usize,
        /// The number of filters at the egress.
        egress: usize,
    },
}

impl TcError {
    /// Whether the kernel lacks a module.
    pub fn is_missing_kind(&self) -> bool {
        match self {
            Self::NoKind { .. } => true,
            Self::Batch { source, .. } => source.is_missing_kind(),
            _ => false,
        }
    }

    /// Returns the error of a value that the kernel's field cannot hold.
    pub(super) fn invalid(object: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { object, why: why.into() }
    }

    /// Returns the error of a refused `action`, with the remedy for the kernel's error number.
    pub(super) fn refused(refusal: Refusal, action: String) -> Self {
        let remedy = match Errno::from_io_error(&refusal.error) {
            Some(Errno::EXIST) => "delete the one that is there first, or replace it",
            Some(Errno::BUSY) => "delete first what refers to it: children, filters",
            Some(Errno::OPNOTSUPP) => "this kind cannot do that in place: delete it and add it again",
            Some(Errno::NODEV) => "the device was deleted or moved to another namespace",
            Some(Errno::NOENT) => {
                "add its parent first; `tc qdisc show` and `tc class show` list those that exist"
            }
            _ => "`tc qdisc show` and `tc class show` list those that exist",
        };
        let error = OsError::new(action, refusal.error).detail(refusal.says);
        Self::Refused(error.remedy(remedy).needs("CAP_NET_ADMIN"))
    }
}

/// A family of kernel modules for traffic control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Queueing disciplines.
    Qdisc,
    /// Classifiers, which filters are made of.
    Classifier,
    /// Actions of filters.
    Action,
}

impl Family {
    /// The module of a kind: `sch_drr`. `clsact` is in that of `ingress`, and the two FIFOs share one.
    pub fn module(self, kind: &str) -> String {
        let prefix = match self {
            Self::Qdisc => "sch",
            Self::Classifier => "cls",
            Self::Action => "act",
        };
        format!("{prefix}_{}", file_of(kind))
    }

    /// The kernel's option for a kind: `CONFIG_NET_SCH_DRR`.
    pub fn option(self, kind: &str) -> String {
        format!("CONFIG_NET_{}", self.module(kind).to_ascii_uppercase())
    }

    /// The kind that is missing after ENOENT, by the kernel's explanation: `qdisc_create` (net/sched/sch_api.c),
    /// `tcf_proto_lookup_ops` (net/sched/cls_api.c), `tc_action_load_ops` (net/sched/act_api.c). Kernels before Linux 4.17
    /// explain nothing for qdiscs.
    pub(super) fn missing(refusal: &Refusal) -> Option<Self> {
        if !refusal.is(Errno::NOENT) {
            return None;
        }
        match refusal.says.as_deref() {
            None => Some(Self::Qdisc),
            Some("Specified qdisc not found" | "Specified qdisc kind is unknown") => Some(Self::Qdisc),
            Some(says) if says.contains("classifier") => Some(Self::Classifier),
            Some(says) if says.contains("action") => Some(Self::Action),
            _ => None,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qdisc => "qdisc",
            Self::Classifier => "classifier",
            Self::Action => "action",
        })
    }
}

fn file_of(kind: &str) -> &str {
    match kind {
        "clsact" => "ingress",
        "pfifo" | "bfifo" => "fifo",
        other => other,
    }
}
