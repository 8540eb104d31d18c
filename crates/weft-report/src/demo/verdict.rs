//! What the demo must show, judged.

use super::{DemoReport, Mode, ModeReport, largest_lag, link_use, link_use_p5, share_error_p95};
use crate::human;
use crate::judgement::Judgement::{self, Fails, Holds, NotShown};

/// Most that the 95th percentile of Loom's share errors may be.
pub const SHARE_ERROR_MAX: f64 = 0.05;
/// Least use of the link that Loom must reach in 95 % of its windows.
pub const LINK_USE_MIN: f64 = 0.95;
/// Most that Loom's 99th percentile of T0's latency may be, as a fraction of QPF's.
pub const LATENCY_RATIO_MAX: f64 = 0.2;
/// Least number of steady windows that make a figure.
pub const STEADY_WINDOWS_MIN: usize = 10;
/// Least number of round trips whose 99th percentile says something.
pub const ROUND_TRIPS_MIN: u64 = 100;
/// Most that the 95th percentile of a rate limit's errors may be, over windows of a second with demand.
pub const LIMIT_ERROR_MAX: f64 = 0.02;
/// Most that a limited class may send over its limit in any window of a second.
pub const LIMIT_EXCESS_MAX: f64 = 0.01;

/// One thing that the demo must show, and whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is judged.
    pub name: String,
    /// How it stands.
    pub judgement: Judgement,
    /// What was measured.
    pub figure: String,
    /// What it must be.
    pub bound: String,
}

impl Verdict {
    fn new(
        name: impl Into<String>,
        judgement: Judgement,
        figure: impl Into<String>,
        bound: impl Into<String>,
    ) -> Self {
        Verdict { name: name.into(), judgement, figure: figure.into(), bound: bound.into() }
    }

    /// Why it cannot be shown, as a sentence; `None` where it is judged.
    pub fn why_not_shown(&self) -> Option<String> {
        match &self.judgement {
            NotShown(why) => Some(format!("cannot be shown here, because {why}")),
            Holds | Fails => None,
        }
    }

    /// The figure, and why it cannot be judged where it cannot.
    pub fn shown(&self) -> String {
        self.why_not_shown().map_or(self.figure.clone(), |why| format!("{}; {why}", self.figure))
    }
}

/// The verdicts on a report. Recomputed from the samples and not taken from the summary, so that a wrong summary is seen.
///
/// A figure that is missing, or that this machine spoilt, is neither good nor bad: its verdict says why it cannot be shown. What the NIC
/// did while tenants waited is judged however slow the machine was. A mode that did not run (other than Loom's) has no verdict.
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
            let judge = |e: f64| Judgement::of(e <= LIMIT_ERROR_MAX);
            measured(name, l.error_p95, judge, &few(loom), bound)
        }));
        verdicts.extend(loom.limits.iter().map(|l| {
            let bound = format!("<= {}", human::percent(LIMIT_EXCESS_MAX));
            let name = format!("Loom: most over limit {} in any window", l.class);
            let judgement = Judgement::of(l.excess_max <= LIMIT_EXCESS_MAX);
            Verdict::new(name, judgement, human::percent(l.excess_max), bound)
        }));
    } else {
        let why = "mode loom did not run".to_owned();
        verdicts.push(Verdict::new("Loom ran", NotShown(why), "not measured", "must run"));
    }
    verdicts.extend(report.modes.iter().map(conservation));
    verdicts
}

/// Shares, lag and link use of Loom.
fn sharing(verdicts: &mut Vec<Verdict>, report: &DemoReport, loom: &ModeReport) {
    let link = report.link_bps as f64;
    let windows = link_use(&loom.samples, link).len();
    let (why, enough) = (few(loom), windows >= STEADY_WINDOWS_MIN);
    // What is wrong in few windows is wrong; what is right in few may be luck.
    let judge = |holds: bool| match (holds, enough) {
        (true, true) => Holds,
        (true, false) => NotShown(why.clone()),
        (false, _) => Fails,
    };
    verdicts.push(Verdict::new(
        "Loom: steady windows",
        judge(true),
        windows.to_string(),
        format!(">= {STEADY_WINDOWS_MIN}"),
    ));
    if report.figure == 9 {
        verdicts.push(measured(
            "Loom: share error, 95th percentile",
            share_error_p95(&loom.samples),
            |e| match coarse(loom) {
                Some(why) if e > SHARE_ERROR_MAX => NotShown(why),
                _ => judge(e <= SHARE_ERROR_MAX),
            },
            &why,
            format!("<= {}", human::percent(SHARE_ERROR_MAX)),
        ));
        // The simulator does not say what waits; it is judged by what it says.
        if report.seed.is_none() || loom.fine.is_some() {
            verdicts.push(lag(loom, link));
        }
    }
    verdicts.push(measured(
        "Loom: link use in 95 % of windows",
        link_use_p5(&loom.samples, link),
        |u| judge(u >= LINK_USE_MIN),
        &why,
        format!(">= {} of {}", human::percent(LINK_USE_MIN), human::rate(link)),
    ));
}

/// Why there are fewer steady windows than wanted.
fn few(mode: &ModeReport) -> String {
    mode.fine.as_ref().map_or_else(|| "the run has too few steady windows".to_owned(), |fine| fine.why_few())
}

/// Why a window says little about shares: a tenant's part of it is so few turns that one more or less is an error by itself.
fn coarse(mode: &ModeReport) -> Option<String> {
    let chunk = mode.fine.as_ref()?.chunk_bytes as f64;
    let bytes = |s: &super::Sample| s.equal_share_bps().unwrap_or(0.0) * s.window_s / 8.0;
    let least = mode.samples.iter().filter(|s| s.is_judged()).map(bytes).fold(f64::INFINITY, f64::min);
    (2.0 * chunk > SHARE_ERROR_MAX * least).then(|| {
        format!(
            "a tenant's share of a window is down to {}, and the NIC sends {} in a turn; the lag is the figure to look at",
            human::bytes(least),
            human::bytes(chunk)
        )
    })
}

/// The largest lag of Loom behind the fluid schedule.
fn lag(loom: &ModeReport, link_bps: f64) -> Verdict {
    let name = "Loom: largest lag behind the ideal schedule";
    let Some(fine) = &loom.fine else {
        let why = "nothing says what waited in the NIC".to_owned();
        return Verdict::new(name, NotShown(why), "not measured", "what the engine may owe");
    };
    let Some(lag) = largest_lag(fine, link_bps) else {
        return Verdict::new(name, NotShown(fine.why_few()), "not measured", "what the engine may owe");
    };
    let bound = lag.engine_bytes as f64;
    Verdict::new(
        name,
        Judgement::of(lag.bytes <= bound),
        format!(
            "{}, {} of the link ({})",
            human::bytes(lag.bytes.max(0.0)),
            human::time(lag.s.max(0.0)),
            lag.tenant
        ),
        format!("<= {}, {} turns", human::bytes(bound), super::ENGINE_LAG_CHUNKS),
    )
}

/// T0's latency under Loom against QPF's.
fn latency(loom: &ModeReport, qpf: &ModeReport) -> Verdict {
    let name = "T0 latency, 99th percentile: Loom against QPF";
    let bound = "<= a fifth of QPF's";
    let (Some(a), Some(b)) = (loom.latency_s, qpf.latency_s) else {
        let why = "the tenants did not wait all at once, or no request was answered".to_owned();
        return Verdict::new(name, NotShown(why), "not measured", bound);
    };
    let most = b.p99 * LATENCY_RATIO_MAX;
    let figure = format!(
        "{} against {} ({})",
        human::time(a.p99),
        human::time(b.p99),
        human::percent(if b.p99 > 0.0 { a.p99 / b.p99 } else { 1.0 })
    );
    let judgement = if a.p99 > most {
        waited_for_a_core(loom, a.p99, most, a.count).map_or(Fails, NotShown)
    } else if a.count < ROUND_TRIPS_MIN {
        NotShown(format!("there were only {} round trips, and {ROUND_TRIPS_MIN} are needed", a.count))
    } else {
        Holds
    };
    Verdict::new(name, judgement, figure, bound)
}

/// Whether T0's slow requests (over `most` seconds, `p99` at the 99th percentile of `count`) waited for a core and not for the link, and
/// how that is known. Both must be seen: the NIC let T0's packets go in time, by the link's clock, and threads that carry them
/// were ready to run without a core for as long, together, as the slowest hundredth of the requests was late.
fn waited_for_a_core(loom: &ModeReport, p99: f64, most: f64, count: u64) -> Option<String> {
    let in_nic = loom.probe_wait_p99_s?;
    let waits = loom.core_waits?;
    let late_s = count as f64 / 100.0 * (p99 - most);
    (in_nic <= most && waits.total_s() >= late_s).then(|| {
        format!(
            "T0 waited {} for the link and the rest of its {} (99th percentile) for a core: in {:.1} s, T0 and the threads \
             that carry its packets were ready to run for {:.2} s in sum without one",
            human::time(in_nic),
            human::time(p99),
            waits.span_s,
            waits.total_s()
        )
    })
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
    Verdict::new(name, Judgement::of(violations.is_empty()), figure, "in = out + dropped + held")
}

/// A verdict on a fraction that may be missing, for the reason `why`.
fn measured(
    name: impl Into<String>,
    figure: Option<f64>,
    judge: impl Fn(f64) -> Judgement,
    why: &str,
    bound: String,
) -> Verdict {
    match figure {
        Some(figure) => Verdict::new(name, judge(figure), human::percent(figure), bound),
        None => Verdict::new(name, NotShown(why.to_owned()), "not measured", bound),
    }
}
