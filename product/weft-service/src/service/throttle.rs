//! The rate of changes by users who are not administrators: each may change tenants [`BURST`] times at once, and then once per
//! [`PAUSE`]. A change compiles the whole policy in the daemon's only thread, so it is never free.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The changes at once.
pub(super) const BURST: u32 = 10;
/// The time that a change counts.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The changes of late, by user.
#[derive(Clone, Debug, Default)]
pub(super) struct Throttle {
    /// The time from which all changes of a user are over.
    over: BTreeMap<u32, Instant>,
}

impl Throttle {
    /// Whether `uid` may change something at `now`, which then counts.
    pub(super) fn admits(&mut self, uid: u32, now: Instant) -> bool {
        self.over.retain(|_, over| *over > now);
        let over = self.over.get(&uid).copied().unwrap_or(now) + PAUSE;
        let admits = over <= now + PAUSE * BURST;
        if admits {
            self.over.insert(uid, over);
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_a_second() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut admitted = |uid, at, tries| (0..tries).filter(|_| throttle.admits(uid, at)).count();
        assert_eq!((admitted(1, start, 100_000), admitted(2, start, 3)), (10, 3));
        assert_eq!(admitted(1, start + Duration::from_millis(999), 5), 0);
        assert_eq!(admitted(1, start + Duration::from_secs(3), 5), 3);
        assert_eq!(admitted(1, start + Duration::from_secs(60), 50), 10);
        assert_eq!(throttle.over.len(), 1, "who has done nothing of late is forgotten");
    }
}
