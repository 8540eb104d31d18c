//! The return of virtual times towards zero, as [`crate::virtual_time`] does it for the built-in disciplines.

use weft_rank::{Rank, RankWord, Reading};

use super::super::children::Children;
use super::{At, Scheduler};
use crate::virtual_time::{REBASE_AT, rebase_base};

impl Scheduler {
    /// Whether a virtual time of the node has come near its end.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.virtual_times.iter().any(|field| self.state[usize::from(*field)] >= REBASE_AT)
    }

    /// Subtracts one number from all virtual times: of the node, of the children `all`, and in ranks. The order stays, also
    /// that of references up to `2^61` units behind. Linear in the children.
    #[cold]
    pub(crate) fn rebase(&mut self, children: &mut Children, all: impl Iterator<Item = At> + Clone) {
        let times = self.virtual_times.iter().map(|field| self.state[usize::from(*field)]);
        let now = times.min().unwrap_or(0);
        let oldest = all.clone().filter_map(|at| self.oldest(children, at.id)).min();
        let base = rebase_base(now, oldest.unwrap_or(now));
        for at in all.clone() {
            self.take_out(children, &at);
            children.lowest.remove(&mut self.lowest, at.id);
        }
        for field in &self.virtual_times {
            let word = &mut self.state[usize::from(*field)];
            *word = word.saturating_sub(base);
        }
        self.turn_rank = self.rebased(self.turn_rank, base);
        for at in all {
            let custom = &self.custom;
            for (field, word) in custom.algorithm.child.iter().zip(children.state_mut(at.id)) {
                if field.reading == Reading::VirtualTime {
                    *word = word.saturating_sub(base);
                }
            }
            let reference = &mut children.references[at.id as usize];
            reference.rank = self.rebased(reference.rank, base);
            reference.until = self.rebased(reference.until, base);
            reference.from = reference.from.saturating_sub(base);
            self.keep_lowest(children, at.id);
            self.place(children, &at);
        }
    }

    /// The oldest virtual time of an active child.
    fn oldest(&self, children: &Children, id: u32) -> Option<u64> {
        let reference = children.references.get(id as usize).filter(|reference| reference.active)?;
        let fields = self.custom.algorithm.child.iter().zip(children.state(id));
        let times = fields.filter(|(field, _)| field.reading == Reading::VirtualTime).map(|(_, word)| *word);
        times.chain(self.virtual_rank(reference.rank)).min()
    }

    /// The component of a rank that is a virtual time.
    fn virtual_rank(&self, rank: Rank) -> Option<u64> {
        Some(match self.custom.algorithm.aggregates.virtual_rank? {
            RankWord::First => rank.first,
            RankWord::Second => rank.second,
        })
    }

    fn rebased(&self, rank: Rank, base: u64) -> Rank {
        match self.custom.algorithm.aggregates.virtual_rank {
            Some(RankWord::First) => Rank { first: rank.first.saturating_sub(base), ..rank },
            Some(RankWord::Second) => Rank { second: rank.second.saturating_sub(base), ..rank },
            None => rank,
        }
    }
}
