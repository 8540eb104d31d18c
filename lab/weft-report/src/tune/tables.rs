//! The document as tables.

use super::{Candidate, Conclusion, Figures, TuneReport, Wish, values};
use crate::profile::Effect;
use weft_facts::human;
use weft_facts::stats;
use weft_facts::table::{Cell, Column, Table, Tone};

/// The tables: facts, candidates, real traffic, commands, verdict.
pub(super) fn of(report: &TuneReport) -> Vec<Table> {
    let mut tables = vec![facts(report)];
    if report.candidates.iter().any(|one| !one.ranking.is_empty()) {
        tables.push(candidates(report));
    }
    if report.candidates.iter().any(|one| one.tried.is_some()) {
        tables.push(tried(report));
    }
    let commands = commands(report);
    if !commands.is_empty() {
        tables.push(commands);
    }
    tables.push(verdict(report));
    tables
}

fn facts(report: &TuneReport) -> Table {
    let mut table = Table::new(format!("Settings of {} and of the stack above it", report.device))
        .columns([Column::left("fact"), Column::left("value")]);
    for fact in &report.facts {
        let value = match &fact.value {
            Some(value) => Cell::plain(value.clone()),
            None => Cell::toned("unknown", Tone::Dim),
        };
        table.row([Cell::plain(fact.name.clone()), value]);
    }
    report.assumed.iter().for_each(|one| table.note(format!("assumed: {one}")));
    table
}

/// A figure's mean with half of its 95 % interval.
fn spread(wish: Wish, runs: &[Figures]) -> String {
    let runs = values(wish, runs);
    let half = stats::mean_half_width(&runs).map(|half| format!(" +- {}", wish.write(half)));
    human::or_none(stats::mean(&runs), |mean| wish.write(mean) + &half.unwrap_or_default())
}

/// The wish first, then the other figures.
fn columns(wish: Wish) -> impl Iterator<Item = Wish> {
    [wish].into_iter().chain(Wish::ALL.into_iter().filter(move |one| *one != wish))
}

/// The difference to the present setting, in words.
fn against(wish: Wish, effect: Option<&Effect>) -> Cell {
    let Some(effect) = effect else { return Cell::plain(human::NONE) };
    let gain = wish.gain(effect.with, effect.without);
    let matters = gain.abs() >= wish.matters(effect.without);
    match effect.is_shown() && matters {
        true if gain > 0.0 => Cell::toned("better", Tone::Good),
        true => Cell::toned("worse", Tone::Bad),
        false => Cell::toned("no difference shown", Tone::Dim),
    }
}

fn candidates(report: &TuneReport) -> Table {
    let heads = columns(report.wish).map(|wish| Column::right(wish.head()));
    let title = format!("Candidates for {}, simulated with {} seeds", report.wish.name(), report.seeds);
    let mut table = Table::new(title).columns(
        [Column::left("setting")].into_iter().chain(heads).chain([Column::left("against the present")]),
    );
    for one in report.candidates.iter().filter(|one| !one.ranking.is_empty()) {
        let figures = columns(report.wish).map(|wish| Cell::plain(spread(wish, &one.ranking)));
        let against = match one.present {
            true => Cell::plain("the present setting"),
            false if report.is_dear(one) => Cell::toned("costs throughput", Tone::Bad),
            false => against(report.wish, one.effect.as_ref()),
        };
        table.row([Cell::plain(one.name.clone())].into_iter().chain(figures).chain([against]));
    }
    for (reason, names) in reasons(&report.candidates, |one| one.not_simulated.as_deref()) {
        table.note(format!("n/a: {reason} ({})", names.join(", ")));
    }
    table.note(format!("Costs of the processors' work: {}.", report.costs));
    report.labels.iter().for_each(|label| table.note(label));
    table
}

fn tried(report: &TuneReport) -> Table {
    let heads = columns(report.wish).map(|wish| Column::right(wish.head()));
    let place = report.tried_at.as_deref().unwrap_or("namespaces");
    let title = format!("Tried with real traffic ({place}), simulated | measured");
    let mut table = Table::new(title)
        .columns([Column::left("setting")].into_iter().chain(heads).chain([Column::left("measured")]));
    let null = report.present().and_then(|present| present.tried.as_ref());
    for one in &report.candidates {
        let Some(tried) = one.tried.as_ref().filter(|tried| tried.not_tried.is_none()) else { continue };
        let figures = columns(report.wish).map(|wish| {
            Cell::plain(format!("{} | {}", spread(wish, &tried.simulated), spread(wish, &tried.measured)))
        });
        let effect = null.filter(|_| !one.present).map(|null| {
            Effect::of(&values(report.wish, &null.measured), &values(report.wish, &tried.measured))
        });
        let against = match one.present {
            true => Cell::plain("the present setting"),
            false => against(report.wish, effect.as_ref()),
        };
        table.row([Cell::plain(one.name.clone())].into_iter().chain(figures).chain([against]));
    }
    let why = |one: &'_ Candidate| one.tried.as_ref().and_then(|tried| tried.not_tried.clone());
    let texts: Vec<(String, &str)> =
        report.candidates.iter().filter_map(|one| Some((why(one)?, one.name.as_str()))).collect();
    for (reason, name) in &texts {
        table.note(format!("not tried: {name}: {reason}"));
    }
    table
}

/// Reasons, each with the names of its candidates, in their order.
fn reasons<'a>(
    candidates: &'a [Candidate],
    reason: impl Fn(&'a Candidate) -> Option<&'a str>,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in candidates {
        let Some(why) = reason(one) else { continue };
        match all.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&one.name),
            None => all.push((why, vec![&one.name])),
        }
    }
    all
}

/// The commands of the candidates that are better, and of the one that is advised.
fn commands(report: &TuneReport) -> Table {
    let mut table = Table::new("Commands that set them").columns([
        Column::left("setting"),
        Column::left("command"),
        Column::left("reason"),
    ]);
    let is_better = |one: &&Candidate| {
        let advised = report.verdict.candidate.as_deref() == Some(&one.name);
        advised || against(report.wish, one.effect.as_ref()).text == "better" && !report.is_dear(one)
    };
    for one in report.ranked().filter(is_better) {
        for (i, command) in one.commands.iter().enumerate() {
            let (name, source) = if i == 0 { (one.name.as_str(), one.source.as_str()) } else { ("", "") };
            table.row([name, command.as_str(), source]);
        }
    }
    table
}

fn verdict(report: &TuneReport) -> Table {
    let verdict = &report.verdict;
    let mut table = Table::new("").columns([Column::left("verdict"), Column::left("because")]);
    let word = match (verdict.conclusion, &verdict.candidate) {
        (Conclusion::Advice, Some(name)) => Cell::toned(format!("set {name}"), Tone::Good),
        (Conclusion::Advice, None) => Cell::plain("advice"),
        (Conclusion::NothingBetter, _) => Cell::plain("nothing better"),
        (Conclusion::DoesNotKnow, _) => Cell::toned("does not know", Tone::Bad),
    };
    table.row([word, Cell::plain(verdict.because.clone())]);
    report.unknown.iter().for_each(|one| table.note(format!("unknown: {one}")));
    verdict.price.iter().for_each(|price| table.note(format!("its price: {price}")));
    table
}
