//! The classes that drop packets: a line when it begins, with the reasons, and one when no more were dropped for a minute.
//!
//! So the log says which class lost packets, since when and why, however long it lasts. Of many classes at once only some are
//! reported by name.

use super::QUIET;
use std::collections::BTreeMap;
use std::time::Instant;
use weft_facts::counters::{ClassDrops, Counters};
use weft_facts::human;
use weft_facts::status::{StatusClass, reasons};

/// The most classes that are reported at a time.
const TOLD_MAX: usize = 16;

/// A class that drops packets.
#[derive(Debug)]
struct Loss {
    since: Instant,
    last: Instant,
    /// The drops before.
    before: ClassDrops,
}

/// The classes that drop packets.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The drops of each class at the last look; empty before the first.
    seen: BTreeMap<String, ClassDrops>,
    now: BTreeMap<String, Loss>,
}

impl Losses {
    /// Compares the drops with those of the last look, and returns the lines to report. A class that is seen for the first
    /// time has dropped what it has before.
    pub(super) fn check(&mut self, classes: &[StatusClass], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for StatusClass { class, dropped, .. } in classes {
            let before = self.seen.insert(class.clone(), *dropped);
            let Some(before) = before else { continue };
            let (new, room) = (dropped.since(before), self.now.len() < TOLD_MAX);
            match self.now.get_mut(class) {
                Some(loss) if new.total() > 0 => loss.last = now,
                Some(loss) if now >= loss.last + QUIET => {
                    let (all, span) = (dropped.since(loss.before), loss.last - loss.since);
                    let span = human::time(span.as_secs_f64());
                    lines.push(format!(
                        "class {class} has stopped dropping packets; in {span}: {}",
                        reasons(&all)
                    ));
                    self.now.remove(class);
                }
                None if new.total() > 0 && room => {
                    lines.push(format!("class {class} drops packets: {}", reasons(&new)));
                    self.now.insert(class.clone(), Loss { since: now, last: now, before });
                }
                _ => {}
            }
        }
        self.forget(classes);
        lines
    }

    /// Forgets classes that a changed policy has no more.
    fn forget(&mut self, classes: &[StatusClass]) {
        if self.seen.len() > classes.len() {
            let there = |name: &String| classes.iter().any(|class| class.class == *name);
            self.seen.retain(|name, _| there(name));
            self.now.retain(|name, _| there(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weft_units::Packets;

    fn class(name: &str, bound: u64, full: u64) -> StatusClass {
        let dropped = ClassDrops { bound: Packets(bound), ring_full: Packets(full), ..ClassDrops::default() };
        StatusClass { class: name.to_owned(), dropped, ..StatusClass::default() }
    }

    #[test]
    fn begin_and_end_of_a_loss_are_told_with_their_reasons() {
        let (mut losses, start) = (Losses::default(), Instant::now());
        let mut at = |second, bound, full| {
            losses.check(&[class("a", bound, full), class("b", 7, 0)], start + Duration::from_secs(second))
        };
        assert!(at(0, 5, 0).is_empty(), "drops of before");
        assert_eq!(at(10, 8, 1), ["class a drops packets: bound 3, ring_full 1"]);
        assert!(at(40, 9, 1).is_empty() && at(70, 20, 1).is_empty() && at(129, 20, 1).is_empty());
        assert_eq!(at(130, 20, 1), ["class a has stopped dropping packets; in 60 s: bound 15, ring_full 1"]);
        assert!(at(200, 20, 1).is_empty());
        assert_eq!(at(201, 21, 1), ["class a drops packets: bound 1"]);
    }

    #[test]
    fn many_classes_are_not_told_all() {
        let (mut losses, now) = (Losses::default(), Instant::now());
        let classes = |bound| (0..100).map(|at| class(&format!("c{at}"), bound, 0)).collect::<Vec<_>>();
        assert!(losses.check(&classes(0), now).is_empty());
        assert_eq!(losses.check(&classes(1), now).len(), TOLD_MAX);
        assert!(losses.check(&classes(2)[..1], now).is_empty());
        assert_eq!((losses.seen.len(), losses.now.len()), (1, 1));
    }
}
