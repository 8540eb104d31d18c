//! The document of `weft tune`: a host's facts, candidates for other settings, their figures, and a verdict.
//!
//! 1. A [`Candidate`] has runs in the simulator, and of real traffic where it was tried. A [`Figures`] is one run.
//! 2. The candidates are ranked by the [`Wish`]'s figure over the runs of the ranking. The best of many is best by luck too, so it and
//!    the present setting have further runs, which alone decide ([`verdict`](TuneReport::verdict)).
//! 3. The verdict says advice, nothing better, or that the figures do not decide.

mod tables;
mod verdict;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::Effect;
use weft_facts::human;
use weft_facts::record::{Document, Host};
use weft_facts::stats;
use weft_facts::table::Table;

pub use verdict::{Conclusion, Verdict};

/// The purpose of the advice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Wish {
    /// Equal shares of flows.
    #[default]
    Fairness,
    /// Short round trips of small messages.
    Latency,
    /// Payload per second.
    Throughput,
    /// Processor time of the sender per byte.
    Processor,
}

impl Wish {
    /// All wishes.
    pub const ALL: [Self; 4] = [Self::Fairness, Self::Latency, Self::Throughput, Self::Processor];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fairness => "fairness",
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Processor => "processor",
        }
    }

    /// The head of the column.
    const fn head(self) -> &'static str {
        match self {
            Self::Fairness => "unfairness (NFM)",
            Self::Latency => "latency, p90",
            Self::Throughput => "throughput",
            Self::Processor => "sender, ns/B",
        }
    }

    /// The figure of a run.
    pub fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Fairness => figures.nfm,
            Self::Latency => figures.latency_s,
            Self::Throughput => Some(figures.bps),
            Self::Processor => figures.ns_per_byte,
        }
    }

    /// The gain of one figure over another: positive if it is better.
    fn gain(self, of: f64, over: f64) -> f64 {
        if self == Self::Throughput { of - over } else { over - of }
    }

    /// The least difference that matters: a fiftieth of a fair share, a fiftieth of the figure otherwise.
    fn matters(self, present: f64) -> f64 {
        const SHARE: f64 = 0.02;
        if self == Self::Fairness { SHARE } else { SHARE * present.abs() }
    }

    /// A figure in words.
    fn write(self, figure: f64) -> String {
        match self {
            Self::Fairness => format!("{figure:.3}"),
            Self::Latency => human::time(figure),
            Self::Throughput => human::rate(figure),
            Self::Processor => format!("{figure:.3}"),
        }
    }
}

/// A fact about the host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// Its value; null if it is unknown.
    pub value: Option<String>,
}

/// The figures of one run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// NFM over the measured part: the difference of the flows with the most and the fewest bytes, over the fair share; null without flows.
    pub nfm: Option<f64>,
    /// The 90th percentile of round trips of small messages; null without an answer.
    pub latency_s: Option<f64>,
    /// Payload received per second, in bits.
    pub bps: f64,
    /// Processor time of the sender in nanoseconds per payload byte; null without costs.
    pub ns_per_byte: Option<f64>,
}

/// Runs of real traffic, and the simulator's figures for the same testbed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// Runs in the simulator.
    pub simulated: Vec<Figures>,
    /// Runs of real traffic.
    pub measured: Vec<Figures>,
    /// The reason that it was not tried; null if it was.
    pub not_tried: Option<String>,
}

/// A setting of the host: the present one, or another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Whether it is the present setting.
    pub present: bool,
    /// The difference to the present setting.
    pub change: String,
    /// The source of the reason to try it.
    pub source: String,
    /// The commands that set it.
    pub commands: Vec<String>,
    /// The reason that it was not simulated; null if it was.
    pub not_simulated: Option<String>,
    /// The runs of the ranking.
    pub ranking: Vec<Figures>,
    /// Further runs, of the present setting and of the best candidate.
    pub deciding: Vec<Figures>,
    /// The difference of the wish's figure to the present setting; null for that itself, and without runs.
    pub effect: Option<Effect>,
    /// Real traffic; null if none was asked for.
    pub tried: Option<Tried>,
}

impl Candidate {
    /// The mean of a figure over the runs of the ranking.
    fn mean(&self, wish: Wish) -> Option<f64> {
        stats::mean(&values(wish, &self.ranking))
    }
}

/// The wish's figure of each run that has one.
fn values(wish: Wish, runs: &[Figures]) -> Vec<f64> {
    runs.iter().filter_map(|run| wish.of(run)).collect()
}

/// The document of `weft tune`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TuneReport {
    /// `weft-tune/1`.
    pub schema: String,
    /// The host.
    pub host: Host,
    /// The first seed.
    pub seed: u64,
    /// The wish.
    pub wish: Wish,
    /// The device.
    pub device: String,
    /// The facts.
    pub facts: Vec<Fact>,
    /// Values of the scenario that no fact gives.
    pub assumed: Vec<String>,
    /// Facts that decide and are unknown, or that the simulator has no model of, with what to do. With one nothing is simulated.
    pub unknown: Vec<String>,
    /// The costs of the processors' work.
    pub costs: String,
    /// Seeds of the ranking.
    pub seeds: u32,
    /// The present setting first, then the candidates, the best first; those that were not simulated at the end.
    pub candidates: Vec<Candidate>,
    /// The place of the trials with real traffic; null without trials.
    pub tried_at: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Limits of the figures.
    pub labels: Vec<String>,
}

impl TuneReport {
    /// Ranks the candidates, and computes effects and verdict from the runs.
    #[must_use]
    pub fn finish(mut self) -> Self {
        Self::SCHEMA.clone_into(&mut self.schema);
        let wish = self.wish;
        let place = |one: &Candidate| {
            let gain = one.mean(wish).map(|mean| wish.gain(mean, 0.0));
            (!one.present, gain.is_none(), gain.map_or(0.0, |gain| -gain))
        };
        self.candidates.sort_by(|a, b| {
            let (a, b) = (place(a), place(b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        });
        let present = self.present().map(|present| values(wish, &present.ranking)).unwrap_or_default();
        for one in self.candidates.iter_mut().filter(|one| !one.present) {
            let runs = values(wish, &one.ranking);
            let both = !runs.is_empty() && !present.is_empty();
            one.effect = both.then(|| Effect::of(&present, &runs));
        }
        self.verdict = verdict::of(&self);
        self
    }

    /// The present setting.
    pub fn present(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|one| one.present)
    }

    /// The candidates with runs, the best first, once the document is finished.
    pub fn ranked(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|one| !one.present && !one.ranking.is_empty())
    }

    /// The best candidate that does not cost much throughput, which further runs are to judge.
    pub fn best(&self) -> Option<&Candidate> {
        self.ranked().find(|one| !self.is_dear(one))
    }

    /// Whether a candidate costs more than a twentieth of the throughput.
    fn is_dear(&self, one: &Candidate) -> bool {
        const LEAST: f64 = 0.95;
        let bps = |one: &Candidate| one.mean(Wish::Throughput).unwrap_or(0.0);
        self.wish != Wish::Throughput && self.present().is_some_and(|present| bps(one) < LEAST * bps(present))
    }
}

impl Document for TuneReport {
    const SCHEMA: &'static str = "weft-tune/1";

    fn tables(&self) -> Vec<Table> {
        tables::of(self)
    }
}
