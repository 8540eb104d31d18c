//! The grammar of steering clauses: which receive queues the flows of classes should have.
//!
//! Their words are not reserved. `steer` begins a clause if it begins a line and a goal, or a factor and `*`, follows on that line, which
//! nothing else in a policy does.

use super::grammar::braces;
use super::kind::SyntaxKind::*;
use super::mistakes;
use super::parser::{Parsed, Parser};
use weft_text::nearest;

/// The word that begins a clause.
pub(super) const STEER: &str = "steer";
/// The words of goals.
pub(crate) const GOALS: [&str; 6] = ["balance", "isolate", "priority", "static", "locality", "expression"];

const HELP: &str = "a goal is `balance`, `isolate NAME on 4 queues`, `priority NAME by 8 flows`, `static { NAME: 0..3 }`, \
                    `locality` or `expression \"FORMULA\"`";
const ISOLATE: &str = "such as `steer isolate kvs on 4 queues`";
const PRIORITY: &str = "such as `steer priority kvs by 8 flows`";
const STATIC: &str = "such as `steer static { kvs: 0..3, web: 4 }`";
const LOCALITY: &str = "such as `steer locality { 0: 4, 1: 5 }`: processors and their queues";

/// Whether the rest of the line behind `steer` begins a goal.
pub(super) fn goal_follows(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let number = first.starts_with(|c: char| c.is_ascii_digit());
    line.starts_with([' ', '\t'])
        && match first {
            "priority" => second.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'),
            _ if number => second.starts_with('*') || first.contains('*'),
            _ => GOALS.contains(&first) && second != "=",
        }
}

/// Whether a clause begins at the cursor, right or with a misspelt goal.
pub(super) fn at_steer(p: &Parser<'_>) -> bool {
    let misspelt = p.at_line_start()
        && p.at_word(STEER)
        && p.kind_at(1) == Some(Word)
        && !p.line_start(1)
        && !mistakes::begins_node(p, 1)
        && !p.knows_algorithm(STEER);
    p.at_steer() || misspelt
}

/// `steer = "steer" goal { "+" goal }`
pub(super) fn steer(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    goals(p)
}

/// `goal { "+" goal }`
pub(super) fn goals(p: &mut Parser<'_>) -> Parsed {
    p.node(GoalPart, goal)?;
    while p.at_operator_text("+") {
        p.bump();
        p.node(GoalPart, goal)?;
    }
    Ok(())
}

/// `goal = [ FACTOR "*" ] ( balance | isolate | elastic | static | locality | "expression" TEXT )`
fn goal(p: &mut Parser<'_>) -> Parsed {
    if p.number_at(0) {
        number(p, "a factor", "such as `steer 0.5 * locality`")?;
        if !p.at_operator_text("*") {
            return p.unexpected("`*`", "a factor precedes its goal, such as `0.5 * locality`");
        }
        p.bump();
    }
    if !(p.at(Word) && GOALS.contains(&p.text())) {
        match nearest(p.text(), GOALS, &[]) {
            Some(meant) if p.at(Word) && !p.at_line_start() => p.correct("a goal", meant, HELP),
            _ => return p.unexpected("a goal", HELP),
        }
    }
    let goal = p.text();
    p.bump();
    match goal {
        "balance" => balance(p),
        "isolate" => {
            p.name(NameRef, "the name of a class")?;
            mistakes::word(p, "on", ISOLATE)?;
            number(p, "a number of queues", ISOLATE)?;
            if p.eat_word("queue") { Ok(()) } else { mistakes::word(p, "queues", ISOLATE) }
        }
        "priority" => {
            p.name(NameRef, "the name of a class")?;
            mistakes::word(p, "by", PRIORITY)?;
            number(p, "a number of flows", PRIORITY)?;
            if p.eat_word("flow") { Ok(()) } else { mistakes::word(p, "flows", PRIORITY) }
        }
        "static" => braces(p, QueueItem, queues),
        "locality" if p.at(OpenBrace) => braces(p, QueueItem, processor),
        "locality" => Ok(()),
        _ => mistakes::in_quotes(p, "a formula in quotes", "such as `steer expression \"variance(load)\"`"),
    }
}

/// `balance = "balance" [ "by" ( "rate" | "weight" ) ]`, behind its first word
fn balance(p: &mut Parser<'_>) -> Parsed {
    if !p.eat_word("by") {
        return Ok(());
    }
    const MEASURES: [&str; 2] = ["rate", "weight"];
    if !(p.at(Word) && MEASURES.contains(&p.text())) {
        const HELP: &str = "`balance` counts flows by their weights, `balance by rate` their rates";
        match nearest(p.text(), MEASURES, &[]) {
            Some(meant) if p.at(Word) && !p.at_line_start() => p.correct("`rate` or `weight`", meant, HELP),
            _ => return p.unexpected("`rate` or `weight`", HELP),
        }
    }
    p.bump();
    Ok(())
}

/// `queues = NAME ":" QUEUE [ ".." QUEUE ]`
fn queues(p: &mut Parser<'_>) -> Parsed {
    p.name(NameRef, "the name of a class")?;
    if !mistakes::colon(p, "its queues") {
        return p.unexpected("`:`", STATIC);
    }
    let start = p.span().start;
    number(p, "its queues", STATIC)?;
    mistakes::range_apart(p, start);
    Ok(())
}

/// `processor = NUMBER ":" NUMBER`
fn processor(p: &mut Parser<'_>) -> Parsed {
    number(p, "the number of a processor", LOCALITY)?;
    if !mistakes::colon(p, "its queue") {
        return p.unexpected("`:`", LOCALITY);
    }
    number(p, "the number of a queue", LOCALITY)
}

/// A number or a range of numbers, in one word. A colon is no part of it.
fn number(p: &mut Parser<'_>, what: &str, help: &str) -> Parsed {
    if !p.number_at(0) || p.at_item() {
        return p.unexpected(what, help);
    }
    p.node(Value, |p| {
        p.bump();
        Ok(())
    })
}
