//! The condition at which a program is worth cutting in two: where it holds, or where it does not, most of the rest has no use.
//!
//! A program in which most packets leave at a first test (CoDel) would otherwise compute everything for each of them. Each half is
//! the rest of the program with the condition known.

use weft_rank::{Binary, Effect, Operation, Value};

/// The fewest operations that a half must save: a branch that is not predicted costs some twenty instructions.
const SAVED_MIN: usize = 8;

/// Whether values are not 0, as far as that follows from a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts(Vec<Option<bool>>);

impl Facts {
    /// No facts about any of `count` values.
    pub(crate) fn none(count: usize) -> Self {
        Self(vec![None; count])
    }

    /// All that follows when the result of operation `at` is not 0 (`holds`), or is 0.
    pub(crate) fn of(operations: &[Operation], at: usize, holds: bool) -> Self {
        let mut facts = Self::none(operations.len());
        facts.0[at] = Some(holds);
        for index in (0..=at).rev() {
            facts.mark_operands(operations[index], facts.0[index]);
        }
        for (index, operation) in operations.iter().enumerate() {
            if facts.0[index].is_none() {
                facts.0[index] = facts.result(operation);
            }
        }
        facts
    }

    /// Whether the value is not 0, if that is known.
    pub(crate) fn get(&self, value: Value) -> Option<bool> {
        self.0[value.index()]
    }

    fn mark_operands(&mut self, operation: Operation, result: Option<bool>) {
        match (operation, result) {
            (Operation::Not(value), Some(holds)) => self.0[value.index()] = Some(!holds),
            (Operation::Binary { operator: Binary::And, left, right }, Some(true)) => {
                self.0[left.index()] = Some(true);
                self.0[right.index()] = Some(true);
            }
            (Operation::Binary { operator: Binary::Or, left, right }, Some(false)) => {
                self.0[left.index()] = Some(false);
                self.0[right.index()] = Some(false);
            }
            _ => {}
        }
    }

    fn result(&self, operation: &Operation) -> Option<bool> {
        match *operation {
            Operation::Constant(value) => Some(value != 0),
            Operation::Not(value) => self.get(value).map(|holds| !holds),
            Operation::Binary { operator: Binary::And, left, right } => {
                match (self.get(left), self.get(right)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            }
            Operation::Binary { operator: Binary::Or, left, right } => {
                match (self.get(left), self.get(right)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                }
            }
            Operation::Select { condition, yes, no } => self.get(if self.get(condition)? { yes } else { no }),
            _ => None,
        }
    }

    /// Whether an operation is done: not a store whose condition is known not to hold.
    pub(crate) fn allows(&self, operation: &Operation) -> bool {
        !matches!(operation, Operation::Store { when: Some(condition), .. } if self.get(*condition) == Some(false))
    }
}

/// The number of operations after `at` that nothing needs, with these facts.
fn saved(operations: &[Operation], effects: &[Effect], at: usize, facts: &Facts) -> usize {
    let mut needed = vec![false; operations.len()];
    for effect in effects {
        let condition = match effect {
            Effect::Rerank(condition) | Effect::Drop(condition) | Effect::Mark(condition) => Some(*condition),
            _ => None,
        };
        if condition.and_then(|condition| facts.get(condition)).is_none() {
            effect.operands().for_each(|value| needed[value.index()] = true);
        }
    }
    for (index, operation) in operations.iter().enumerate().rev() {
        let stores = matches!(operation, Operation::Store { .. }) && facts.allows(operation);
        let constant = operation.is_truth() && facts.0[index].is_some();
        needed[index] |= stores;
        if !needed[index] || constant {
            continue;
        }
        match *operation {
            Operation::Select { condition, yes, no } if facts.get(condition).is_some() => {
                let taken = if facts.get(condition) == Some(true) { yes } else { no };
                needed[taken.index()] = true;
            }
            _ => operation.operands().for_each(|value| needed[value.index()] = true),
        }
    }
    needed[at + 1..].iter().filter(|needed| !**needed).count()
}

/// The operation after which the program is cut: the one whose result saves the most in one of the halves; the first of equals.
pub(crate) fn best(operations: &[Operation], effects: &[Effect]) -> Option<usize> {
    let without = |at: usize| saved(operations, effects, at, &Facts::none(operations.len()));
    let mut best = (SAVED_MIN - 1, None);
    let is_condition =
        |at: &usize| operations[*at].is_truth() && !matches!(operations[*at], Operation::Constant(_));
    for at in (0..operations.len()).filter(is_condition) {
        let saved = |holds| saved(operations, effects, at, &Facts::of(operations, at, holds));
        let most = saved(true).max(saved(false)).saturating_sub(without(at));
        if most > best.0 {
            best = (most, Some(at));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_rank::{Part, ProgramBuilder, Slot, samples};

    #[test]
    fn codel_is_cut_where_the_wait_is_short() {
        let codel = samples::codel();
        let program = codel.parts.iter().next().expect("one part");
        let (operations, effects) = (program.operations(), program.effects());
        let at = best(operations, effects).expect("it is cut");
        let first = operations.iter().position(|o| o.is_truth() && matches!(o, Operation::Binary { .. }));
        assert_eq!(Some(at), first, "at the first test of {operations:?}");
        let facts = Facts::of(operations, at, true);
        let stores = operations.iter().filter(|o| matches!(o, Operation::Store { .. }) && facts.allows(o));
        assert_eq!(stores.count(), 2, "above and next");
        assert!(matches!(effects, [Effect::Drop(drops)] if facts.get(*drops) == Some(false)));
    }

    #[test]
    fn what_follows_from_a_condition() {
        let mut b = ProgramBuilder::new(Part::Sent);
        let (x, y) = (b.parameter(0), b.parameter(1));
        let (less, more) = (b.lt(x, y), b.lt(y, x));
        let both = b.and(less, x);
        let either = b.or(both, more);
        let neither = b.not(either);
        let chosen = b.select(less, neither, more);
        b.store(Slot::Node(0), chosen);
        let program = b.build().expect("a program");
        let of = |value: Value, holds| Facts::of(program.operations(), value.index(), holds);
        let facts = of(neither, true);
        assert_eq!(
            [either, both, more, less, x].map(|v| facts.get(v)),
            [Some(false), Some(false), Some(false), None, None]
        );
        let facts = of(both, true);
        let expected = [Some(true), Some(true), Some(true), Some(false), Some(false), None];
        assert_eq!([x, less, either, neither, chosen, more].map(|v| facts.get(v)), expected);
        assert_eq!(best(program.operations(), program.effects()), None, "too little to save");
    }
}
