//! What the demo must show, judged.

use super::{DemoReport, Mode, ModeReport, link_use, link_use_p5, share_error_p95};
use crate::human;

/// Most that the 95th percentile of Loom's share errors may be.
pub const SHARE_ERROR_MAX: f64 = 0.05;
/// Least use of the link that Loom must reach in 95 % of its windows.
pub const LINK_USE_MIN: f64 = 0.95;
/// Most that Loom's 99th percentile of T0's latency may be, as a fraction of QPF's.
pub const LATENCY_RATIO_MAX: f64 = 0.2;
/// Least number of steady windows that make a figure.
pub const STEADY_WINDOWS_MIN: usize = 10;
/// Most that the 95th percentile of a rate limit's errors may be, over windows of a second with demand.
pub const LIMIT_ERROR_MAX: f64 = 0.02;
/// Most that a limited class may send over its limit in any window of a second.
pub const LIMIT_EXCESS_MAX: f64 = 0.01;

/// One thing that the demo must show, and whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is judged.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// What was measured.
    pub figure: String,
    /// What it must be.
    pub bound: String,
}

impl Verdict {
    fn new(name: impl Into<String>, ok: bool, figure: impl Into<String>, bound: impl Into<String>) -> Self {
        Verdict { name: name.into(), ok, figure: figure.into(), bound: bound.into() }
    }
}

/// The verdicts on a report. Recomputed from the samples and not taken from the summary, so that a wrong summary is seen.
///
/// A figure that is missing is not judged as good: its verdict says `not measured` and does not hold. A mode that did not run
/// (other than Loom's) has no verdict.
pub fn verdicts(report: &DemoReport) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let Some(loom) = report.mode(Mode::Loom) {
        sharing(&mut verdicts, report, loom);
        if report.figure == 9
            && let Some(qpf) = report.mode(Mode::Qpf)
        {
            verdicts.push(latency(loom, qpf));
        }
        verdicts.extend(loom.limits.iter().map(|l| {
            let bound = format!("<= {} of {}", human::percent(LIMIT_ERROR_MAX), human::rate(l.limit_bps));
            let name = format!("Loom: error of limit {}, 95th percentile of {} windows", l.class, l.windows);
            measured(name, l.error_p95, |e| e <= LIMIT_ERROR_MAX, human::percent, bound)
        }));
        verdicts.extend(loom.limits.iter().map(|l| {
            let bound = format!("<= {}", human::percent(LIMIT_EXCESS_MAX));
            let name = format!("Loom: most over limit {} in any window", l.class);
            Verdict::new(name, l.excess_max <= LIMIT_EXCESS_MAX, human::percent(l.excess_max), bound)
        }));
    } else {
        verdicts.push(Verdict::new("Loom ran", false, "not measured", "must run"));
    }
    verdicts.extend(report.modes.iter().map(conservation));
    verdicts
}

/// Shares and link use of Loom.
fn sharing(verdicts: &mut Vec<Verdict>, report: &DemoReport, loom: &ModeReport) {
    let link = report.link_bps as f64;
    let windows = link_use(&loom.samples, link).len();
    verdicts.push(Verdict::new(
        "Loom: steady windows",
        windows >= STEADY_WINDOWS_MIN,
        windows.to_string(),
        format!(">= {STEADY_WINDOWS_MIN}"),
    ));
    if report.figure == 9 {
        verdicts.push(measured(
            "Loom: share error, 95th percentile",
            share_error_p95(&loom.samples),
            |e| e <= SHARE_ERROR_MAX,
            human::percent,
            format!("<= {}", human::percent(SHARE_ERROR_MAX)),
        ));
    }
    verdicts.push(measured(
        "Loom: link use in 95 % of windows",
        link_use_p5(&loom.samples, link),
        |u| u >= LINK_USE_MIN,
        human::percent,
        format!(">= {} of {}", human::percent(LINK_USE_MIN), human::rate(link)),
    ));
}

/// T0's latency under Loom against QPF's.
fn latency(loom: &ModeReport, qpf: &ModeReport) -> Verdict {
    let name = "T0 latency, 99th percentile: Loom against QPF";
    let bound = "<= a fifth of QPF's";
    match (loom.latency_s, qpf.latency_s) {
        (Some(a), Some(b)) => {
            let figure = format!(
                "{} against {} ({})",
                human::time(a.p99),
                human::time(b.p99),
                human::percent(if b.p99 > 0.0 { a.p99 / b.p99 } else { 1.0 })
            );
            Verdict::new(name, a.p99 <= b.p99 * LATENCY_RATIO_MAX, figure, bound)
        }
        _ => Verdict::new(name, false, "not measured", bound),
    }
}

/// Whether a mode lost nothing without a reason.
fn conservation(mode: &ModeReport) -> Verdict {
    let violations = mode.conservation.violations();
    let total = &mode.conservation.total;
    let figure = if violations.is_empty() {
        format!("{} packets, {}, exact", human::count(total.in_packets), human::bytes(total.in_bytes as f64))
    } else {
        violations.join("; ")
    };
    let name = format!("{}: packets and bytes conserved", mode.mode);
    Verdict::new(name, violations.is_empty(), figure, "in = out + dropped + held")
}

/// A verdict on a figure that may be missing.
fn measured(
    name: impl Into<String>,
    figure: Option<f64>,
    holds: impl Fn(f64) -> bool,
    write: impl Fn(f64) -> String,
    bound: String,
) -> Verdict {
    match figure {
        Some(figure) => Verdict::new(name, holds(figure), write(figure), bound),
        None => Verdict::new(name, false, "not measured", bound),
    }
}
