//! One alarm per class, and the earliest of them.

use weft_units::Nanos;

/// A tournament tree over a fixed number of alarms: setting one takes O(log n), the earliest is at the root.
#[derive(Clone, Debug)]
pub(super) struct Alarms {
    /// Nodes from the root at 1; the leaves are the second half.
    earliest: Vec<Nanos>,
}

impl Alarms {
    /// Creates `count` alarms, none set.
    pub(super) fn new(count: usize) -> Self {
        Self { earliest: vec![Nanos::MAX; 2 * count.next_power_of_two()] }
    }

    /// Sets an alarm; [`Nanos::MAX`] clears it.
    pub(super) fn set(&mut self, which: usize, time: Nanos) {
        let mut node = self.earliest.len() / 2 + which;
        self.earliest[node] = time;
        while node > 1 {
            node /= 2;
            self.earliest[node] = self.earliest[2 * node].min(self.earliest[2 * node + 1]);
        }
    }

    /// Returns the time and index of the earliest alarm; the time is [`Nanos::MAX`] if none is set.
    pub(super) fn first(&self) -> (Nanos, usize) {
        let leaves = self.earliest.len() / 2;
        let time = self.earliest[1];
        let mut node = 1;
        while node < leaves {
            node = if self.earliest[2 * node] == time { 2 * node } else { 2 * node + 1 };
        }
        (time, node - leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_what_a_scan_finds() {
        for count in 1..20_usize {
            let mut alarms = Alarms::new(count);
            let mut plain = vec![Nanos::MAX; count];
            for step in 0..200_u64 {
                let which = (step * 7 + step / 3) as usize % count;
                let time = if step % 5 == 0 { Nanos::MAX } else { Nanos(step * 7919 % 101) };
                alarms.set(which, time);
                plain[which] = time;
                let first =
                    plain.iter().copied().enumerate().min_by_key(|(_, time)| *time).expect("not empty");
                assert_eq!(alarms.first(), (first.1, first.0));
            }
        }
    }
}
