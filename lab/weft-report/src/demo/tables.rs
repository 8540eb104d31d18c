//! The demo's tables.

use super::{
    DemoReport, LATENCY_TENANT, Lag, ModeReport, full_load, full_load_mean, published_statements, verdicts,
};
use crate::judgement::Judgement;
use weft_facts::human;
use weft_facts::record::Document;
use weft_facts::stats;
use weft_facts::table::{Cell, Column, Table, Tone, render_all};

/// The tables at the end of `weft demo`, as plain text without colours.
pub fn demo_tables(report: &DemoReport) -> String {
    render_all(&report.tables(), false)
}

/// The tables as values: verdicts, throughput, summary, latency, queues, cost, limits, published statements, conservation. Empty
/// tables are left out.
pub fn demo_table_list(report: &DemoReport) -> Vec<Table> {
    let mut tables = vec![
        verdict_table(report),
        throughput_table(report),
        latency_table(report),
        queue_table(report),
        cost_table(report, "Cost"),
        limit_table(report),
        published_table(report),
    ];
    tables.extend(report.modes.iter().map(|m| m.conservation.table(&format!("Conservation, {}", m.mode))));
    tables.retain(|t| !t.is_empty());
    tables
}

/// A table with a column of names and a column per mode.
fn by_mode(title: impl Into<String>, first: &str, report: &DemoReport) -> Table {
    let modes = report.modes.iter().map(|m| Column::right(m.mode.title()));
    Table::new(title).columns(std::iter::once(Column::left(first)).chain(modes))
}

/// Adds a row with one figure per mode.
fn mode_row(table: &mut Table, name: &str, report: &DemoReport, figure: impl Fn(&ModeReport) -> String) {
    let figures = report.modes.iter().map(|m| Cell::plain(figure(m)));
    table.row(std::iter::once(Cell::plain(name)).chain(figures));
}

/// The origin of the figures, "measured" or "simulated"; a simulation says so in the source of its rate.
fn seen(report: &DemoReport) -> &'static str {
    if report.link_bps_source.starts_with("simulated") { "simulated" } else { "measured" }
}

/// Verdicts.
pub(super) fn verdict_table(report: &DemoReport) -> Table {
    let mut table = Table::new("Verdicts").columns([
        Column::left(""),
        Column::left("what"),
        Column::left(seen(report)),
        Column::left("must be"),
    ]);
    for v in verdicts(report) {
        let cell = match v.judgement {
            Judgement::Holds => Cell::toned("ok", Tone::Good),
            Judgement::Fails => Cell::toned("SHORT", Tone::Bad),
            Judgement::NotShown(_) => Cell::toned("?", Tone::Dim),
        };
        table.row([cell, v.name.clone().into(), v.figure.clone().into(), v.bound.clone().into()]);
        if let Some(why) = v.why_not_shown() {
            table.note(format!("{}: {why}", v.name));
        }
    }
    table
}

/// Throughput of each tenant at full load, share error and link use.
pub(super) fn throughput_table(report: &DemoReport) -> Table {
    let load = report.modes.iter().find_map(|m| full_load(&m.samples));
    let title = human::or_none(load, |l| {
        format!(
            "Throughput at full load ({} {} besides {LATENCY_TENANT}; link {})",
            l.tenants,
            report.sharer_name(),
            human::rate(report.link_bps as f64)
        )
    });
    if load.is_none() {
        return Table::new("Throughput at full load");
    }
    let mut table = by_mode(title, "tenant", report);
    let rates: Vec<_> = report.modes.iter().map(|m| full_load_mean(&m.samples)).collect();
    let tenants: std::collections::BTreeSet<&String> = rates.iter().flat_map(|r| r.keys()).collect();
    for tenant in tenants {
        let name = match report.flows.get(tenant) {
            Some(1) => format!("{tenant}, 1 flow"),
            Some(n) => format!("{tenant}, {n} flows"),
            None => tenant.clone(),
        };
        let cells = rates.iter().map(|r| Cell::plain(human::or_none(r.get(tenant), |b| human::rate(*b))));
        table.row(std::iter::once(Cell::plain(name)).chain(cells));
    }
    if report.figure == 9 {
        let p95 = |m: &ModeReport| human::or_none(m.share_error_p95, human::percent);
        mode_row(&mut table, "share error, p95", report, p95);
        let lag = |m: &ModeReport| {
            let written =
                |l: &Lag| format!("{}, {}", human::bytes(l.bytes.max(0.0)), human::time(l.s.max(0.0)));
            human::or_none(m.lag.as_ref(), written)
        };
        mode_row(&mut table, "largest lag behind ideal", report, lag);
        mode_row(&mut table, "Jain's index", report, |m| human::or_none(jain(m), |j| format!("{j:.3}")));
    }
    let use_p5 = |m: &ModeReport| human::or_none(m.link_use_p5, human::percent);
    mode_row(&mut table, "link use in 95 % of windows", report, use_p5);
    mode_row(&mut table, "link use, least", report, |m| human::or_none(m.link_use_min, human::percent));
    table
}

/// Jain's index of the sharing tenants' mean rates at full load.
fn jain(mode: &ModeReport) -> Option<f64> {
    let rates = full_load_mean(&mode.samples);
    let sharing: Vec<f64> = rates.iter().filter(|(t, _)| *t != LATENCY_TENANT).map(|(_, bps)| *bps).collect();
    stats::jain(&sharing)
}

/// Latency of T0 at full load.
pub(super) fn latency_table(report: &DemoReport) -> Table {
    let title = format!("Latency of {LATENCY_TENANT} at full load");
    if report.modes.iter().all(|m| m.latency_s.is_none()) {
        return Table::new(title);
    }
    let mut table = by_mode(title, "percentile", report);
    let time = |s: Option<f64>| human::or_none(s, human::time);
    mode_row(&mut table, "p50", report, |m| time(m.latency_s.map(|l| l.p50)));
    mode_row(&mut table, "p90", report, |m| time(m.latency_s.map(|l| l.p90)));
    mode_row(&mut table, "p99", report, |m| time(m.latency_s.map(|l| l.p99)));
    mode_row(&mut table, "p99.9", report, |m| time(m.latency_s.map(|l| l.p999)));
    if report.modes.iter().any(|m| m.probe_wait_p99_s.is_some()) {
        mode_row(&mut table, "p99 of it in the NIC", report, |m| time(m.probe_wait_p99_s));
    }
    mode_row(&mut table, "round trips", report, |m| {
        human::or_none(m.latency_s.filter(|l| l.count > 0), |l| human::count(l.count))
    });
    table
}

/// Standing queues at full load.
pub(super) fn queue_table(report: &DemoReport) -> Table {
    let mut table = by_mode("Standing queue at full load, median (largest)", "tenant", report);
    let tenants: std::collections::BTreeSet<&String> =
        report.modes.iter().flat_map(|m| m.standing_queue_bytes.keys()).collect();
    for tenant in &tenants {
        mode_row(&mut table, tenant, report, |m| {
            let median = human::or_none(m.standing_queue_bytes.get(*tenant), |b| human::bytes(*b));
            let largest = m.standing_queue_max_bytes.get(*tenant);
            largest.map_or(median.clone(), |b| format!("{median} ({})", human::bytes(*b)))
        });
    }
    if tenants.len() > 1 {
        mode_row(&mut table, "sum of medians", report, |m| {
            human::bytes(m.standing_queue_bytes.values().sum())
        });
    }
    table
}

/// Cost, with the title `title`.
pub(super) fn cost_table(report: &DemoReport, title: &str) -> Table {
    let mut table = by_mode(title, "what", report);
    let count = |n: Option<u64>| human::or_none(n, human::count);
    let mut add = |name: &str, figure: &dyn Fn(&ModeReport) -> String| {
        if report.modes.iter().any(|m| figure(m) != human::NONE) {
            mode_row(&mut table, name, report, figure);
        }
    };
    add("eBPF per packet", &|m| human::or_none(m.cost.bpf_ns_per_packet, |ns| format!("{ns:.0} ns")));
    add("eBPF runs", &|m| count(m.cost.bpf_runs));
    add("NIC threads, cores", &|m| human::or_none(m.cost.nic_cpu_share, |c| format!("{c:.2}")));
    add("doorbells", &|m| count(m.cost.doorbells));
    add("doorbell bytes", &|m| human::or_none(m.cost.doorbell_bytes, |b| human::bytes(b as f64)));
    add("wakeups", &|m| count(m.cost.wakeups));
    let others: std::collections::BTreeSet<&String> =
        report.modes.iter().flat_map(|m| m.cost.other.keys()).collect();
    for name in others {
        add(name, &|m| {
            human::or_none(m.cost.other.get(name), |v| {
                v.as_str().map_or_else(|| v.to_string(), str::to_owned)
            })
        });
    }
    table
}

/// Rate limits (figure 11).
pub(super) fn limit_table(report: &DemoReport) -> Table {
    let mut table = Table::new("Rate limits").columns([
        Column::left("mode"),
        Column::left("class"),
        Column::right("limit"),
        Column::right("mean"),
        Column::right("error p95"),
        Column::right("error max"),
        Column::right("over limit, most"),
        Column::right("windows"),
    ]);
    for mode in &report.modes {
        for l in &mode.limits {
            table.row([
                Cell::plain(mode.mode.title()),
                l.class.as_str().into(),
                human::rate(l.limit_bps).into(),
                human::or_none(l.mean_bps, human::rate).into(),
                human::or_none(l.error_p95, human::percent).into(),
                human::or_none(l.error_max, human::percent).into(),
                human::percent(l.excess_max).into(),
                l.windows.to_string().into(),
            ]);
        }
    }
    table
}

/// Published statements beside the measurements or simulations.
pub(super) fn published_table(report: &DemoReport) -> Table {
    let mut table = Table::new(format!("Published and {}", seen(report))).columns([
        Column::left("mode"),
        Column::left(""),
        Column::left("published"),
        Column::left(seen(report)),
        Column::left("source"),
    ]);
    for s in published_statements(report) {
        let agrees = match s.agrees {
            Some(true) => Cell::toned("same", Tone::Good),
            Some(false) => Cell::toned("differs", Tone::Bad),
            None => Cell::toned("unknown", Tone::Dim),
        };
        table.row([
            Cell::plain(s.mode.title()),
            agrees,
            s.published.into(),
            s.measured.into(),
            s.source.into(),
        ]);
    }
    table
}
