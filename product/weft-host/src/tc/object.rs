//! The objects that are added, changed, replaced and deleted.

use std::fmt;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use weft_units::Packets;

use super::class::Class;
use super::error::{Family, Result, TcError};
use super::filter::Filter;
use super::handle::Handle;
use super::message::{TcPlace, message};
use super::qdisc::{Qdisc, Tbf};
use crate::netlink::Refusal;

/// A qdisc, class or filter at its place.
#[derive(Clone, Debug)]
pub enum TcObject<'a> {
    /// A qdisc.
    Qdisc(TcPlace, Qdisc),
    /// A class; its parent is a class of the same qdisc, or the qdisc.
    Class(TcPlace, Class),
    /// A filter.
    Filter(Filter<'a>),
}

impl TcObject<'_> {
    /// Returns a device's egress qdisc.
    pub const fn root(handle: Handle, qdisc: Qdisc) -> Self {
        Self::Qdisc(TcPlace::root(handle), qdisc)
    }

    /// Returns a qdisc below a class.
    pub const fn leaf(parent: Handle, handle: Handle, qdisc: Qdisc) -> Self {
        Self::Qdisc(TcPlace { parent, handle }, qdisc)
    }

    /// Returns a class below another class, or below its qdisc. HTB makes a class without a parent of one whose parent does not exist
    /// (`htb_change_class`).
    pub const fn class(parent: Handle, handle: Handle, class: Class) -> Self {
        Self::Class(TcPlace { parent, handle }, class)
    }

    /// Returns a token bucket filter as the device's egress qdisc, with the handle [`Handle::FIRST`].
    pub const fn tbf(tbf: Tbf) -> Self {
        Self::root(Handle::FIRST, Qdisc::Tbf(tbf))
    }

    /// Returns `mq` with the handle [`Handle::FIRST`], and a `pfifo` of `limit` packets for each of the first `queues` queues.
    ///
    /// The kernel's own choice below `mq` (`net.core.default_qdisc`) does not suit a device whose queues stop: `pfifo_fast` takes its
    /// length from the device's txqueuelen, and `fq_codel` drops packets that wait for long.
    pub fn fifo_of_each_queue(queues: u16, limit: Packets) -> Vec<Self> {
        let fifo = |queue: u16| {
            let qdisc = Qdisc::Pfifo { limit: Some(limit) };
            Self::leaf(
                Handle::FIRST.class(queue.saturating_add(1)),
                Handle::qdisc(queue.saturating_add(2)),
                qdisc,
            )
        };
        std::iter::once(Self::root(Handle::FIRST, Qdisc::Mq)).chain((0..queues).map(fifo)).collect()
    }

    /// Returns a `clsact`.
    pub const fn clsact() -> Self {
        Self::Qdisc(TcPlace::CLSACT, Qdisc::Clsact)
    }

    /// Returns the request of an action at the device of a number, and its flags.
    pub(super) fn request(&self, action: TcAction, index: u32) -> Result<(RouteNetlinkMessage, u16)> {
        let (place, info) = match self {
            Self::Qdisc(place, _) | Self::Class(place, _) => (*place, 0),
            Self::Filter(filter) => {
                let handle = Handle::from_raw(filter.handle);
                (TcPlace { parent: filter.hook, handle }, filter.info())
            }
        };
        let content = match (self, action) {
            // A filter is deleted by its kind as well; the others by their place.
            (Self::Filter(filter), TcAction::Delete) => (filter.kind(), Vec::new()),
            (_, TcAction::Delete) => ("", Vec::new()),
            (Self::Qdisc(_, qdisc), _) => (qdisc.kind(), qdisc.encode()?),
            (Self::Class(_, class), _) => (class.kind(), class.encode()?),
            (Self::Filter(filter), _) => (filter.kind(), filter.encode()?),
        };
        let message = message(index, place, info, content);
        let body = match (self, action) {
            (Self::Qdisc(..), TcAction::Delete) => RouteNetlinkMessage::DelQueueDiscipline(message),
            (Self::Qdisc(..), _) => RouteNetlinkMessage::NewQueueDiscipline(message),
            (Self::Class(..), TcAction::Delete) => RouteNetlinkMessage::DelTrafficClass(message),
            (Self::Class(..), _) => RouteNetlinkMessage::NewTrafficClass(message),
            (Self::Filter(_), TcAction::Delete) => RouteNetlinkMessage::DelTrafficFilter(message),
            (Self::Filter(_), _) => RouteNetlinkMessage::NewTrafficFilter(message),
        };
        let flags = match (self, action) {
            (_, TcAction::Add) => NLM_F_CREATE | NLM_F_EXCL,
            (Self::Qdisc(..), TcAction::Replace) => NLM_F_CREATE | NLM_F_REPLACE,
            (_, TcAction::Replace) => NLM_F_CREATE,
            (_, TcAction::Change | TcAction::Delete) => 0,
        };
        Ok((body, flags))
    }

    /// Returns the error of a refused action; `doing` has the action, the object and the device.
    pub(super) fn refused(&self, refusal: Refusal, doing: String) -> TcError {
        let missing = Family::missing(&refusal).and_then(|family| {
            let kind = match (family, self) {
                (Family::Qdisc, Self::Qdisc(_, qdisc)) if !qdisc.kind().is_empty() => qdisc.kind(),
                (Family::Classifier, Self::Filter(filter)) => filter.kind(),
                (Family::Action, Self::Filter(filter)) => filter.action.as_ref()?.kind(),
                _ => return None,
            };
            Some((family, kind.to_owned()))
        });
        match missing {
            Some((family, kind)) => TcError::NoKind { action: doing, family, kind },
            None => TcError::refused(refusal, doing),
        }
    }
}

impl fmt::Display for TcObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (family, kind, place) = match self {
            Self::Qdisc(place, qdisc) => ("qdisc", qdisc.kind(), place),
            Self::Class(place, class) => ("class", class.kind(), place),
            Self::Filter(filter) => {
                let (kind, priority) = (filter.kind(), filter.priority);
                write!(f, "filter {kind} of priority {priority} at {}", Hook(filter.hook))?;
                return match filter.rule {
                    super::filter::FilterRule::Bpf { name, .. } => write!(f, " (`{name}`)"),
                    _ => Ok(()),
                };
            }
        };
        f.write_str(family)?;
        if !kind.is_empty() {
            write!(f, " {kind}")?;
        }
        if place.handle != Handle::NONE {
            write!(f, " {}", place.handle)?;
        }
        match place.parent {
            Handle::CLSACT => Ok(()),
            Handle::ROOT => f.write_str(" at the root"),
            parent => write!(f, " below {parent}"),
        }
    }
}

/// The words for the place of filters.
pub(super) struct Hook(pub(super) Handle);

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Handle::EGRESS => f.write_str("egress"),
            Handle::INGRESS => f.write_str("ingress"),
            qdisc => qdisc.fmt(f),
        }
    }
}

/// An action on an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcAction {
    /// Adds it; fails if its place is taken. A classful root takes the place of the kernel's default.
    Add,
    /// Changes the parameters of the one that is there; packets stay.
    Change,
    /// Puts it there, instead of another one or as a change of the same one.
    Replace,
    /// Deletes it, with its packets and with all below it. Only its place counts.
    Delete,
}

impl fmt::Display for TcAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "add",
            Self::Change => "change",
            Self::Replace => "replace",
            Self::Delete => "delete",
        })
    }
}
