//! The profile as one HTML page: tables, stacked bars, distributions of skb sizes, and flame graphs by category.

use std::collections::BTreeMap;

use super::{Category, ConfigReport, ProfileReport, Side, Sizes, SkbSizes};
use crate::html::{
    Axis, AxisScale, AxisUnit, Bar, BarPart, Bars, Chart, ChartGroup, ChartLine, Colour, FlameGraph,
    FlameStack, HtmlPage, PageBlock, Section, Shape,
};
use weft_facts::record::Document;

/// A flame graph's stacks: those of one side at one level, or of one direction.
#[derive(Clone, Debug)]
pub struct Flame {
    /// The level, or `attached`.
    pub level: String,
    /// The name of the side or direction.
    pub part: &'static str,
    /// Category, frames from the outermost, and seconds.
    pub stacks: Vec<(Category, Vec<String>, f64)>,
}

/// The colour of a category.
pub(super) fn colour(category: Category) -> Colour {
    match category {
        Category::DataCopy => Colour::Vermillion,
        Category::Tcpip => Colour::Blue,
        Category::Netdev => Colour::Green,
        Category::Skb => Colour::Orange,
        Category::Mem => Colour::Purple,
        Category::Lock => Colour::Ink,
        Category::Sched => Colour::Sky,
        Category::Etc => Colour::Yellow,
        Category::IrqOff => Colour::Grey,
        Category::Unmapped => Colour::Pale,
    }
}

/// The page of a profile, with the given flame graphs.
pub fn profile_html(report: &ProfileReport, flames: &[Flame]) -> String {
    let clock = format!("{} at {} Hz", report.conditions.clock, report.conditions.sample_hz);
    let mut sections = vec![
        Section::new("Figures", report.tables().into_iter().map(PageBlock::Table)),
        Section::new("Processor time by category", breakdowns(report, &clock)),
    ];
    let sizes = sizes(report);
    if !sizes.is_empty() {
        sections.push(Section::new(
            "Sizes of skbs",
            [PageBlock::Charts(ChartGroup { charts: sizes, columns: 2, bands_mean: String::new() })],
        ));
    }
    if !flames.is_empty() {
        let blocks = flames.iter().map(|flame| PageBlock::Flame(flame_graph(flame, &clock)));
        sections.push(Section::new("Flame graphs by category", blocks));
    }
    sections.push(Section::new("Host", [PageBlock::Facts(report.host.facts())]));
    let subtitle = format!("Clock: {clock}. Table of categories: {}.", report.conditions.categories);
    let title = format!("weft profile {}", report.pattern);
    HtmlPage { title, subtitle, sections, data: serde_json::to_value(report).ok() }.render()
}

/// Bars of nanoseconds per byte, and of shares, for each side.
fn breakdowns(report: &ProfileReport, clock: &str) -> Vec<PageBlock> {
    let bars = |side: Side, unit: &str, values: fn(&ConfigReport, Side) -> BTreeMap<Category, f64>| {
        let bar = |config: &ConfigReport| {
            let parts = values(config, side).into_iter().map(|(category, value)| BarPart {
                name: category.title().to_owned(),
                colour: colour(category),
                value,
            });
            Bar { name: config.level.clone(), parts: parts.collect() }
        };
        PageBlock::Bars(Bars {
            title: format!("{}, {unit} ({clock})", side.name()),
            unit: unit.to_owned(),
            bars: report.configs.iter().map(bar).collect(),
        })
    };
    let absolute = |config: &ConfigReport, side: Side| {
        config.sides.get(&side).map(|s| s.ns_per_byte.clone()).unwrap_or_default()
    };
    let share = |config: &ConfigReport, side: Side| {
        config.sides.get(&side).map(|s| s.cpu_share.clone()).unwrap_or_default()
    };
    Side::ALL
        .into_iter()
        .flat_map(|side| [bars(side, "ns per byte", absolute), bars(side, "share", share)])
        .collect()
}

/// Cumulative distributions of the levels' skb sizes.
fn sizes(report: &ProfileReport) -> Vec<Chart> {
    let of = |config: &ConfigReport| Some((config.level.clone(), config.skb_bytes.clone()?));
    size_charts(&report.configs.iter().filter_map(of).collect::<Vec<_>>())
}

/// Cumulative distributions of skb sizes: before and after GRO at the receiver, and at the sender's device. Each name is a series.
pub(super) fn size_charts(named: &[(String, SkbSizes)]) -> Vec<Chart> {
    let chart = |title: &str, of: fn(&SkbSizes) -> &Sizes| {
        let series = named.iter().enumerate().filter_map(|(i, (name, sizes))| {
            let points = cumulative(of(sizes));
            let name = name.clone();
            (!points.is_empty()).then(|| ChartLine {
                name,
                colour: Colour::nth(i),
                shape: Shape::Step,
                points,
            })
        });
        let axis = |label: &str, unit, range| Axis {
            label: label.to_owned(),
            unit,
            scale: AxisScale::Linear,
            range,
        };
        Chart {
            title: title.to_owned(),
            caption: "cumulative share of skbs".to_owned(),
            x: axis("size", AxisUnit::Bytes, None),
            y: axis("share", AxisUnit::Number, Some((0.0, 1.0))),
            series: series.collect(),
            bands: Vec::new(),
        }
    };
    let charts = [
        chart("Received, after GRO", |sizes| &sizes.after_gro),
        chart("Received, before GRO", |sizes| &sizes.before_gro),
        chart("Transmitted", |sizes| &sizes.transmit),
    ];
    charts.into_iter().filter(|chart| !chart.series.is_empty()).collect()
}

/// Points of size and share; empty without sizes.
fn cumulative(sizes: &Sizes) -> Vec<(f64, f64)> {
    let total = sizes.total() as f64;
    if total <= 0.0 {
        return Vec::new();
    }
    let edges = Sizes::edges().chain([Sizes::BUCKETS as u64 * Sizes::BUCKET]);
    let mut below = 0;
    let point = |(edge, count): (u64, &u64)| {
        below += count;
        (edge as f64, below as f64 / total)
    };
    edges.zip(&sizes.counts).map(point).collect()
}

pub(super) fn flame_graph(flame: &Flame, clock: &str) -> FlameGraph {
    let stacks = flame.stacks.iter().map(|(category, frames, seconds)| FlameStack {
        frames: frames.clone(),
        colour: colour(*category),
        value: *seconds,
    });
    FlameGraph {
        title: format!("{}: {}", flame.level, flame.part),
        unit: format!("seconds ({clock})"),
        stacks: stacks.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_one() {
        let mut counts = vec![0; Sizes::BUCKETS];
        (counts[1], counts[64]) = (3, 1);
        let points = cumulative(&Sizes { counts, mean: None });
        assert_eq!(points.len(), Sizes::BUCKETS);
        assert_eq!((points[0], points[1]), ((1024.0, 0.0), (2048.0, 0.75)));
        assert_eq!(points[64].1, 1.0);
        assert!(cumulative(&Sizes::default()).is_empty());
    }
}
