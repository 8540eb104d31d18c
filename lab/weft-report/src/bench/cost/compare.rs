//! Ratios between variants, and their bounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CORES_MIN, DISTURBED_MAX, Figures, Parts, Sample, Variant};
use crate::rounds::ratios;
use weft_facts::{human, stats};

/// The payload of a full frame over its bytes on the wire: the most that TCP can carry at a link's rate.
const PAYLOAD_OF_WIRE: f64 = 1448.0 / 1538.0;
/// The part of that from which on the link, and not the machine, is the limit.
const LINK_FULL: f64 = 0.9;

/// A compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Figure {
    /// Busy cores per Gb/s of payload.
    #[serde(rename = "cores_per_gbps")]
    Cores,
    /// Payload per second.
    #[serde(rename = "bps")]
    Throughput,
    /// The requests' median round trip.
    #[serde(rename = "p50_s")]
    P50,
    /// The 99th percentile of the requests' round trips.
    #[serde(rename = "p99_s")]
    P99,
    /// Answered requests per second.
    #[serde(rename = "requests_per_s")]
    Requests,
}

impl Figure {
    /// The name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores per Gb/s",
            Self::Throughput => "throughput",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Requests => "requests per second",
        }
    }

    /// The figure of a sample; `None` if the sample has none.
    pub(super) fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::Cores => sample.cores_per_gbps(),
            Self::Throughput => Some(sample.bps()),
            Self::P50 => sample.requests.map(|r| r.p50_s),
            Self::P99 => sample.requests.map(|r| r.p99_s),
            Self::Requests => sample.requests_per_s(),
        }
    }
}

/// A bound of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RatioBound {
    /// No bound.
    None,
    /// The ratio is at most this.
    AtMost(f64),
    /// The ratio is at least this.
    AtLeast(f64),
}

impl RatioBound {
    fn allows(self, ratio: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
        }
    }
}

/// The weight of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BoundRank {
    /// It decides the verdict.
    Required,
    /// It is shown, and decides nothing.
    Aim,
}

/// A comparison of a variant of weftline with another variant, and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requirement {
    /// The figure.
    pub figure: Figure,
    /// The variant of weftline.
    pub of: Variant,
    /// The other variant.
    pub to: Variant,
    /// The bound of the first divided by the other's.
    pub bound: RatioBound,
    /// The weight of the bound.
    pub rank: BoundRank,
}

/// Ratios of a variant of weftline to another variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The figure.
    pub figure: Figure,
    /// The variant of weftline.
    pub of: Variant,
    /// The other variant.
    pub to: Variant,
    /// Median of `ratio_runs`; null without a round that has both.
    pub ratio_median: Option<f64>,
    /// The first divided by the other's, round by round.
    pub ratio_runs: Vec<f64>,
    /// The largest allowed ratio, if bounded above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The smallest allowed ratio, if bounded below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The weight of the bound.
    pub rank: BoundRank,
    /// Whether the median is within its bound; null without a bound or a median.
    pub met: Option<bool>,
}

impl Comparison {
    /// Compares round by round.
    pub(super) fn of(wanted: &Requirement, samples: &[Sample]) -> Self {
        let Requirement { figure, of, to, bound, rank } = *wanted;
        let ours = samples.iter().filter(|s| s.variant == of);
        let pair = |sample: &Sample| {
            let peer = samples.iter().find(|s| s.variant == to && s.round == sample.round)?;
            figure.of(sample).zip(figure.of(peer))
        };
        let ratio_runs = ratios(ours.filter_map(pair));
        let ratio_median = stats::median(&ratio_runs);
        let (at_most, at_least) = match bound {
            RatioBound::None => (None, None),
            RatioBound::AtMost(most) => (Some(most), None),
            RatioBound::AtLeast(least) => (None, Some(least)),
        };
        let met = ratio_median.filter(|_| bound != RatioBound::None).map(|ratio| bound.allows(ratio));
        Self { figure, of, to, ratio_median, ratio_runs, at_most, at_least, rank, met }
    }

    /// Whether it has a bound.
    pub(super) fn is_bounded(&self) -> bool {
        self.at_most.is_some() || self.at_least.is_some()
    }

    /// Whether the comparison decides nothing, or is within its bound.
    pub(super) fn required_is_met(&self) -> bool {
        self.rank != BoundRank::Required || !self.is_bounded() || self.met == Some(true)
    }
}

/// The median of a variant's figure.
pub(super) fn median(samples: &[Sample], variant: Variant, figure: Figure) -> Option<f64> {
    let of = samples.iter().filter(|s| s.variant == variant);
    stats::median(&of.filter_map(|s| figure.of(s)).collect::<Vec<_>>())
}

/// The number of rounds with a disturbed sample.
pub(super) fn disturbed_rounds(samples: &[Sample]) -> u32 {
    let mut rounds: Vec<u32> = samples.iter().filter(|s| s.disturbed).map(|s| s.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.len() as u32
}

/// The reason that the case cannot be judged, as the end of "cannot be shown here, because".
pub(super) fn obstacle(samples: &[Sample], comparisons: &[Comparison], cores: u32) -> Option<String> {
    if cores < CORES_MIN {
        return Some(format!(
            "the machine has {cores} core, and sender and receiver need {CORES_MIN} of their own"
        ));
    }
    let rounds = samples.iter().map(|s| s.round).max().unwrap_or(0);
    let disturbed = disturbed_rounds(samples);
    if rounds == 0 {
        return Some("nothing was measured".to_owned());
    }
    if 2 * disturbed >= rounds {
        return Some(format!(
            "other processes used more than {} of a core in {disturbed} of {rounds} rounds",
            human::percent(DISTURBED_MAX)
        ));
    }
    let missing = comparisons.iter().find(|c| c.is_bounded() && c.ratio_median.is_none())?;
    let [of, to] = [missing.of, missing.to].map(Variant::name);
    Some(format!("no round has the {} of both {of} and {to}", missing.figure.name()))
}

/// The required bounds in words.
pub(super) fn goal(requirements: &[Requirement]) -> String {
    let words = |wanted: &Requirement| {
        let (figure, to) = (wanted.figure.name(), wanted.to.name());
        let bound = match wanted.bound {
            RatioBound::None => return None,
            RatioBound::AtMost(most) => format!("at most {most}"),
            RatioBound::AtLeast(least) => format!("at least {least}"),
        };
        let aim = if wanted.rank == BoundRank::Aim { " (aim)" } else { "" };
        let of = if wanted.of == Variant::Ours { String::new() } else { format!("{}'s ", wanted.of.name()) };
        Some(format!("{of}{figure} {bound} times {to}'s{aim}"))
    };
    requirements.iter().filter_map(words).collect::<Vec<_>>().join(", ")
}

/// The limit of our figure, in words: link or processors, the two largest parts, and the distance from the floor.
pub(super) fn limited_by(
    figures: &Figures,
    parts: Option<&Parts>,
    link_bps: Option<f64>,
    ours: &[&Sample],
) -> String {
    let busy = stats::median(&ours.iter().map(|s| s.cores()).collect::<Vec<_>>()).unwrap_or(0.0);
    let full = link_bps.map(|link| LINK_FULL * PAYLOAD_OF_WIRE * link);
    let limit = match (full, figures.ours_bps) {
        (Some(full), Some(bps)) if bps >= full => "the link's rate".to_owned(),
        _ => format!("the machine: {busy:.2} cores busy"),
    };
    let whole = figures.ours_cores_per_gbps.unwrap_or(0.0);
    let largest = parts.filter(|_| whole > 0.0).map(|parts| {
        let mut named = parts.named();
        named.sort_by(|a, b| b.1.total_cmp(&a.1));
        let share = |(name, of): (&str, f64)| format!("{name} {}", human::percent(of / whole));
        format!("; {}, {}", share(named[0]), share(named[1]))
    });
    let floor = figures.floor_cores_per_gbps.map(|floor| format!("; the floor is {floor:.3}"));
    [Some(limit), largest, floor].into_iter().flatten().collect()
}
