//! The demo's HTML page: the paper's figures, verdicts and tables.

use std::collections::BTreeSet;

use super::{DemoReport, LATENCY_TENANT, Mode, ModeReport, QueueSample, Sample, full_load, tables, verdicts};
use crate::html::{
    Axis, AxisScale, AxisUnit, Chart, ChartGroup, ChartLine, Check, Colour, HtmlPage, PageBlock, Section,
    Shape,
};
use weft_facts::table::Table;
use weft_facts::{human, stats};

/// The whole page as one HTML file.
pub fn demo_html(report: &DemoReport) -> String {
    demo_page(report).render()
}

/// The page as a value, for callers that add sections.
pub fn demo_page(report: &DemoReport) -> HtmlPage {
    let mut sections = vec![verdict_section(report), throughput_section(report)];
    sections.extend(latency_section(report));
    sections.extend(queue_section(report));
    sections.extend(detail_sections(report));
    sections.push(reproduce_section(report));
    HtmlPage {
        title: format!("Isolation demo (Loom, figure {})", report.figure),
        subtitle: format!(
            "Link {} ({}); {} flows of {} {}, {}; {} for each mode. Kernel {}, {} cores.",
            human::rate(report.link_bps as f64),
            report.link_bps_source,
            report.flows.values().sum::<u32>(),
            report.flows.len(),
            report.sharer_name(),
            report.congestion_control,
            human::time(report.duration_s),
            report.host.kernel,
            report.host.cores
        ),
        sections,
        data: serde_json::to_value(report).ok(),
    }
}

/// Verdicts and published statements.
fn verdict_section(report: &DemoReport) -> Section {
    let checks = verdicts(report).into_iter().map(|v| Check {
        judgement: v.judgement.clone(),
        figure: v.shown(),
        name: v.name,
        bound: v.bound,
    });
    let mut blocks = vec![PageBlock::Checks(checks.collect())];
    blocks.extend(shown(tables::published_table(report)));
    Section::new("Verdicts", blocks)
}

/// A table block, unless the table is empty.
fn shown(table: Table) -> Option<PageBlock> {
    (!table.is_empty()).then_some(PageBlock::Table(table))
}

/// Throughput over time: a panel per mode with the same axes (figure 9 a to d, or 11).
fn throughput_section(report: &DemoReport) -> Section {
    let tenants: BTreeSet<&str> =
        report.modes.iter().flat_map(|m| &m.samples).flat_map(|s| s.bps.keys()).map(String::as_str).collect();
    let samples = || report.modes.iter().flat_map(|m| &m.samples);
    let end = samples().map(|s| s.t_s + s.window_s).fold(report.duration_s, f64::max);
    let most = samples().flat_map(|s| s.bps.values().copied()).fold(report.link_bps as f64, f64::max);
    let charts = report.modes.iter().enumerate().map(|(i, mode)| Chart {
        title: if report.modes.len() > 1 {
            format!("({}) {}", char::from(b'a' + (i % 26) as u8), mode.mode)
        } else {
            mode.mode.to_string()
        },
        caption: mode.description.clone(),
        x: time_axis(end),
        y: Axis {
            label: "throughput".into(),
            unit: AxisUnit::BitsPerSec,
            scale: AxisScale::Linear,
            range: Some((0.0, most * 1.04)),
        },
        series: throughput_series(report, mode, &tenants),
        bands: steady_bands(&mode.samples),
    });
    let group = ChartGroup {
        charts: charts.collect(),
        columns: if report.modes.len() > 1 { 2 } else { 1 },
        bands_mean: "steady: judged".into(),
    };
    let text = format!(
        "Throughput of the {} on the wire. Shaded windows are steady: throughout them the same ones had \
         packets waiting in the NIC, and no others sent; shares are judged in these. Drag to zoom in, double-click to zoom out, click a name to hide it.",
        report.sharer_name()
    );
    let mut blocks = vec![PageBlock::Text(text), PageBlock::Charts(group)];
    blocks.extend(shown(tables::throughput_table(report)));
    blocks.extend(shown(tables::limit_table(report)));
    Section::new(format!("Throughput over time (figure {})", report.figure), blocks)
}

/// The horizontal axis of all plots.
fn time_axis(end_s: f64) -> Axis {
    Axis {
        label: "time".into(),
        unit: AxisUnit::Seconds,
        scale: AxisScale::Linear,
        range: Some((0.0, end_s)),
    }
}

/// A step line per tenant, and the equal share of each (figure 9).
fn throughput_series(report: &DemoReport, mode: &ModeReport, tenants: &BTreeSet<&str>) -> Vec<ChartLine> {
    let mut series = Vec::new();
    if report.figure == 9 {
        let due = |s: &Sample| match s.sharing().count() {
            0 => f64::NAN,
            n => (report.link_bps as f64 - s.rate_of(LATENCY_TENANT)).max(0.0) / n as f64,
        };
        series.push(ChartLine {
            name: "equal share of the link".into(),
            colour: Colour::Grey,
            shape: Shape::Reference,
            points: stepped(&mode.samples, due),
        });
    }
    let bulk = tenants.iter().filter(|t| **t != LATENCY_TENANT).enumerate();
    let coloured = bulk.map(|(i, t)| (*t, Colour::nth(i)));
    let probe = tenants.contains(LATENCY_TENANT).then_some((LATENCY_TENANT, Colour::Ink));
    // T0 is drawn last: its line is near zero, where idle tenants would cover it.
    series.extend(coloured.chain(probe).map(|(tenant, colour)| ChartLine {
        name: tenant.to_owned(),
        colour,
        shape: Shape::Step,
        points: stepped(&mode.samples, |s| s.bps.get(tenant).copied().unwrap_or(f64::NAN)),
    }));
    series
}

/// The points of a step line: each window's value at its start, and the last value also at its end.
fn stepped(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = samples.iter().map(|s| (s.t_s, value(s))).collect();
    points.extend(samples.last().map(|s| (s.t_s + s.window_s, value(s))));
    points
}

/// The spans of steady windows, neighbours joined.
fn steady_bands(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut bands: Vec<(f64, f64)> = Vec::new();
    for s in samples.iter().filter(|s| s.is_judged()) {
        let end = s.t_s + s.window_s;
        match bands.last_mut() {
            Some(last) if s.t_s - last.1 < s.window_s / 2.0 => last.1 = end,
            _ => bands.push((s.t_s, end)),
        }
    }
    bands
}

/// The colour of a mode in comparisons.
fn mode_colour(mode: Mode) -> Colour {
    match mode {
        Mode::Sq => Colour::Orange,
        Mode::Mq => Colour::Sky,
        Mode::Qpf => Colour::Vermillion,
        Mode::Loom => Colour::Blue,
    }
}

/// T0's latency over time (figure 10) and at full load.
fn latency_section(report: &DemoReport) -> Option<Section> {
    let series: Vec<ChartLine> = report
        .modes
        .iter()
        .filter(|m| !m.latency_samples.is_empty())
        .map(|m| ChartLine {
            name: m.mode.title().to_owned(),
            colour: mode_colour(m.mode),
            shape: Shape::Points,
            points: m.latency_samples.iter().map(|l| (l.t_s, l.p90_s)).collect(),
        })
        .collect();
    let table = shown(tables::latency_table(report));
    if series.is_empty() && table.is_none() {
        return None;
    }
    let mut blocks = Vec::new();
    if !series.is_empty() {
        blocks.push(PageBlock::Text(format!(
            "90th percentile of {LATENCY_TENANT}'s latency in each 250 ms, all modes in one plot, logarithmic."
        )));
        blocks.push(PageBlock::Charts(over_time(
            report,
            "latency, p90",
            AxisUnit::Latency,
            AxisScale::Log,
            series,
        )));
    }
    blocks.extend(table);
    Some(Section::new(format!("Latency of {LATENCY_TENANT} (figure 10)"), blocks))
}

/// A single wide chart over time, with the time of full load shaded.
fn over_time(
    report: &DemoReport,
    label: &str,
    unit: AxisUnit,
    scale: AxisScale,
    series: Vec<ChartLine>,
) -> ChartGroup {
    let load = report.modes.iter().find_map(|m| full_load(&m.samples));
    let chart = Chart {
        title: String::new(),
        caption: String::new(),
        x: time_axis(report.duration_s),
        y: Axis { label: label.into(), unit, scale, range: None },
        series,
        bands: load.map(|l| (l.from_s, l.to_s)).into_iter().collect(),
    };
    ChartGroup { charts: vec![chart], columns: 1, bands_mean: "full load".into() }
}

/// The standing queue.
fn queue_section(report: &DemoReport) -> Option<Section> {
    let total = |q: &QueueSample| q.bytes.values().sum::<f64>();
    let series: Vec<ChartLine> = report
        .modes
        .iter()
        .filter(|m| !m.queue_samples.is_empty())
        .map(|m| ChartLine {
            name: m.mode.title().to_owned(),
            colour: mode_colour(m.mode),
            shape: Shape::Line,
            points: m.queue_samples.iter().map(|q| (q.t_s, total(q))).collect(),
        })
        .collect();
    let mut blocks = Vec::new();
    if !series.is_empty() {
        blocks.push(PageBlock::Text("Bytes of all tenants waiting below their sockets.".into()));
        blocks.push(PageBlock::Charts(over_time(
            report,
            "waiting",
            AxisUnit::Bytes,
            AxisScale::Linear,
            series,
        )));
    }
    blocks.extend(shown(tables::queue_table(report)));
    (!blocks.is_empty()).then(|| Section::new("Standing queue", blocks))
}

/// Cost, conservation and notes.
fn detail_sections(report: &DemoReport) -> Vec<Section> {
    let mut sections = Vec::new();
    if let Some(cost) = shown(tables::cost_table(report, "")) {
        sections.push(Section::new("Cost", [cost]));
    }
    let balances = report.modes.iter().map(|m| PageBlock::Table(m.conservation.table(m.mode.title())));
    sections.push(Section::new("Conservation of packets and bytes", balances));
    let notes: Vec<PageBlock> = report
        .modes
        .iter()
        .flat_map(|m| m.notes.iter().map(|n| PageBlock::Text(format!("{}: {n}", m.mode))))
        .collect();
    if !notes.is_empty() {
        sections.push(Section::new("Notes of the run", notes));
    }
    sections
}

/// The host, and the command that repeats the run.
fn reproduce_section(report: &DemoReport) -> Section {
    let command = report.command.clone().unwrap_or_else(|| {
        let modes: Vec<&str> = report.modes.iter().map(|m| m.mode.name()).collect();
        format!(
            "weft demo --figure {} --modes {} --rate {}bps --duration {} --json report.json",
            report.figure,
            modes.join(","),
            report.link_bps,
            report.duration_s
        )
    });
    let mut facts = report.host.facts();
    facts.extend(report.started.clone().map(|s| ("started".to_owned(), s)));
    facts.extend(report.seed.map(|s| ("seed".to_owned(), s.to_string())));
    facts.push(("flows".to_owned(), flows(report)));
    let windows: Vec<f64> = report.modes.iter().flat_map(|m| &m.samples).map(|s| s.window_s).collect();
    facts.push(("sample window".to_owned(), human::or_none(stats::median(&windows), human::time)));
    Section::new("Host, and how to reproduce", [
        PageBlock::Facts(facts),
        PageBlock::Code(command),
        PageBlock::Text(
            "The full data is embedded in this file: document.getElementById(\"report\").textContent is the JSON document."
                .into(),
        ),
    ])
}

/// The flows of each tenant in a line.
fn flows(report: &DemoReport) -> String {
    report.flows.iter().map(|(t, n)| format!("{t} {n}")).collect::<Vec<_>>().join(", ")
}
