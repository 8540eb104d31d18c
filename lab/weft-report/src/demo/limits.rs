//! The rate limits of figure 11 and their accuracy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Sample;
use weft_facts::stats;

/// A rate limit and its accuracy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReport {
    /// The limited class of traffic.
    pub class: String,
    /// Its limit in bits per second.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub limit_bps: f64,
    /// The jobs whose traffic the limit covers, by their names in the samples.
    #[serde(default)]
    pub jobs: Vec<String>,
    /// Length of the windows that are compared with the limit, in seconds.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window_s: f64,
    /// Number of windows in which the limit was binding.
    #[serde(default)]
    pub windows: u64,
    /// 95th percentile of `|rate - limit| / limit` over those windows; absent without one. Dimensionless.
    pub error_p95: Option<f64>,
    /// The largest of these errors.
    #[serde(default)]
    pub error_max: Option<f64>,
    /// The largest excess of the class's rate over its limit in any window, relative to the limit, whether it was binding or not; 0 without an excess.
    #[serde(default)]
    pub excess_max: f64,
    /// Mean rate of the class in the windows in which the limit was binding, in bits per second.
    #[serde(default)]
    pub mean_bps: Option<f64>,
}

/// Compares the combined rate of `jobs` with `limit_bps`, in windows of at least `window_s` seconds made of whole samples.
///
/// `binding` is whether the limit determines the class's rate in a sample: its share of the link by the policy is at least
/// the limit, and it has enough to send. A window is binding if all its samples are steady and binding. A change of either
/// starts a new window, so steady spans must last at least `window_s` to count. A truncated window is ignored, also for
/// the excess.
pub fn limit_report(
    class: &str,
    jobs: &[&str],
    limit_bps: f64,
    window_s: f64,
    samples: &[Sample],
    binding: impl Fn(&Sample) -> bool,
) -> LimitReport {
    let mut rates_binding = Vec::new();
    let mut excess_max = 0.0_f64;
    let mut open = Window::default();
    for sample in samples {
        let counts = sample.steady && binding(sample);
        if open.binding != counts {
            open = Window { binding: counts, ..Window::default() };
        }
        open.bits += jobs.iter().map(|j| sample.rate_of(j)).sum::<f64>() * sample.window_s;
        open.seconds += sample.window_s;
        // The sum of windows of 0.1 s is not exactly 1 s in floating point.
        if open.seconds >= window_s * (1.0 - 1e-9) {
            let rate = open.bits / open.seconds;
            excess_max = excess_max.max((rate - limit_bps) / limit_bps);
            if counts {
                rates_binding.push(rate);
            }
            open = Window { binding: counts, ..Window::default() };
        }
    }
    let errors: Vec<f64> = rates_binding.iter().map(|r| stats::relative_error(*r, limit_bps)).collect();
    LimitReport {
        class: class.to_owned(),
        limit_bps,
        jobs: jobs.iter().map(|j| (*j).to_owned()).collect(),
        window_s,
        windows: errors.len() as u64,
        error_p95: stats::percentile(&errors, 95.0),
        error_max: stats::max(&errors),
        excess_max,
        mean_bps: stats::mean(&rates_binding),
    }
}

/// A window that is being filled.
#[derive(Default)]
struct Window {
    binding: bool,
    bits: f64,
    seconds: f64,
}
