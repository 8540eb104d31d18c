//! The use of the policy of a host's NIC: what each of its classes sends and loses, and the changes that are to come.
//!
//! A phase is the time from one change to the next. Its classes' packets are counted as they leave or are dropped, by the class that
//! the policy in force gives their stream; the balance of the rings has other counters.

use crate::ids::{StreamId, Table};
use crate::outcome::{ClassSent, DropCounts, DropPlace, PolicyChanged, PolicyPhase};
use crate::packet::Packet;
use crate::policy::Refusal;
use std::collections::VecDeque;
use weft_sched::Prepared;
use weft_units::{ClassId, Counted, LaneId, Nanos, TxQueueId};

/// The classes of a policy, and that of each stream.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    /// By id; a vacant id has an empty name.
    pub(crate) names: Vec<String>,
    /// By stream; the entries of other hosts' streams have no meaning.
    pub(crate) of: Table<StreamId, ClassId>,
}

/// A policy that is ready to take over from the one before.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) tree: Prepared,
    /// The lane of each queue.
    pub(crate) lanes: Vec<(TxQueueId, LaneId)>,
    pub(crate) classes: Classes,
    /// The differences, in the policy's words.
    pub(crate) steps: Vec<String>,
    /// Tenants that do without their files, and effects that the author may not have meant.
    pub(crate) warnings: Vec<String>,
}

/// A change that is to come.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) at: Nanos,
    /// The tenant and its file, or the policy.
    pub(crate) what: String,
    /// The exchange, or the reason why the change is refused.
    pub(crate) exchange: Result<Exchange, Refusal>,
}

/// The use of a policy.
#[derive(Debug)]
pub(crate) struct PolicyUse {
    classes: Classes,
    /// By class, since the phase began.
    sent: Vec<Counted>,
    dropped: Vec<DropCounts>,
    /// The phase in progress, without its end and classes.
    phase: PolicyPhase,
    ended: Vec<PolicyPhase>,
    coming: VecDeque<Coming>,
}

impl PolicyUse {
    /// The use of a host's first policy. The changes are in the order of their times.
    pub(crate) fn new(host: u32, classes: Classes, coming: VecDeque<Coming>) -> Self {
        let sent = vec![Counted::ZERO; classes.names.len()];
        let dropped = vec![DropCounts::default(); sent.len()];
        let phase = PolicyPhase { host, ..PolicyPhase::default() };
        Self { classes, sent, dropped, phase, ended: Vec::new(), coming }
    }

    /// The times of the changes to come.
    pub(crate) fn times(&self) -> impl Iterator<Item = Nanos> {
        self.coming.iter().map(|coming| coming.at)
    }

    /// Counts a packet that leaves.
    #[inline]
    pub(crate) fn count_sent(&mut self, packet: &Packet) {
        let class = self.class_of(packet.stream);
        if let Some(sent) = self.sent.get_mut(class.index()) {
            *sent += Counted::new(1, packet.len.into());
        }
    }

    /// Counts packets of a stream that are dropped.
    pub(crate) fn count_dropped(&mut self, place: DropPlace, stream: StreamId, amount: Counted) {
        let class = self.class_of(stream);
        if let Some(dropped) = self.dropped.get_mut(class.index()) {
            dropped.count(place, amount);
        }
    }

    fn class_of(&self, stream: StreamId) -> ClassId {
        self.classes.of.get(stream).copied().unwrap_or(ClassId(0))
    }

    /// Returns the change whose time has come.
    pub(crate) fn due(&mut self) -> Option<Coming> {
        self.coming.pop_front()
    }

    /// Refuses the changes to come, which were prepared for a policy that is not in force.
    pub(crate) fn refuse_rest(&mut self, reason: &Refusal) {
        self.coming.iter_mut().for_each(|coming| coming.exchange = Err(reason.clone()));
    }

    /// Begins a phase with a change and, unless the change was refused, the classes of the new policy.
    pub(crate) fn begin(&mut self, change: PolicyChanged, classes: Option<Classes>, now: Nanos) {
        let begun =
            PolicyPhase { host: self.phase.host, from: now, change: Some(change), ..PolicyPhase::default() };
        let ended = core::mem::replace(&mut self.phase, begun);
        self.end(ended, now);
        if let Some(classes) = classes {
            self.classes = classes;
        }
        self.sent = vec![Counted::ZERO; self.classes.names.len()];
        self.dropped = vec![DropCounts::default(); self.classes.names.len()];
    }

    fn end(&mut self, phase: PolicyPhase, until: Nanos) {
        let amounts = core::mem::take(&mut self.sent).into_iter().zip(core::mem::take(&mut self.dropped));
        let of = |(class, (sent, dropped)): (&String, (Counted, DropCounts))| ClassSent {
            class: class.clone(),
            sent,
            dropped,
        };
        let counted = |class: &ClassSent| (class.sent, class.dropped) != Default::default();
        let used = |class: &ClassSent| !class.class.is_empty() || counted(class);
        let classes = self.classes.names.iter().zip(amounts).map(of).filter(used).collect();
        self.ended.push(PolicyPhase { until, classes, ..phase });
    }

    /// Returns all phases of a run that ends at `end`.
    pub(crate) fn finish(&mut self, end: Nanos) -> Vec<PolicyPhase> {
        let phase = core::mem::take(&mut self.phase);
        self.end(phase, end);
        core::mem::take(&mut self.ended)
    }
}
