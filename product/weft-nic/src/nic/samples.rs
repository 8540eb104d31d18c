//! The samples of a NIC: those of its workers, window by window.

use crate::sampler::Sample;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use weft_units::{Bytes, Nanos};

/// The samples of all workers. Their windows begin together, so the n-th of each are of one time.
#[derive(Debug)]
pub struct Samples {
    workers: Vec<Receiver<Sample>>,
    /// The samples of windows that another worker has not closed yet, by worker.
    open: RefCell<Vec<VecDeque<Sample>>>,
}

impl Samples {
    pub(super) fn new(workers: Vec<Receiver<Sample>>) -> Self {
        let open = RefCell::new(workers.iter().map(|_| VecDeque::new()).collect());
        Self { workers, open }
    }

    /// The samples of the windows that all workers have closed since the last call.
    pub fn try_iter(&self) -> impl Iterator<Item = Sample> {
        core::iter::from_fn(|| self.next())
    }

    fn next(&self) -> Option<Sample> {
        if let [only] = &self.workers[..] {
            return only.try_recv().ok();
        }
        let mut open = self.open.borrow_mut();
        open.iter_mut().zip(&self.workers).for_each(|(queue, worker)| queue.extend(worker.try_iter()));
        if open.iter().any(VecDeque::is_empty) {
            return None;
        }
        open.iter_mut().filter_map(VecDeque::pop_front).reduce(Sample::and)
    }
}

impl Sample {
    /// The sample of two workers, of the same window. A class has waited if it has at one of them.
    fn and(mut self, other: Self) -> Self {
        let add = |sum: &mut [Bytes], more: &[Bytes]| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += *more);
        };
        add(&mut self.wire, &other.wire);
        add(&mut self.standing, &other.standing);
        self.backlogged_rings += other.backlogged_rings;
        self.waited.iter_mut().zip(&other.waited).for_each(|(one, other)| *one |= other);
        let longest = |one: &mut Nanos, other: &Nanos| *one = (*one).max(*other);
        self.longest_wait.iter_mut().zip(&other.longest_wait).for_each(|(one, other)| longest(one, other));
        self.lost = self.lost.max(other.lost);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use weft_units::Instant;

    fn sample(start: u64, wire: [u64; 2], waited: [bool; 2]) -> Sample {
        Sample {
            start: Instant::from_millis(start),
            window: Nanos::from_millis(10),
            wire: wire.map(Bytes).to_vec(),
            standing: vec![Bytes(1); 2],
            backlogged_rings: 1,
            waited: waited.to_vec(),
            longest_wait: vec![Nanos(start), Nanos(5)],
            lost: Nanos::ZERO,
        }
    }

    #[test]
    fn a_window_is_there_when_all_workers_have_closed_it() {
        let ((one, of_one), (two, of_two)) = (channel(), channel());
        let samples = Samples::new(vec![of_one, of_two]);
        let send = |to: &std::sync::mpsc::Sender<Sample>, sample| to.send(sample).expect("a reader");
        send(&one, sample(0, [10, 20], [true, false]));
        send(&one, sample(10, [1, 2], [false, false]));
        assert_eq!(samples.try_iter().count(), 0);
        send(&two, sample(0, [3, 4], [false, false]));
        let both = samples.try_iter().collect::<Vec<_>>();
        let expected =
            Sample { standing: vec![Bytes(2); 2], backlogged_rings: 2, ..sample(0, [13, 24], [true, false]) };
        assert_eq!(both, [expected]);
        send(&two, sample(10, [0, 0], [false, true]));
        assert_eq!(samples.try_iter().map(|s| s.waited).collect::<Vec<_>>(), [[false, true]]);
    }
}
