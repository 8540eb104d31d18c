//! Line charts: their description, and the elements and data from which the page's script draws them.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};

use super::{escape, table_html};
use weft_facts::table::{Cell, Column, Table};
use weft_facts::{human, stats};

/// A colour of the palette, which is Okabe and Ito's: distinguishable with every kind of colour vision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Colour {
    /// The colour of text: black, or white on dark.
    Ink,
    /// Blue.
    Blue,
    /// Orange.
    Orange,
    /// Green.
    Green,
    /// Reddish purple.
    Purple,
    /// Vermillion.
    Vermillion,
    /// Sky blue.
    Sky,
    /// Grey, for references.
    Grey,
    /// Yellow, for areas only: lines of it are hard to see on white.
    Yellow,
    /// Pale grey, for areas only.
    Pale,
}

impl Colour {
    /// The palette in the order in which colours are assigned.
    pub const PALETTE: [Colour; 6] =
        [Colour::Blue, Colour::Orange, Colour::Green, Colour::Purple, Colour::Vermillion, Colour::Sky];

    /// The `index`th colour, cycling through the palette.
    pub fn nth(index: usize) -> Colour {
        Self::PALETTE[index % Self::PALETTE.len()]
    }

    /// The name of its CSS variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            Colour::Ink => "ink",
            Colour::Blue => "blue",
            Colour::Orange => "orange",
            Colour::Green => "green",
            Colour::Purple => "purple",
            Colour::Vermillion => "vermillion",
            Colour::Sky => "sky",
            Colour::Grey => "grey",
            Colour::Yellow => "yellow",
            Colour::Pale => "pale",
        }
    }
}

/// The form in which a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Straight lines between points.
    Line,
    /// Each value holds until the next point: means over windows, with points at the starts.
    Step,
    /// Points joined by a thin line: single measurements.
    Points,
    /// A thin dashed step line: a reference.
    Reference,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct ChartLine {
    /// Its name in the legend. Series of the same name in the charts of a group share an entry.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its form.
    pub shape: Shape,
    /// Its points: x ascending, y in the base unit of the axis. A y that is not finite is a gap.
    pub points: Vec<(f64, f64)>,
}

/// The unit of an axis. Values are in the base unit, and are written in a readable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisUnit {
    /// Seconds, without a prefix.
    Seconds,
    /// Seconds, written as ns, us, ms or s.
    Latency,
    /// Bits per second, one prefix for the whole axis.
    BitsPerSec,
    /// Bytes, one prefix for the whole axis.
    Bytes,
    /// A number without a unit.
    Number,
}

/// The division of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisScale {
    /// Evenly.
    Linear,
    /// By powers of ten; values up to zero are gaps.
    Log,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity, without the unit.
    pub label: String,
    /// Its unit.
    pub unit: AxisUnit,
    /// Its division.
    pub scale: AxisScale,
    /// Its ends in the base unit; derived from the data if absent.
    pub range: Option<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// A sentence below the heading; may be empty.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<ChartLine>,
    /// Shaded ranges of x.
    pub bands: Vec<(f64, f64)>,
}

/// Charts side by side with one legend. A legend entry switches its series in all of them, and they share the cursor.
#[derive(Clone, Debug)]
pub struct ChartGroup {
    /// The charts.
    pub charts: Vec<Chart>,
    /// The number of charts side by side on a wide page: 1 or 2.
    pub columns: usize,
    /// The meaning of the shaded ranges; not written if empty.
    pub bands_mean: String,
}

impl ChartGroup {
    /// Appends the group's elements to `out` and its charts' data to `charts`.
    pub(super) fn write(&self, out: &mut String, charts: &mut Vec<Value>) {
        let group = charts.len();
        let _ = writeln!(out, "<div class=\"group\" data-group=\"{group}\">");
        self.write_legend(out);
        let _ = writeln!(out, "<div class=\"charts columns-{}\">", self.columns.clamp(1, 2));
        for chart in &self.charts {
            let _ = writeln!(out, "<figure>\n<figcaption><strong>{}</strong>", escape(&chart.title));
            if !chart.caption.is_empty() {
                let _ = writeln!(out, "<span>{}</span>", escape(&chart.caption));
            }
            let index = charts.len();
            let title = escape(&chart.title);
            let _ = writeln!(
                out,
                "</figcaption>\n<div class=\"plot\" data-chart=\"{index}\" role=\"img\" aria-label=\"{title}\"></div>\n<noscript>"
            );
            table_html(out, &chart.summary());
            out.push_str("</noscript>\n</figure>\n");
            charts.push(chart.data(group));
        }
        out.push_str("</div>\n</div>\n");
    }

    /// Appends the legend, with every name of the group once.
    fn write_legend(&self, out: &mut String) {
        out.push_str("<div class=\"legend\">\n");
        let mut seen: Vec<&str> = Vec::new();
        for series in self.charts.iter().flat_map(|c| &c.series) {
            if seen.contains(&series.name.as_str()) {
                continue;
            }
            seen.push(&series.name);
            let reference = if series.shape == Shape::Reference { " reference" } else { "" };
            let _ = writeln!(
                out,
                "<button type=\"button\" aria-pressed=\"true\" data-series=\"{0}\"><span class=\"swatch{reference}\" \
                 style=\"--swatch:var(--{1})\"></span>{0}</button>",
                escape(&series.name),
                series.colour.name()
            );
        }
        if !self.bands_mean.is_empty() {
            let _ = writeln!(out, "<span class=\"band\"></span><span>{}</span>", escape(&self.bands_mean));
        }
        out.push_str("</div>\n");
    }
}

impl Chart {
    /// The chart in the form for the page's script: columns aligned on all x of all series, null where a series has no point.
    fn data(&self, group: usize) -> Value {
        let log = self.y.scale == AxisScale::Log;
        // Non-negative floats are ordered like their bits; flipping the sign orders the others.
        let key = |x: f64| if x.is_sign_negative() { !x.to_bits() } else { x.to_bits() | 1 << 63 };
        let mut rows: BTreeMap<u64, (f64, Vec<Option<f64>>)> = BTreeMap::new();
        for (i, series) in self.series.iter().enumerate() {
            for &(x, y) in series.points.iter().filter(|(x, _)| x.is_finite()) {
                let row = rows.entry(key(x)).or_insert_with(|| (x, vec![None; self.series.len()]));
                row.1[i] = (y.is_finite() && (!log || y > 0.0)).then_some(y);
            }
        }
        let xs: Vec<f64> = rows.values().map(|r| r.0).collect();
        let ys = (0..self.series.len()).map(|i| rows.values().map(|r| r.1[i]).collect::<Vec<_>>());
        let columns: Vec<Value> = std::iter::once(json!(xs)).chain(ys.map(|y| json!(y))).collect();
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|s| json!({ "name": s.name, "colour": s.colour, "shape": s.shape }))
            .collect();
        let axis = |a: &Axis| json!({ "label": a.label, "unit": a.unit, "scale": a.scale, "range": a.range });
        json!({
            "group": group,
            "x": axis(&self.x),
            "y": axis(&self.y),
            "series": series,
            "bands": self.bands,
            "columns": columns,
        })
    }

    /// The chart as a table, for readers without JavaScript.
    fn summary(&self) -> Table {
        let mut table = Table::new("").columns([
            Column::left(self.y.label.as_str()),
            Column::right("least"),
            Column::right("median"),
            Column::right("most"),
        ]);
        for series in &self.series {
            let ys: Vec<f64> = series.points.iter().map(|p| p.1).filter(|y| y.is_finite()).collect();
            let write = |y: Option<f64>| Cell::plain(human::or_none(y, |y| self.y.unit.write(y)));
            let figures = [stats::min(&ys), stats::median(&ys), stats::max(&ys)].map(write);
            table.row(std::iter::once(Cell::plain(&series.name)).chain(figures));
        }
        table
    }
}

impl AxisUnit {
    /// Formats a value in the base unit for people.
    fn write(self, value: f64) -> String {
        match self {
            AxisUnit::Seconds | AxisUnit::Latency => human::time(value),
            AxisUnit::BitsPerSec => human::rate(value),
            AxisUnit::Bytes => human::bytes(value),
            AxisUnit::Number => format!("{value}"),
        }
    }
}
