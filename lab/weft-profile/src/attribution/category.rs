//! The category of a call chain.

use weft_host::perf_event::Clock;
use weft_report::profile::Category;

use crate::categories::{Categories, CategoryRule};

/// The category of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    pub(super) category: Category,
    /// Whether the table has the innermost function.
    pub(super) known: bool,
}

/// The category of a chain, whose innermost function comes first.
pub(super) fn of(names: &[&str], table: &Categories, clock: Clock) -> Verdict {
    let known = names.first().is_some_and(|leaf| table.rule(leaf).is_some());
    let decide = |(i, name): (usize, &&str)| {
        let paired = names.get(i + 1).and_then(|caller| table.pair(caller, name));
        match (paired, table.rule(name)?) {
            (Some(category), _) | (None, CategoryRule::Category(category)) => Some(category),
            // Only the innermost function has the time of the section before it.
            (None, CategoryRule::Skid(_)) if i == 0 && clock.has_skid() => Some(Category::IrqOff),
            (None, CategoryRule::Skid(category)) => Some(category),
            (None, CategoryRule::Idle) => Some(Category::Etc),
            (None, CategoryRule::Inherit) => None,
        }
    };
    let category = names.iter().enumerate().find_map(decide).unwrap_or(Category::Unmapped);
    Verdict { category, known }
}
