//! The paper's statements on each mode, beside the measurements on this host.
//!
//! The paper's statements are about its testbed (10 and 40 Gb/s, two servers), so a difference is a fact to explain and not
//! an error. Agreement is judged by order only ("the largest"), never by a tolerance.

use super::{DemoReport, Mode, ModeReport, full_load_mean, link_use, share_error_p95};
use weft_facts::{human, stats};

/// A statement of the paper and the corresponding measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedStatement {
    /// The mode it is about.
    pub mode: Mode,
    /// The place in the paper.
    pub source: &'static str,
    /// The statement, paraphrased.
    pub published: &'static str,
    /// The measurement.
    pub measured: String,
    /// Whether the measurement agrees; absent if it cannot decide.
    pub agrees: Option<bool>,
}

/// The statements of Loom (NSDI'19, section 6.1) on figures 9 and 10, for the modes that ran. Empty for figure 11, where the
/// paper shows Loom only.
pub fn published_statements(report: &DemoReport) -> Vec<PublishedStatement> {
    if report.figure != 9 {
        return Vec::new();
    }
    let mut statements = Vec::new();
    for mode in &report.modes {
        match mode.mode {
            Mode::Sq => statements.push(single_queue(report, mode)),
            Mode::Mq => statements.push(more_flows_more_bandwidth(
                report,
                mode,
                "Loom, figure 9b",
                "unfair: each later tenant gets more than its share, having more flows",
            )),
            Mode::Qpf => {
                statements.push(more_flows_more_bandwidth(
                    report,
                    mode,
                    "Loom, figure 9c",
                    "unfair: favours the tenant with the most flows",
                ));
                statements.push(latency_rank(
                    report,
                    mode,
                    "the highest latency of all configurations",
                    f64::total_cmp,
                ));
            }
            Mode::Loom => {
                statements.push(precise_and_full(report, mode));
                let text = "the only one with consistently low latency";
                statements.push(latency_rank(report, mode, text, |a, b| b.total_cmp(a)));
            }
        }
    }
    statements
}

/// SQ: roughly fair, but the link is not full.
fn single_queue(report: &DemoReport, sq: &ModeReport) -> PublishedStatement {
    let error = share_error_p95(&sq.samples);
    let mq_error = report.mode(Mode::Mq).and_then(|m| share_error_p95(&m.samples));
    let use_median = stats::median(&link_use(&sq.samples, report.link_bps as f64));
    let fairer = error.zip(mq_error).map(|(sq, mq)| sq < mq);
    let not_full = use_median.map(|u| u < super::LINK_USE_MIN);
    PublishedStatement {
        mode: Mode::Sq,
        source: "Loom, figure 9a",
        published: "approximately fair (fairer than MQ), but cannot drive the full line rate",
        measured: format!(
            "share error {} (MQ: {}); median link use {}",
            human::or_none(error, human::percent),
            human::or_none(mq_error, human::percent),
            human::or_none(use_median, human::percent)
        ),
        agrees: fairer.zip(not_full).map(|(a, b)| a && b),
    }
}

/// MQ and QPF: a tenant with more flows gets more.
fn more_flows_more_bandwidth(
    report: &DemoReport,
    mode: &ModeReport,
    source: &'static str,
    published: &'static str,
) -> PublishedStatement {
    let rates = full_load_mean(&mode.samples);
    let mut sharing: Vec<(&str, u32, f64)> = report
        .flows
        .iter()
        .filter(|(tenant, _)| *tenant != super::LATENCY_TENANT)
        .filter_map(|(tenant, flows)| Some((tenant.as_str(), *flows, *rates.get(tenant)?)))
        .collect();
    sharing.sort_by_key(|(_, flows, _)| *flows);
    let (measured, agrees) = match (sharing.first(), sharing.last()) {
        (Some(few), Some(many)) if few.1 < many.1 && few.2 > 0.0 => {
            let listed: Vec<String> = sharing
                .iter()
                .map(|(t, flows, bps)| format!("{t} ({flows} flows) {}", human::rate(*bps)))
                .collect();
            let ratio = human::times(many.2 / few.2);
            let rising = sharing.windows(2).all(|w| w[0].2 < w[1].2);
            (format!("{}/{} = {ratio}: {}", many.0, few.0, listed.join(", ")), Some(rising))
        }
        _ => ("not measured with all tenants at once".to_owned(), None),
    };
    PublishedStatement { mode: mode.mode, source, published, measured, agrees }
}

/// Loom: more precise than SQ at full line rate.
fn precise_and_full(report: &DemoReport, loom: &ModeReport) -> PublishedStatement {
    let error = share_error_p95(&loom.samples);
    let sq_error = report.mode(Mode::Sq).and_then(|m| share_error_p95(&m.samples));
    let use_median = stats::median(&link_use(&loom.samples, report.link_bps as f64));
    let precise = error.zip(sq_error).map(|(loom, sq)| loom < sq);
    let full = use_median.map(|u| u >= super::LINK_USE_MIN);
    PublishedStatement {
        mode: Mode::Loom,
        source: "Loom, figure 9d",
        published: "enforces the policy more precisely than SQ, at full line rate",
        measured: format!(
            "share error {} (SQ: {}); median link use {}",
            human::or_none(error, human::percent),
            human::or_none(sq_error, human::percent),
            human::or_none(use_median, human::percent)
        ),
        agrees: precise.zip(full).map(|(a, b)| a && b),
    }
}

/// Whether `mode` has the largest p90 latency in the order `order` among all modes that ran; undecided with one mode.
fn latency_rank(
    report: &DemoReport,
    mode: &ModeReport,
    published: &'static str,
    order: impl Fn(&f64, &f64) -> std::cmp::Ordering,
) -> PublishedStatement {
    let all: Vec<(Mode, f64)> =
        report.modes.iter().filter_map(|m| Some((m.mode, m.latency_s?.p90))).collect();
    let first = all.iter().max_by(|a, b| order(&a.1, &b.1)).map(|(m, _)| *m);
    let listed: Vec<String> = all.iter().map(|(m, p90)| format!("{m} {}", human::time(*p90))).collect();
    let known = all.len() > 1 && mode.latency_s.is_some();
    PublishedStatement {
        mode: mode.mode,
        source: "Loom, figure 10",
        published,
        measured: if listed.is_empty() {
            "not measured".into()
        } else {
            format!("p90 {}", listed.join(", "))
        },
        agrees: known.then_some(first == Some(mode.mode)),
    }
}
