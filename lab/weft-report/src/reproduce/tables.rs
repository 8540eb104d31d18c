//! Reproductions as text tables.

use super::{Experiment, TableCell, Verdict};
use crate::judgement::Judgement;
use weft_facts::human;
use weft_facts::table::{Cell, Column, Table, Tone};

/// All tables of an experiment.
pub(super) fn of_experiment(experiment: &Experiment) -> Vec<Table> {
    let mut flows: Vec<u32> = experiment.cells.iter().map(|cell| cell.flows).collect();
    flows.sort_unstable();
    flows.dedup();
    let mut tables: Vec<Table> = flows.into_iter().flat_map(|flows| of_flows(experiment, flows)).collect();
    if !experiment.scores.is_empty() && experiment.scores.iter().any(|score| score.cells > 0) {
        tables.push(scores_table(experiment));
    }
    if !experiment.claims.is_empty() {
        tables.push(claims_table(experiment));
    }
    if let Some(last) = tables.last_mut() {
        for note in &experiment.notes {
            last.note(note);
        }
    }
    tables
}

/// The tables of a flow count: the paper's columns, and separately the columns that only measurements have.
fn of_flows(experiment: &Experiment, flows: u32) -> Vec<Table> {
    let here = || experiment.cells.iter().filter(move |cell| cell.flows == flows);
    let compared = |cell: &&TableCell| cell.published.is_some() || cell.simulated.is_some();
    let paper: Vec<&str> = here().filter(compared).map(|cell| cell.column.as_str()).collect();
    let (paper, more): (Vec<&TableCell>, Vec<&TableCell>) =
        here().partition(|cell| paper.contains(&cell.column.as_str()));
    let parts = [paper, more].into_iter().filter(|cells| !cells.is_empty());
    parts.map(|cells| cells_table(experiment, flows, &cells)).collect()
}

/// Rows and columns as in the paper. A cell is `published | simulated [band]`, with `| measured` and the range of its runs if
/// measured.
fn cells_table(experiment: &Experiment, flows: u32, cells: &[&TableCell]) -> Table {
    let here = || cells.iter().copied();
    let (mut rows, mut columns): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for cell in here() {
        push_new(&mut rows, &cell.row);
        push_new(&mut columns, &cell.column);
    }
    let spread = here().any(|cell| cell.measured_spread.is_some());
    let measured = match (here().any(|cell| cell.measured.is_some()), &experiment.measured_on) {
        (false, _) => String::new(),
        (true, Some(elsewhere)) => format!(" | measured on {elsewhere}"),
        (true, None) => format!(" | measured{}", if spread { " [least greatest]" } else { "" }),
    };
    let title =
        format!("{}: {} ({flows}); published | simulated [band]{measured}", experiment.id, experiment.title);
    let heads =
        std::iter::once(Column::left("row")).chain(columns.iter().map(|column| Column::right(*column)));
    let mut table = Table::new(title).columns(heads);
    for row in rows {
        let mut cells = vec![Cell::plain(row)];
        for column in &columns {
            let found = here().find(|cell| cell.row == row && cell.column == *column);
            cells.push(found.map_or_else(|| Cell::plain(human::NONE), shown));
        }
        table.row(cells);
    }
    for cell in here() {
        if let Some(note) = &cell.note {
            table.note(format!("{}, {}: {note}", cell.row, cell.column));
        }
    }
    table
}

fn push_new<'a>(list: &mut Vec<&'a str>, name: &'a str) {
    if !list.contains(&name) {
        list.push(name);
    }
}

/// A value with its significant digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A cell's values. Small times have a unit, since two decimals of a second would be zero.
fn writer(cell: &TableCell) -> fn(f64) -> String {
    let greatest = [cell.published, cell.simulated, cell.measured].into_iter().flatten().fold(0.0, f64::max);
    if cell.unit == "s" && cell.simulated.is_none() && greatest < 100.0 { human::time } else { number }
}

fn shown(cell: &TableCell) -> Cell {
    let number = writer(cell);
    let value = |value: Option<f64>| human::or_none(value, number);
    let mark = match cell.verdict {
        Verdict::InsideBand => "=",
        Verdict::Within => "~",
        Verdict::Off => "x",
        Verdict::NotComparable => " ",
    };
    let range = |range: Option<[f64; 2]>| {
        range.map_or_else(String::new, |[low, high]| format!(" [{} {}]", number(low), number(high)))
    };
    let (band, spread) = (range(cell.band), range(cell.measured_spread));
    let measured =
        cell.measured.map_or_else(String::new, |measured| format!(" | {}{spread}", number(measured)));
    let text = format!("{} | {}{band}{measured} {mark}", value(cell.published), value(cell.simulated));
    match cell.verdict {
        Verdict::InsideBand => Cell::toned(text, Tone::Good),
        Verdict::Off => Cell::toned(text, Tone::Bad),
        _ => Cell::plain(text),
    }
}

fn scores_table(experiment: &Experiment) -> Table {
    let mut table = Table::new(format!("{}: scores", experiment.id)).columns([
        Column::left("column"),
        Column::right("cells"),
        Column::right("Kendall's tau"),
        Column::right("tau, distinguishable pairs"),
        Column::right("in band"),
        Column::right("in band or within 25 %"),
        Column::right("median error"),
    ]);
    for score in &experiment.scores {
        let share = |count: usize| human::percent(count as f64 / score.cells.max(1) as f64);
        table.row([
            Cell::plain(&score.column),
            Cell::plain(score.cells.to_string()),
            Cell::plain(human::or_none(score.tau, number)),
            Cell::plain(match score.tau_distinguishable {
                Some(tau) => format!("{tau:.2} of {}", score.pairs_distinguishable),
                None => human::NONE.to_owned(),
            }),
            Cell::plain(share(score.inside_band)),
            Cell::plain(share(score.close)),
            Cell::plain(human::or_none(score.median_relative_error, human::percent)),
        ]);
    }
    table.note("= published value inside the 5-95 % band of a mean of the paper's number of runs, ~ within 25 %, x neither");
    table
}

fn claims_table(experiment: &Experiment) -> Table {
    let mut table = Table::new(format!("{}: {}", experiment.id, experiment.title)).columns([
        Column::left(""),
        Column::left("the paper says"),
        Column::left("expected"),
        Column::left("seen"),
    ]);
    for claim in &experiment.claims {
        table.row([
            match claim.judgement() {
                Judgement::Holds => Cell::toned("ok", Tone::Good),
                Judgement::Fails => Cell::toned("NO", Tone::Bad),
                Judgement::NotShown(_) => Cell::plain("?"),
            },
            Cell::plain(&claim.statement),
            Cell::plain(&claim.expected),
            Cell::plain(&claim.simulated),
        ]);
    }
    for claim in &experiment.claims {
        if let Judgement::NotShown(reason) = claim.judgement() {
            table.note(format!("? {}: cannot be shown here, because {reason}", claim.statement));
        }
    }
    table
}

/// A summary with one line per experiment.
pub(super) fn summary(experiments: &[Experiment]) -> Table {
    let mut table = Table::new("Summary").columns([
        Column::left("experiment"),
        Column::right("cells"),
        Column::right("in band or within 25 %"),
        Column::right("mean tau"),
        Column::right("median error"),
        Column::right("claims that hold"),
        Column::right("events"),
        Column::right("took"),
    ]);
    for experiment in experiments {
        let cells: usize = experiment.scores.iter().map(|score| score.cells).sum();
        let close: usize = experiment.scores.iter().map(|score| score.close).sum();
        let taus: Vec<f64> = experiment.tau.values().flatten().copied().collect();
        let held = experiment.claims.iter().filter(|claim| claim.holds).count();
        let of = |some: bool, text: String| if some { text } else { human::NONE.to_owned() };
        table.row([
            Cell::plain(&experiment.id),
            Cell::plain(of(cells > 0, cells.to_string())),
            Cell::plain(of(
                cells > 0,
                format!("{close} ({})", human::percent(close as f64 / cells.max(1) as f64)),
            )),
            Cell::plain(human::or_none(weft_facts::stats::mean(&taus), number)),
            Cell::plain(human::or_none(experiment.median_relative_error, human::percent)),
            Cell::plain(of(!experiment.claims.is_empty(), format!("{held} of {}", experiment.claims.len()))),
            Cell::plain(human::count(experiment.events)),
            Cell::plain(human::time(experiment.wall_s)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::of_experiment;
    use crate::reproduce::{Experiment, TableCell};

    fn cell(column: &str, published: Option<f64>, runs: &[f64]) -> TableCell {
        let mut cell =
            TableCell { row: "T3".to_owned(), column: column.to_owned(), published, ..Default::default() };
        cell.take_measured(runs.to_vec());
        cell
    }

    #[test]
    fn what_only_measurements_have_stands_apart_with_its_spread() {
        let mut experiment = Experiment::new("a", "b", "c");
        experiment.cells =
            vec![cell("nfm", Some(0.5), &[0.25, 0.75]), cell("retransmitted", None, &[7.0, 9.0])];
        let tables: Vec<String> =
            of_experiment(&experiment).iter().map(|table| table.render(false)).collect();
        assert_eq!(tables.len(), 2, "{tables:#?}");
        assert!(
            tables[0].contains("0.50 | - | 0.50 [0.25 0.75]") && !tables[0].contains("retransmitted"),
            "{}",
            tables[0]
        );
        assert!(tables[1].contains("8.00 [7.00 9.00]") && !tables[1].contains("nfm"), "{}", tables[1]);
        // Without published or simulated values, there is one table.
        experiment.cells.remove(0);
        assert_eq!(of_experiment(&experiment).len(), 1);
    }
}
