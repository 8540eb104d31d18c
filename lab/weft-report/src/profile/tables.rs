//! The tables of a profile: a row per level, the breakdown of each side, and what limits the figures.

use super::{Category, ConfigReport, Effect, ProfileReport, Side, Utilisation};
use weft_facts::human;
use weft_facts::table::{Cell, Column, Table, Tone};

/// All tables.
pub(super) fn tables(report: &ProfileReport) -> Vec<Table> {
    let mut all = vec![throughput(report), utilisation(report)];
    all.extend(Side::ALL.map(|side| breakdown(report, side)));
    if !report.advice.is_empty() {
        all.push(advice(report));
    }
    if !report.tried.is_empty() {
        all.push(tried(report));
    }
    all
}

fn gbps(bps: Option<f64>) -> String {
    human::or_none(bps, |bps| format!("{:.2}", bps / 1e9))
}

fn kilobytes(bytes: Option<f64>) -> String {
    human::or_none(bytes, |bytes| format!("{:.1}", bytes / 1e3))
}

/// Throughput, per core, skb size, latency, retransmissions, spread and overhead.
fn throughput(report: &ProfileReport) -> Table {
    let right = ["Gb/s", "least", "most", "per sender core", "per receiver core", "per busy core"];
    let more = ["skb kB", "p50", "p99", "cache misses", "retransmitted", "tool costs", "probes alone"];
    let title = format!("{}: throughput, and Gb/s per core in use", report.pattern);
    let mut table = Table::new(title).columns(
        [Column::left("level")]
            .into_iter()
            .chain(right.map(Column::right))
            .chain([Column::left("limits")])
            .chain(more.map(Column::right)),
    );
    for config in &report.configs {
        let side = |side| gbps(config.sides.get(&side).and_then(|s| s.bps_per_core));
        let latency = |figure: fn(&super::Latency) -> f64| {
            human::or_none(config.latency_s.as_ref().map(figure), human::time)
        };
        let skb = config.skb_bytes.as_ref().and_then(|sizes| sizes.after_gro.mean);
        table.row([
            config.level.clone(),
            gbps(Some(config.bps)),
            gbps(Some(config.bps_spread[0])),
            gbps(Some(config.bps_spread[1])),
            side(Side::Sender),
            side(Side::Receiver),
            gbps(config.bps_per_busy_core),
            config.bottleneck.map_or(human::NONE, Side::name).to_owned(),
            kilobytes(skb),
            latency(|l| l.p50),
            latency(|l| l.p99),
            config.cache_miss.map_or_else(|| "n/a: no PMU".to_owned(), human::percent),
            human::count(config.retransmitted),
            human::or_none(config.overhead, human::percent),
            human::or_none(config.probe_overhead, human::percent),
        ]);
    }
    table.note(format!(
        "Clock: {} at {} Hz; table of categories {}; medians of {} repeats, in an order that rotates.",
        report.conditions.clock, report.conditions.sample_hz, report.conditions.categories, report.repeats
    ));
    if let Some(peer) = &report.peer {
        table.note(format!(
            "Sender: this host, kernel {}. Receiver: {} ({}), kernel {}.",
            report.host.kernel, peer.name, peer.address, peer.kernel
        ));
    }
    for label in &report.labels {
        table.note(label.clone());
    }
    table
}

/// Cores in use, and what disturbs.
fn utilisation(report: &ProfileReport) -> Table {
    let parts = ["user", "system", "softirq", "user", "system", "softirq"];
    let title =
        "Cores in use: sender, then receiver; samples of other processes, and of interrupts of neither side";
    let mut table = Table::new(title).columns(
        [Column::left("level")]
            .into_iter()
            .chain(parts.map(Column::right))
            .chain(["others", "interrupts", "lost", "leaves unmapped"].map(Column::right)),
    );
    for config in &report.configs {
        let of = |side| config.sides.get(&side).map_or_else(Utilisation::default, |s| s.utilisation);
        let cores = |u: Utilisation| [u.user, u.system, u.softirq].map(|x| Cell::plain(format!("{x:.2}")));
        let tone = if config.foreign_share > super::FOREIGN_MAX { Tone::Bad } else { Tone::Plain };
        let row = [Cell::plain(&config.level)]
            .into_iter()
            .chain(cores(of(Side::Sender)))
            .chain(cores(of(Side::Receiver)))
            .chain([
                Cell::toned(human::percent(config.foreign_share), tone),
                Cell::plain(human::percent(config.interrupts_share)),
                Cell::plain(human::count(config.lost_samples)),
                Cell::plain(human::percent(config.leaf_unmapped)),
            ]);
        table.row(row);
    }
    table
}

/// Shares of a side's kernel time.
fn breakdown(report: &ProfileReport, side: Side) -> Table {
    let title =
        format!("The {}'s time in the kernel, %, by category ({})", side.name(), report.conditions.clock);
    let mut table = Table::new(title).columns(
        [Column::left("level")]
            .into_iter()
            .chain(Category::ALL.map(|category| Column::right(category.title())))
            .chain([Column::right("ns per byte")]),
    );
    let cells = |config: &ConfigReport| -> Option<Vec<String>> {
        let side = config.sides.get(&side)?;
        let share =
            |category| format!("{:.1}", side.cpu_share.get(&category).copied().unwrap_or(0.0) * 100.0);
        let sum: f64 = side.ns_per_byte.values().sum();
        let cells = [config.level.clone()].into_iter().chain(Category::ALL.map(share));
        Some(cells.chain([format!("{sum:.3}")]).collect())
    };
    for row in report.configs.iter().filter_map(cells) {
        table.row(row);
    }
    table
}

/// The differences that remarks made, with their intervals.
fn tried(report: &ProfileReport) -> Table {
    let right = ["Gb/s without", "with", "difference", "ns per byte without", "with", "difference"];
    let mut table = Table::new("Remarks, tried: without and with, in turns").columns(
        ["level", "command"]
            .map(Column::left)
            .into_iter()
            .chain(right.map(Column::right))
            .chain([Column::left("result")]),
    );
    let cells = |effect: Option<Effect>, unit: f64, digits: usize| -> [String; 3] {
        let text = |x: f64| format!("{:.digits$}", x / unit);
        let Some(effect) = effect else { return [human::NONE; 3].map(str::to_owned) };
        let half = effect.half_width.map_or_else(String::new, |half| format!(" ± {}", text(half)));
        let difference = format!("{:+.digits$}{half}", effect.difference() / unit);
        [text(effect.without), text(effect.with), difference]
    };
    for one in &report.tried {
        let result = match (&one.not_tried, one.bps) {
            (Some(why), _) => format!("not tried: {why}"),
            (None, Some(bps)) if bps.is_shown() && bps.difference() > 0.0 => "faster".to_owned(),
            (None, Some(bps)) if bps.is_shown() => "slower".to_owned(),
            _ => "throughput: not shown".to_owned(),
        };
        let row = [one.level.clone(), one.command.clone()];
        let figures = cells(one.bps, 1e9, 2).into_iter().chain(cells(one.ns_per_byte, 1.0, 3));
        table.row(row.into_iter().chain(figures).chain([result]));
    }
    table.note(
        "Means, and 95 % intervals (Welch) of the difference over the runs; one run of each has no interval.",
    );
    table
}

fn advice(report: &ProfileReport) -> Table {
    let mut table = Table::new("Remarks").columns(["level", "evidence", "command"].map(Column::left));
    for one in &report.advice {
        table.row([one.level.as_str(), one.evidence.as_str(), one.command.as_str()]);
    }
    table
}
