//! Reproductions as an HTML page: the papers' plots, each with its table.

use super::{Experiment, ReproduceReport, Series, TableCell, tables};
use crate::html::{
    self, Axis, AxisScale, AxisUnit, Chart, ChartGroup, Check, Colour, HtmlPage, PageBlock, Section, Shape,
};
use crate::judgement::Judgement;
use weft_facts::record::Document;

/// The whole page as one HTML file.
pub fn reproduce_html(report: &ReproduceReport) -> String {
    let mut sections =
        vec![Section::new("Summary", [PageBlock::Table(tables::summary(&report.experiments))])];
    sections.extend(report.experiments.iter().map(section));
    HtmlPage {
        title: "Published, simulated, measured".to_owned(),
        subtitle: format!("{}; first seed {}.", ReproduceReport::SCHEMA, report.seed),
        sections,
        data: serde_json::to_value(report).ok(),
    }
    .render()
}

fn section(experiment: &Experiment) -> Section {
    let mut blocks = Vec::new();
    let checks: Vec<Check> = experiment
        .claims
        .iter()
        .map(|claim| Check {
            judgement: Judgement::of(claim.holds),
            name: claim.statement.clone(),
            figure: match &claim.not_shown {
                Some(reason) => format!("{}; cannot be shown here, because {reason}", claim.simulated),
                None => claim.simulated.clone(),
            },
            bound: claim.expected.clone(),
        })
        .collect();
    if !checks.is_empty() {
        blocks.push(PageBlock::Checks(checks));
    }
    let charts: Vec<Chart> = cell_charts(experiment).into_iter().chain(series_charts(experiment)).collect();
    if !charts.is_empty() {
        blocks.push(PageBlock::Charts(ChartGroup { charts, columns: 2, bands_mean: String::new() }));
    }
    blocks.extend(tables::of_experiment(experiment).into_iter().map(PageBlock::Table));
    Section::new(format!("{}: {} ({})", experiment.id, experiment.title, experiment.source), blocks)
}

/// A chart for each column and flow count, with configurations along x in the paper's order: published values, simulated
/// values with their bands, and measured values with their ranges.
fn cell_charts(experiment: &Experiment) -> Vec<Chart> {
    let mut kinds: Vec<(&str, u32)> = Vec::new();
    // A single value has nothing to be compared with; the table and the experiment's own plots show it.
    let compared =
        |cell: &&TableCell| [cell.published, cell.simulated, cell.measured].into_iter().flatten().count() > 1;
    for cell in experiment.cells.iter().filter(compared) {
        if !kinds.contains(&(cell.column.as_str(), cell.flows)) {
            kinds.push((&cell.column, cell.flows));
        }
    }
    kinds.into_iter().map(|(column, flows)| cell_chart(experiment, column, flows)).collect()
}

fn cell_chart(experiment: &Experiment, column: &str, flows: u32) -> Chart {
    let cells: Vec<&TableCell> =
        experiment.cells.iter().filter(|cell| cell.column == column && cell.flows == flows).collect();
    let points = |value: &dyn Fn(&TableCell) -> Option<f64>| -> Vec<(f64, f64)> {
        cells.iter().enumerate().map(|(i, cell)| (i as f64 + 1.0, value(cell).unwrap_or(f64::NAN))).collect()
    };
    let measured = match &experiment.measured_on {
        Some(elsewhere) => format!("measured on {elsewhere}"),
        None => "measured".to_owned(),
    };
    let line =
        |name: &str, colour, shape, points| html::ChartLine { name: name.to_owned(), colour, shape, points };
    let mut series = vec![
        line("published", Colour::Ink, Shape::Points, points(&|cell| cell.published)),
        line("simulated", Colour::Blue, Shape::Points, points(&|cell| cell.simulated)),
        line("band, 5 %", Colour::Sky, Shape::Reference, points(&|cell| cell.band.map(|band| band[0]))),
        line("band, 95 %", Colour::Sky, Shape::Reference, points(&|cell| cell.band.map(|band| band[1]))),
        line(&measured, Colour::Orange, Shape::Points, points(&|cell| cell.measured)),
        line(
            "measured, least",
            Colour::Vermillion,
            Shape::Reference,
            points(&|cell| cell.measured_spread.map(|s| s[0])),
        ),
        line(
            "measured, greatest",
            Colour::Vermillion,
            Shape::Reference,
            points(&|cell| cell.measured_spread.map(|s| s[1])),
        ),
    ];
    series.retain(|line| line.points.iter().any(|(_, y)| y.is_finite()));
    let unit = cells.first().map_or("", |cell| cell.unit.as_str());
    let names: Vec<String> =
        cells.iter().enumerate().map(|(i, cell)| format!("{} {}", i + 1, cell.row)).collect();
    Chart {
        title: format!("{column}, {flows} flows"),
        caption: names.join(", "),
        x: axis("configuration", None),
        y: axis(&format!("{column} ({unit})"), None),
        series,
        bands: Vec::new(),
    }
}

fn axis(label: &str, range: Option<(f64, f64)>) -> Axis {
    Axis { label: label.to_owned(), unit: AxisUnit::Number, scale: AxisScale::Linear, range }
}

/// A chart for each plot of the experiment's series.
fn series_charts(experiment: &Experiment) -> Vec<Chart> {
    let mut plots: Vec<&str> = Vec::new();
    for series in &experiment.series {
        if !plots.contains(&series.plot.as_str()) {
            plots.push(&series.plot);
        }
    }
    plots.into_iter().map(|plot| series_chart(experiment, plot)).collect()
}

fn series_chart(experiment: &Experiment, plot: &str) -> Chart {
    let lines: Vec<&Series> = experiment.series.iter().filter(|series| series.plot == plot).collect();
    let label = |pick: fn(&Series) -> &str| lines.first().map_or("", |series| pick(series)).to_owned();
    let shape = |kind: &str| match kind {
        "step" => Shape::Step,
        "points" => Shape::Points,
        "reference" => Shape::Reference,
        _ => Shape::Line,
    };
    let series = lines.iter().enumerate().map(|(i, series)| html::ChartLine {
        name: series.name.clone(),
        colour: Colour::nth(i),
        shape: shape(&series.kind),
        points: series.x.iter().copied().zip(series.y.iter().copied()).collect(),
    });
    Chart {
        title: plot.to_owned(),
        caption: String::new(),
        x: axis(&label(|series| &series.x_label), None),
        y: axis(&label(|series| &series.y_label), None),
        series: series.collect(),
        bands: Vec::new(),
    }
}
