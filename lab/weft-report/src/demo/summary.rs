//! The figures that derive from a mode's samples. `tools/check-demo` recomputes them from the document.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{LATENCY_TENANT, LatencySummary, Sample};
use weft_facts::stats;

impl Sample {
    /// The active tenants that share the link equally: all but T0.
    pub fn sharing(&self) -> impl Iterator<Item = &str> {
        self.active.iter().map(String::as_str).filter(|t| *t != LATENCY_TENANT)
    }

    /// The rate of `tenant` in bits per second; zero if it is not in the sample.
    pub fn rate_of(&self, tenant: &str) -> f64 {
        self.bps.get(tenant).copied().unwrap_or(0.0)
    }

    /// The rate of all tenants together, T0 included, in bits per second.
    pub fn total_bps(&self) -> f64 {
        self.bps.values().sum()
    }

    /// Whether the window is judged: steady, with an active tenant other than T0.
    pub fn is_judged(&self) -> bool {
        self.steady && self.sharing().next().is_some()
    }

    /// The equal share of the sharing tenants' total rate, in bits per second: `(total - T0) / active`.
    pub fn equal_share_bps(&self) -> Option<f64> {
        let sharing = self.sharing().count();
        (sharing > 0).then(|| (self.total_bps() - self.rate_of(LATENCY_TENANT)) / sharing as f64)
    }
}

/// The relative share error of every sharing tenant in every judged window: `|bps - share| / share`, where the share is
/// [`Sample::equal_share_bps`]. Dimensionless. In a window without traffic, the error of each is 1.
pub fn share_errors(samples: &[Sample]) -> Vec<f64> {
    let judged = samples.iter().filter(|s| s.is_judged());
    judged
        .flat_map(|s| {
            let share = s.equal_share_bps().unwrap_or(0.0);
            s.sharing()
                .map(move |t| if share > 0.0 { stats::relative_error(s.rate_of(t), share) } else { 1.0 })
        })
        .collect()
}

/// The 95th percentile of [`share_errors`]: the value at index `floor(0.95 * n)` of the sorted errors, or the last one. If
/// 0.95 n is whole, that is one rank stricter than nearest-rank.
pub fn share_error_p95(samples: &[Sample]) -> Option<f64> {
    percentile_95_strict(&share_errors(samples))
}

/// The value at index `floor(0.95 * n)` of the sorted values, or the last one.
pub(super) fn percentile_95_strict(values: &[f64]) -> Option<f64> {
    let ascending = stats::sorted(values);
    let index = (0.95 * ascending.len() as f64) as usize;
    ascending.get(index).or(ascending.last()).copied()
}

/// The use of the link in every judged window: total rate of all tenants, T0 included, as a fraction of `link_bps`.
pub fn link_use(samples: &[Sample], link_bps: f64) -> Vec<f64> {
    samples.iter().filter(|s| s.is_judged()).map(|s| s.total_bps() / link_bps).collect()
}

/// The smallest of [`link_use`].
pub fn link_use_min(samples: &[Sample], link_bps: f64) -> Option<f64> {
    stats::min(&link_use(samples, link_bps))
}

/// The use of the link that 95 % of the judged windows reach: the value at index `floor(n / 20)` of the sorted
/// [`link_use`].
pub fn link_use_p5(samples: &[Sample], link_bps: f64) -> Option<f64> {
    let ascending = stats::sorted(&link_use(samples, link_bps));
    ascending.get(ascending.len() / 20).copied()
}

/// The time in which the most tenants are active.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullLoad {
    /// Number of active tenants without T0.
    pub tenants: usize,
    /// Start of the first such window, in seconds.
    pub from_s: f64,
    /// End of the last such window, in seconds.
    pub to_s: f64,
}

/// The time of full load: the judged windows with the largest number of sharing tenants.
pub fn full_load(samples: &[Sample]) -> Option<FullLoad> {
    let windows = full_load_windows(samples);
    let (first, last) = (windows.first()?, windows.last()?);
    Some(FullLoad { tenants: first.sharing().count(), from_s: first.t_s, to_s: last.t_s + last.window_s })
}

/// Tenant -> mean rate at [`full_load`] in bits per second, weighted by the windows' lengths. Tenants without backlog are absent.
pub fn full_load_mean(samples: &[Sample]) -> BTreeMap<String, f64> {
    let windows = full_load_windows(samples);
    let time: f64 = windows.iter().map(|s| s.window_s).sum();
    let mut rates: BTreeMap<String, f64> = BTreeMap::new();
    if time > 0.0 {
        for s in windows {
            for (tenant, bps) in s.bps.iter().filter(|(tenant, _)| s.active.contains(tenant)) {
                *rates.entry(tenant.clone()).or_default() += bps * s.window_s / time;
            }
        }
    }
    rates
}

/// The windows of [`full_load`].
pub(super) fn full_load_windows(samples: &[Sample]) -> Vec<&Sample> {
    let judged = || samples.iter().filter(|s| s.is_judged());
    let most = judged().map(|s| s.sharing().count()).max().unwrap_or(0);
    judged().filter(|s| s.sharing().count() == most).collect()
}

impl LatencySummary {
    /// The summary of latencies in seconds; `None` without latencies.
    pub fn from_seconds(latencies: &[f64]) -> Option<Self> {
        let ascending = stats::sorted(latencies);
        let at = |p| stats::percentile_sorted(&ascending, p);
        Some(LatencySummary {
            p50: at(50.0)?,
            p90: at(90.0)?,
            p99: at(99.0)?,
            p999: at(99.9)?,
            count: ascending.len() as u64,
        })
    }

    /// The summary of a histogram of latencies in nanoseconds, exact to the histogram's precision; `None` if it is empty.
    pub fn from_histogram(nanos: &Histogram<u64>) -> Option<Self> {
        let at = |p: f64| nanos.value_at_quantile(p) as f64 / 1e9;
        (!nanos.is_empty()).then(|| LatencySummary {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            count: nanos.len(),
        })
    }
}
