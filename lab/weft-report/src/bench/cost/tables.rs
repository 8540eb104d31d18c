//! The tables of `weft bench cost`.

use super::{BoundRank, CaseReport, Comparison, CostReport, Variant};
use weft_facts::table::{Cell, Column, Table, Tone};
use weft_facts::{human, stats};

/// The tables: cost and throughput, round trips, goals, parts.
pub(super) fn tables(report: &CostReport) -> Vec<Table> {
    let (requests, bulk): (Vec<_>, Vec<_>) = report.cases.iter().partition(|c| c.figures.p50_s.is_some());
    let all = [costs(&bulk), latencies(&requests), goals(&report.cases), parts(&report.cases)];
    let mut tables: Vec<Table> = all.into_iter().filter(|table| !table.is_empty()).collect();
    if tables.is_empty() {
        tables.push(costs(&[]));
    }
    tables
}

fn cores(value: Option<f64>) -> String {
    human::or_none(value, |cores| format!("{cores:.3}"))
}

fn costs(cases: &[&CaseReport]) -> Table {
    let mut table = Table::new("Cost, in cores per Gb/s").columns([
        Column::left("case"),
        Column::right("carried"),
        Column::right("ours"),
        Column::right("peer's"),
        Column::right("floor"),
        Column::left("verdict"),
    ]);
    for case in cases {
        let of = &case.figures;
        table.row([
            Cell::plain(&case.case),
            human::or_none(of.ours_bps, human::rate).into(),
            cores(of.ours_cores_per_gbps).into(),
            peer(case, cores(of.peer_cores_per_gbps)).into(),
            cores(of.floor_cores_per_gbps).into(),
            verdict(case),
        ]);
    }
    notes(&mut table, cases);
    table
}

fn latencies(cases: &[&CaseReport]) -> Table {
    let pair = |a: Option<f64>, b: Option<f64>| {
        format!("{} / {}", human::or_none(a, micros), human::or_none(b, micros))
    };
    let mut table = Table::new("Round trips of small requests, median / 99th percentile").columns([
        Column::left("case"),
        Column::right("ours"),
        Column::right("peer's"),
        Column::right("requests/s"),
        Column::right("peer's"),
        Column::left("verdict"),
    ]);
    let count = |value| human::or_none(value, |count| format!("{count:.0}"));
    for case in cases {
        let of = &case.figures;
        table.row([
            Cell::plain(&case.case),
            pair(of.p50_s, of.p99_s).into(),
            peer(case, pair(of.peer_p50_s, of.peer_p99_s)).into(),
            count(of.requests_per_s).into(),
            count(of.peer_requests_per_s).into(),
            verdict(case),
        ]);
    }
    notes(&mut table, cases);
    table
}

/// Whole microseconds: finer figures of a round trip are noise.
fn micros(seconds: f64) -> String {
    human::time((seconds * 1e6).round() / 1e6)
}

fn parts(cases: &[CaseReport]) -> Table {
    let names = ["application", "eBPF", "worker", "receive", "stack", "disturbance"].map(Column::right);
    let heads = [Column::left("case"), Column::left("variant")].into_iter().chain(names);
    let mut table =
        Table::new("Parts, in core-seconds per gigabit").columns(heads.chain([Column::right("sum")]));
    for case in cases {
        let peer = case.peer.zip(case.peer_parts);
        for (variant, parts) in case.parts.map(|parts| (Variant::Ours, parts)).into_iter().chain(peer) {
            let figures = parts.named().map(|(_, value)| format!("{value:.3}"));
            let head = [case.case.clone(), variant.name().to_owned()];
            table.row(head.into_iter().chain(figures).chain([format!("{:.3}", parts.sum())]));
        }
    }
    table
}

/// The peer's figure with its name.
fn peer(case: &CaseReport, figure: String) -> String {
    case.peer.map_or_else(|| human::NONE.to_owned(), |peer| format!("{figure} ({})", peer.name()))
}

/// The ratios with a bound. An aim that is not reached is no failure.
fn goals(cases: &[CaseReport]) -> Table {
    let mut table = Table::new("Goals: one by the other's").columns([
        Column::left("case"),
        Column::left("figure"),
        Column::left("of"),
        Column::left("beside"),
        Column::right("ratio"),
        Column::right("least .. most"),
        Column::left("goal"),
        Column::left("verdict"),
    ]);
    for case in cases {
        for one in case.comparisons.iter().filter(|c| c.is_bounded()) {
            let spread = stats::min(&one.ratio_runs).zip(stats::max(&one.ratio_runs));
            table.row([
                Cell::plain(&case.case),
                one.figure.name().into(),
                one.of.name().into(),
                one.to.name().into(),
                human::or_none(one.ratio_median, |ratio| format!("{ratio:.2}")).into(),
                human::or_none(spread, |(a, b)| format!("{a:.2} .. {b:.2}")).into(),
                bound(one).into(),
                reached(one),
            ]);
        }
    }
    table
}

fn bound(one: &Comparison) -> String {
    let most = one.at_most.map(|most| format!("<= {most}"));
    let least = one.at_least.map(|least| format!(">= {least}"));
    most.or(least).unwrap_or_default()
}

fn reached(one: &Comparison) -> Cell {
    match (one.met, one.rank) {
        (None, _) => Cell::toned("not measured", Tone::Dim),
        (Some(met), BoundRank::Required) => Cell::verdict(met, "within", "OUTSIDE"),
        (Some(true), BoundRank::Aim) => Cell::toned("aim reached", Tone::Good),
        (Some(false), BoundRank::Aim) => Cell::toned("aim not reached", Tone::Dim),
    }
}

fn verdict(case: &CaseReport) -> Cell {
    match case.met {
        Some(met) => Cell::verdict(met, "met", "MISSED"),
        None => Cell::toned("not shown", Tone::Dim),
    }
}

/// The limit and the disturbance of each case, below the table.
fn notes(table: &mut Table, cases: &[&CaseReport]) {
    for case in cases {
        table.note(format!("{}: what limits: {}", case.case, case.limited_by));
        if let Some(why) = &case.not_shown {
            table.note(format!("{}: cannot be shown here, because {why}", case.case));
        } else if case.disturbed_rounds > 0 {
            table.note(format!("{}: {} rounds were disturbed by others", case.case, case.disturbed_rounds));
        }
    }
}
