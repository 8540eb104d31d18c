//! A device's former root, as the messages that made it.

use super::device::{QdiscFound, TcDevice};
use super::error::{Result, TcError};
use super::handle::Handle;
use super::message::TcPlace;
use super::object::{TcAction, TcObject};
use super::qdisc::Qdisc;

/// Kinds with classes and filters of their users, which a dump of the qdisc does not have.
const WITH_CLASSES: [&str; 6] = ["htb", "hfsc", "drr", "qfq", "ets", "cbq"];
/// Kinds whose bands may have been given qdiscs and filters.
const WITH_BANDS: [&str; 2] = ["prio", "multiq"];

/// A device's egress qdiscs at one time. The kernel accepts its own dumps of kind and options as requests, with the same handles:
/// `fq_codel`, `fq`, `pfifo_fast`, `tbf`, `prio`, `sfq` and others, also below `mq`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved(Vec<(TcPlace, Qdisc)>);

impl Saved {
    /// Returns a root from its [`messages`](Self::messages), which may have been kept in a file.
    pub const fn new(messages: Vec<(TcPlace, Qdisc)>) -> Self {
        Self(messages)
    }

    /// The place and the qdisc of each message, the root first, then those below it. Empty for the kernel's default, which comes
    /// back when ours is deleted.
    pub fn messages(&self) -> &[(TcPlace, Qdisc)] {
        &self.0
    }

    /// The kind of the former root; `None` if it was the kernel's default.
    pub fn kind(&self) -> Option<&str> {
        self.0.first().map(|(_, root)| root.kind())
    }
}

impl TcDevice {
    /// Saves the root, so that [`restore`](Self::restore) can put it back. Nothing changes.
    ///
    /// # Errors
    /// [`TcError::NotRestorable`] for a root with classes or filters, which the dump does not have; otherwise the kernel's error.
    pub fn save(&mut self) -> Result<Saved> {
        let all = self.qdiscs()?;
        let root = all.iter().find(|qdisc| qdisc.place.parent == Handle::ROOT);
        let Some(root) = root.filter(|root| root.place.handle != Handle::NONE).cloned() else {
            return Ok(Saved(Vec::new()));
        };
        let action = format!("save the root of {self}");
        let lost = |qdisc: &QdiscFound, why| TcError::NotRestorable {
            action: action.clone(),
            kind: qdisc.kind.clone(),
            handle: qdisc.place.handle,
            why,
        };
        let mut qdiscs = vec![root];
        let mut at = 0;
        while let Some(qdisc) = qdiscs.get(at).cloned() {
            let handle = qdisc.place.handle;
            let below = all.iter().filter(|one| {
                // What the kernel made below a saved qdisc it makes again.
                one.place.parent.major() == handle.major()
                    && one.place.parent != Handle::ROOT
                    && one.place.handle != Handle::NONE
            });
            let below: Vec<_> = below.cloned().collect();
            let banded = WITH_BANDS.contains(&qdisc.kind.as_str());
            if WITH_CLASSES.contains(&qdisc.kind.as_str()) || banded && !below.is_empty() {
                return Err(lost(&qdisc, "its classes would be lost"));
            }
            if banded && !self.filters(handle)?.is_empty() {
                return Err(lost(&qdisc, "its filters would be lost"));
            }
            // A dump has each handle once, so that this ends.
            qdiscs.extend(below.into_iter().filter(|one| !qdiscs.contains(one)).collect::<Vec<_>>());
            at += 1;
        }
        let message = |QdiscFound { place, kind, options, .. }| (place, Qdisc::Other { kind, options });
        Ok(Saved(qdiscs.into_iter().map(message).collect()))
    }

    /// Puts back the root that was saved, instead of ours, whose handle is `ours`, or of the kernel's default. Its counters begin anew,
    /// and the packets in ours are lost. Of the kernel's default there is nothing to put back: ours is deleted.
    ///
    /// # Errors
    /// [`TcError::NotOurs`] if the root is another one by now, which is left in place; [`TcError::Batch`] if the kernel refuses a message.
    pub fn restore(&mut self, saved: &Saved, ours: Handle) -> Result<()> {
        let there = self.root()?.filter(|root| root.place.handle != Handle::NONE);
        if let Some(root) = &there {
            let QdiscFound { place: TcPlace { handle, .. }, kind, .. } = root;
            if *handle != ours {
                let (device, kind, handle) = (self.to_string(), kind.clone(), *handle);
                return Err(TcError::NotOurs { device, kind, handle });
            }
            // A qdisc of the same handle would be changed, and its kind cannot change (`tc_modify_qdisc`).
            if saved.0.first().is_none_or(|(former, _)| former.handle == ours) {
                self.delete_qdisc(root.place)?;
            }
        }
        let messages = saved.0.iter().cloned();
        self.batch(messages.map(|(place, qdisc)| (TcAction::Replace, TcObject::Qdisc(place, qdisc))))
    }
}
