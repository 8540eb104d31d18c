//! Operations whose results only one conditional store takes: they can wait for its condition.

use weft_rank::{Binary, Operation};

/// The users of a result, as far as they are known.
#[derive(Clone, Copy, PartialEq)]
enum Users {
    None,
    /// Only a conditional store, as its value, and operations that only it needs.
    Store(usize),
    Others,
}

impl Users {
    fn with(self, more: Self) -> Self {
        if self == Self::None || self == more { more } else { Self::Others }
    }
}

/// Whether an operation takes longer than a branch.
fn is_expensive(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Binary { operator: Binary::Div | Binary::Rem | Binary::DivSigned | Binary::OverSqrt, .. }
    )
}

/// Whether the result depends on the operands only, and not on the place of the operation.
fn is_pure(operation: &Operation) -> bool {
    !matches!(operation, Operation::Load(_) | Operation::Store { .. })
}

/// For each operation the conditional store that it can wait for, where that is worth a branch. The effects of a program are
/// users, too: `effects` are the places of what they take.
pub(crate) fn guarded(operations: &[Operation], effects: impl Iterator<Item = usize>) -> Vec<Option<usize>> {
    let mut users = vec![Users::None; operations.len()];
    effects.for_each(|index| users[index] = Users::Others);
    for (at, operation) in operations.iter().enumerate().rev() {
        let own = match (is_pure(operation), users[at]) {
            (true, Users::Store(store)) => Users::Store(store),
            _ => Users::Others,
        };
        for operand in operation.operands() {
            let user = match *operation {
                Operation::Store { value, when: Some(condition), .. }
                    if value == operand && condition != operand =>
                {
                    Users::Store(at)
                }
                _ => own,
            };
            users[operand.index()] = users[operand.index()].with(user);
        }
    }
    let waits = |index: usize| match users[index] {
        Users::Store(store) if is_pure(&operations[index]) => Some(store),
        _ => None,
    };
    let worth =
        |store| (0..store).any(|index| waits(index) == Some(store) && is_expensive(&operations[index]));
    (0..operations.len()).map(|index| waits(index).filter(|store| worth(*store))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_rank::{Part, ProgramBuilder, Slot};

    #[test]
    fn only_what_one_conditional_store_takes_waits_for_it() {
        let mut b = ProgramBuilder::new(Part::Sent);
        let (x, y, condition) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let alone = b.add(x, y);
        let quotient = b.div(alone, y);
        b.store_if(condition, Slot::Node(0), quotient);
        let shared = b.div(y, x);
        b.store_if(condition, Slot::Node(1), shared);
        b.store_if(condition, Slot::Node(2), shared);
        let cheap = b.sub(x, y);
        b.store_if(condition, Slot::Node(3), cheap);
        let taken = b.rem(x, y);
        b.store_if(condition, Slot::Node(4), taken);
        let program = b.build().expect("a program");
        let found = guarded(program.operations(), [taken.index()].into_iter());
        let waiting: Vec<_> =
            found.iter().enumerate().filter_map(|(at, store)| Some((at, (*store)?))).collect();
        assert_eq!(waiting, [(alone.index(), 5), (quotient.index(), 5)]);
    }
}
