//! The attached profile as one HTML page: tables, bars of the network stack's time, distributions of sizes, flame graphs.

use super::{AttachedReport, Direction};
use crate::html::{Bar, BarPart, Bars, ChartGroup, HtmlPage, PageBlock, Section};
use crate::profile::Category;
use crate::profile::page::{Flame, colour, flame_graph, size_charts};
use std::collections::BTreeMap;
use weft_facts::record::Document;

/// The page of a profile, with the given flame graphs.
pub fn attached_html(report: &AttachedReport, flames: &[Flame]) -> String {
    let clock = format!("{} at {} Hz", report.conditions.clock, report.conditions.sample_hz);
    let mut sections = vec![
        Section::new("Figures", report.tables().into_iter().map(PageBlock::Table)),
        Section::new("Network stack by category", breakdowns(report, &clock)),
    ];
    let sizes = report.skb_bytes.as_ref();
    let charts = sizes.map_or_else(Vec::new, |sizes| size_charts(&[("attached".to_owned(), sizes.clone())]));
    if !charts.is_empty() {
        let group = ChartGroup { charts, columns: 2, bands_mean: String::new() };
        sections.push(Section::new("Sizes of skbs", [PageBlock::Charts(group)]));
    }
    if !flames.is_empty() {
        let blocks = flames.iter().map(|flame| PageBlock::Flame(flame_graph(flame, &clock)));
        sections.push(Section::new("Flame graphs by category", blocks));
    }
    sections.push(Section::new("Host", [PageBlock::Facts(report.host.facts())]));
    let subtitle = format!("Clock: {clock}. Table of categories: {}.", report.conditions.categories);
    let title = format!("weft profile --attach: {}", report.subject.described());
    HtmlPage { title, subtitle, sections, data: serde_json::to_value(report).ok() }.render()
}

/// Bars of processors in use, and of nanoseconds per byte, by direction.
fn breakdowns(report: &AttachedReport, clock: &str) -> Vec<PageBlock> {
    let bars = |unit: &str, scale: f64, values: &BTreeMap<Direction, BTreeMap<Category, f64>>| {
        let bar = |(direction, categories): (&Direction, &BTreeMap<Category, f64>)| {
            let parts = categories.iter().map(|(category, value)| BarPart {
                name: category.title().to_owned(),
                colour: colour(*category),
                value: value * scale,
            });
            Bar { name: direction.title().to_owned(), parts: parts.collect() }
        };
        PageBlock::Bars(Bars {
            title: format!("{unit} ({clock})"),
            unit: unit.to_owned(),
            bars: values.iter().map(bar).collect(),
        })
    };
    let per_second = if report.span_s > 0.0 { 1.0 / report.span_s } else { 0.0 };
    vec![
        bars("processors in use", per_second, &report.network_s),
        bars("ns per byte", 1.0, &report.ns_per_byte),
    ]
}
