//! The verdicts on the demo.

use super::{DemoReport, Mode, ModeReport, largest_lag, link_use, link_use_p5, share_error_p95};
use crate::judgement::Judgement::{self, Fails, Holds, NotShown};
use weft_facts::human;

/// The largest acceptable 95th percentile of Loom's share errors.
pub const SHARE_ERROR_MAX: f64 = 0.05;
/// The least use of the link that Loom must reach in 95 % of its windows.
pub const LINK_USE_MIN: f64 = 0.95;
/// The largest acceptable 99th percentile of T0's latency under Loom, as a fraction of QPF's.
pub const LATENCY_RATIO_MAX: f64 = 0.2;
/// The least number of steady windows for a figure.
pub const STEADY_WINDOWS_MIN: usize = 10;
/// The least number of round trips for a meaningful 99th percentile.
pub const ROUND_TRIPS_MIN: u64 = 100;
/// The largest acceptable 95th percentile of a rate limit's errors, over windows of a second with demand.
pub const LIMIT_ERROR_MAX: f64 = 0.02;
/// The largest acceptable excess of a limited class over its limit in any window of a second.
pub const LIMIT_EXCESS_MAX: f64 = 0.01;

/// A requirement on the demo, and its judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoVerdict {
    /// The requirement.
    pub name: String,
    /// Its judgement.
    pub judgement: Judgement,
    /// The measured figure.
    pub figure: String,
    /// The bound on the figure.
    pub bound: String,
}

impl DemoVerdict {
    fn new(
        name: impl Into<String>,
        judgement: Judgement,
        figure: impl Into<String>,
        bound: impl Into<String>,
    ) -> Self {
        DemoVerdict { name: name.into(), judgement, figure: figure.into(), bound: bound.into() }
    }

    /// The reason why it cannot be judged, as a sentence; `None` if it is judged.
    pub fn why_not_shown(&self) -> Option<String> {
        match &self.judgement {
            NotShown(why) => Some(format!("cannot be shown here, because {why}")),
            Holds | Fails => None,
        }
    }

    /// The figure, with the reason if it cannot be judged.
    pub fn shown(&self) -> String {
        self.why_not_shown().map_or(self.figure.clone(), |why| format!("{}; {why}", self.figure))
    }
}

/// The verdicts on a report. Computed from the samples and not from the summary, so that an error in the summary shows.
///
/// A figure that is missing or that this machine distorted is neither good nor bad: its verdict gives the reason why it cannot be
/// judged. The NIC's service of backlogged tenants is judged however slow the machine was. A mode that did not run (other than
/// Loom's) has no verdict.
pub fn verdicts(report: &DemoReport) -> Vec<DemoVerdict> {
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
            DemoVerdict::new(name, judgement, human::percent(l.excess_max), bound)
        }));
    } else {
        let why = "mode loom did not run".to_owned();
        verdicts.push(DemoVerdict::new("Loom ran", NotShown(why), "not measured", "must run"));
    }
    verdicts.extend(report.modes.iter().map(conservation));
    verdicts
}

/// Shares, lag and link use of Loom.
fn sharing(verdicts: &mut Vec<DemoVerdict>, report: &DemoReport, loom: &ModeReport) {
    let link = report.link_bps as f64;
    let windows = link_use(&loom.samples, link).len();
    let (why, enough) = (few(loom), windows >= STEADY_WINDOWS_MIN);
    // A failure in a few windows is a failure; a success in a few may be chance.
    let judge = |holds: bool| match (holds, enough) {
        (true, true) => Holds,
        (true, false) => NotShown(why.clone()),
        (false, _) => Fails,
    };
    verdicts.push(DemoVerdict::new(
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
        // The simulator does not report backlogs; its figures are judged as they are.
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

/// The reason for the small number of steady windows.
fn few(mode: &ModeReport) -> String {
    mode.fine.as_ref().map_or_else(|| "the run has too few steady windows".to_owned(), |fine| fine.why_few())
}

/// The reason why a window says little about shares: a tenant's part is so few turns that one more or less is an error.
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
fn lag(loom: &ModeReport, link_bps: f64) -> DemoVerdict {
    let name = "Loom: largest lag behind the ideal schedule";
    let Some(fine) = &loom.fine else {
        let why = "nothing says what waited in the NIC".to_owned();
        return DemoVerdict::new(name, NotShown(why), "not measured", "what the engine may owe");
    };
    let Some(lag) = largest_lag(fine, link_bps) else {
        return DemoVerdict::new(name, NotShown(fine.why_few()), "not measured", "what the engine may owe");
    };
    let bound = lag.engine_bytes as f64;
    DemoVerdict::new(
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

/// T0's latency under Loom compared with QPF's.
fn latency(loom: &ModeReport, qpf: &ModeReport) -> DemoVerdict {
    let name = "T0 latency, 99th percentile: Loom against QPF";
    let bound = "<= a fifth of QPF's";
    let (Some(a), Some(b)) = (loom.latency_s, qpf.latency_s) else {
        let why = "the tenants did not wait all at once, or no request was answered".to_owned();
        return DemoVerdict::new(name, NotShown(why), "not measured", bound);
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
    DemoVerdict::new(name, judgement, figure, bound)
}

/// Whether T0's slow requests (over `most` seconds, `p99` at the 99th percentile of `count`) waited for a core and not for the
/// link, with the evidence. Two conditions must hold: by the link's clock, the NIC sent T0's packets in time; and the threads that
/// carry them were ready to run without a core for a total time of at least the lateness of the slowest hundredth of the requests.
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

/// Whether a mode lost packets without a reason.
fn conservation(mode: &ModeReport) -> DemoVerdict {
    let violations = mode.conservation.violations();
    let total = &mode.conservation.total;
    let figure = if violations.is_empty() {
        format!("{} packets, {}, exact", human::count(total.in_packets), human::bytes(total.in_bytes as f64))
    } else {
        violations.join("; ")
    };
    let name = format!("{}: packets and bytes conserved", mode.mode);
    DemoVerdict::new(name, Judgement::of(violations.is_empty()), figure, "in = out + dropped + held")
}

/// A verdict on a fraction, which may be missing for the reason `why`.
fn measured(
    name: impl Into<String>,
    figure: Option<f64>,
    judge: impl Fn(f64) -> Judgement,
    why: &str,
    bound: String,
) -> DemoVerdict {
    match figure {
        Some(figure) => DemoVerdict::new(name, judge(figure), human::percent(figure), bound),
        None => DemoVerdict::new(name, NotShown(why.to_owned()), "not measured", bound),
    }
}
