//! A trace: the samples of a run, equal ones added up.

use std::collections::HashMap;

use weft_host::perf_event::{Mode, Sample};

/// The activity of a processor in a sample.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Sampled {
    /// The process.
    pub(super) pid: u32,
    /// The mode.
    pub(super) mode: Mode,
    /// Kernel addresses, the innermost first.
    pub(super) chain: Vec<u64>,
}

/// Samples, equal ones added up, so that memory grows with the kinds of samples and not with their number.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    periods: HashMap<Sampled, u64>,
    samples: u64,
}

impl Trace {
    /// Adds a sample on account of its process.
    pub fn add(&mut self, sample: &Sample) {
        self.add_to(sample.pid, sample);
    }

    /// Adds a sample on account of `account`, which takes the place of the process.
    pub fn add_to(&mut self, account: u32, sample: &Sample) {
        let sampled = Sampled { pid: account, mode: sample.mode, chain: sample.chain.clone() };
        *self.periods.entry(sampled).or_default() += sample.period;
        self.samples += 1;
    }

    /// The number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The sum of all periods.
    pub fn periods(&self) -> u64 {
        self.periods.values().sum()
    }

    /// Kinds of samples with the sum of their periods.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Sampled, u64)> {
        self.periods.iter().map(|(sampled, periods)| (sampled, *periods))
    }
}
