//! A leaf under a user-defined algorithm, with its dropper.

use std::sync::Arc;

use weft_rank::{Effects, Execute, Inputs, Part};

use super::children::Children;
use super::scheduler::{Scheduler, Sight};
use crate::program::Custom;

/// The verdict of a leaf's programs on a fetched packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeafVerdict {
    /// Send it.
    Send,
    /// Send it, marked as having experienced congestion.
    Mark,
    /// Drop it, and end the turn with nothing sent.
    Drop,
}

impl LeafVerdict {
    fn of(effects: &[Effects]) -> Self {
        if effects.iter().any(Effects::drops) {
            Self::Drop
        } else if effects.iter().any(Effects::marks) {
            Self::Mark
        } else {
            Self::Send
        }
    }
}

/// A leaf under a user-defined algorithm.
#[derive(Debug)]
pub(crate) struct ScriptLeaf {
    pub(crate) scheduler: Scheduler,
    pub(crate) dropper: Option<Dropper>,
    /// The lane that the leaf offers.
    pub(crate) offered: Option<usize>,
}

/// A dropper at work in a leaf.
#[derive(Debug)]
pub(crate) struct Dropper {
    pub(crate) custom: Arc<Custom>,
    pub(crate) state: Box<[u64]>,
    parameters: Box<[u64]>,
}

impl Dropper {
    fn new(custom: &Arc<Custom>) -> Self {
        Self {
            custom: custom.clone(),
            state: custom.algorithm.node.iter().map(|field| field.initial).collect(),
            parameters: custom.parameters.first().cloned().unwrap_or_default().into(),
        }
    }
}

impl ScriptLeaf {
    pub(crate) fn new(custom: &Arc<Custom>, lanes: usize) -> Self {
        let dropper = custom.dropper.as_ref().map(Dropper::new);
        Self { scheduler: Scheduler::of_leaf(custom, lanes), dropper, offered: None }
    }

    /// Whether it has the algorithm that `old` has.
    pub(crate) fn continues(&self, old: &Self) -> bool {
        self.scheduler.custom.continues(&old.scheduler.custom)
    }

    /// Whether it has the dropper that `old` has.
    pub(crate) fn continues_drops(&self, old: &Self) -> bool {
        let droppers = self.dropper.as_ref().zip(old.dropper.as_ref());
        droppers.is_some_and(|(new, old)| new.custom.continues(&old.custom))
    }

    /// Takes over the state of the leaf itself.
    pub(crate) fn carry(&mut self, old: &Self) {
        if self.continues(old) {
            self.scheduler.state.copy_from_slice(&old.scheduler.state);
        }
        if let (true, Some(new), Some(old)) = (self.continues_drops(old), &mut self.dropper, &old.dropper) {
            new.state.copy_from_slice(&old.state);
        }
    }

    /// The words of state of a flow.
    pub(crate) fn words(custom: &Custom) -> usize {
        let dropper = custom.dropper.as_ref().map_or(0, |dropper| dropper.algorithm.child.len());
        custom.algorithm.child.len() + dropper
    }

    /// Gives a flow its first contents.
    pub(crate) fn make_new(&self, flows: &mut Children, id: u32) {
        self.scheduler.make_new(flows, id);
        self.forget_drops(flows, id);
    }

    /// Gives a flow its first contents in the dropper.
    pub(crate) fn forget_drops(&self, flows: &mut Children, id: u32) {
        let first = self.scheduler.custom.algorithm.child.len();
        let fields = self.dropper.iter().flat_map(|dropper| &dropper.custom.algorithm.child);
        for (field, word) in fields.zip(&mut flows.state_mut(id)[first..]) {
            *word = field.initial;
        }
    }

    /// The verdict on a fetched packet of flow `id`.
    pub(crate) fn fetched(&mut self, flows: &mut Children, id: u32, sight: &Sight<'_>) -> LeafVerdict {
        let own = self.scheduler.fetched(flows, id, sight);
        let Some(dropper) = &mut self.dropper else { return LeafVerdict::of(&[own]) };
        let inputs = Inputs {
            queued_bytes: sight.queued.bytes,
            queued_packets: sight.queued.packets,
            head: *sight.head,
            packet: *sight.packet,
            ..Inputs::at(sight.now)
        };
        let first = self.scheduler.custom.algorithm.child.len();
        let words = dropper.custom.algorithm.child.len();
        let child = &mut flows.state_mut(id)[first..first + words];
        let Dropper { custom, state, parameters } = dropper;
        let effects = custom.run(Part::Fetched, &inputs, parameters, state, child);
        LeafVerdict::of(&[own, effects])
    }
}
