//! Lowering of steering clauses, from the tree to goals.

use super::items::Lowering;
use super::model::{Aim, Goal, Spanned};
use super::nodes::{first_word, head_span, name_of, span_of, spanned_text, token_of};
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use crate::syntax::{SyntaxKind, SyntaxNode};
use std::collections::{BTreeMap, BTreeSet};
use weft_steer::policy::{Expression, Measure};
use weft_text::quoted;
use weft_units::RxQueueId;

impl Lowering<'_> {
    /// `steer GOAL + GOAL`
    pub(super) fn steer(&mut self, item: &SyntaxNode) {
        for part in item.children().filter(|part| part.kind() == SyntaxKind::GoalPart) {
            let span = span_of(part.text_range());
            // The parser has reported a goal that it could not read.
            if self.broken.within(span) {
                continue;
            }
            let factor = self.factor(&part);
            if let (Some(factor), Some(aim)) = (factor, self.aim(&part)) {
                self.policy.goals.push(Goal { factor, aim, span });
            }
        }
    }

    fn factor(&mut self, part: &SyntaxNode) -> Option<f64> {
        if token(part, SyntaxKind::Operator).is_none() {
            return Some(1.0);
        }
        let text = values(part).next()?;
        let plain = text.value.chars().all(|c| c.is_ascii_digit() || c == '.');
        let factor = text.value.parse::<f64>().ok().filter(|factor| plain && factor.is_finite());
        if factor.is_none() {
            let message = format!("{} is not a factor", quoted(&text.value));
            self.find(Code::BadGoal, text.span, message, "such as `steer 0.5 * locality`");
        }
        factor
    }

    fn aim(&mut self, part: &SyntaxNode) -> Option<Aim> {
        let word = first_word(part)?;
        Some(match word.text() {
            "balance" => Aim::Balance(match token_is(part, "rate") {
                true => Measure::Rate,
                false => Measure::Weight,
            }),
            "isolate" => {
                let class = name_of(part, SyntaxKind::NameRef)?;
                let help = "such as `steer isolate kvs on 4 queues`";
                let queues = values(part).last()?;
                Aim::Isolate { class, queues: self.number(&queues, 1, "a number of queues", help)? }
            }
            "priority" => {
                let class = name_of(part, SyntaxKind::NameRef)?;
                let help = "such as `steer priority kvs by 8 flows`: as many flows share a queue";
                let flows = values(part).last()?;
                Aim::Priority { class, flows: self.number(&flows, 1, "a number of flows", help)? }
            }
            "static" => Aim::Static(self.queues_of_classes(part)),
            "locality" => Aim::Locality(self.queues_of_processors(part)),
            "expression" => Aim::Formula(self.formula(part)?),
            _ => return None,
        })
    }

    /// A number of at least `least`.
    fn number(&mut self, text: &Spanned<String>, least: u32, what: &str, help: &str) -> Option<u32> {
        let number = text.value.parse::<u32>().ok().filter(|number| *number >= least);
        if number.is_none() {
            let message = format!("{} is not {what}", quoted(&text.value));
            self.find(Code::BadGoal, text.span, message, help);
        }
        number
    }

    /// `{ NAME: QUEUES, ... }`
    fn queues_of_classes(&mut self, part: &SyntaxNode) -> Vec<(Spanned<String>, RxQueueId, RxQueueId)> {
        const HELP: &str = "such as `steer static { kvs: 0..3, web: 4 }`: queues count from 0, and both ends belong to a range";
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for item in self.entries(part, "the clause names no class", HELP) {
            let (name, text) = (name_of(&item, SyntaxKind::NameRef), values(&item).next());
            let (Some(name), Some(text)) = (name, text) else { continue };
            let (first, last) = text.value.split_once("..").unwrap_or((&text.value, &text.value));
            match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last => {
                    if !seen.insert(name.value.clone()) {
                        let message = format!("{} has queues already", quoted(&name.value));
                        self.find(Code::StatedTwice, name.span, message, "give each class one range");
                    }
                    found.push((name, RxQueueId(first), RxQueueId(last)));
                }
                (Ok(first), Ok(last)) => {
                    let message = format!("the queues {first}..{last} go backwards");
                    self.find(Code::BadGoal, text.span, message, format!("write {last}..{first}"));
                }
                _ => {
                    let message = format!("{} is not a queue or a range of queues", quoted(&text.value));
                    self.find(Code::BadGoal, text.span, message, HELP);
                }
            }
        }
        found
    }

    /// Nothing, or `{ PROCESSOR: QUEUE, ... }`
    fn queues_of_processors(&mut self, part: &SyntaxNode) -> BTreeMap<u32, RxQueueId> {
        const HELP: &str = "such as `steer locality { 0: 4, 1: 5 }`";
        let mut queues = BTreeMap::new();
        if token(part, SyntaxKind::OpenBrace).is_none() {
            return queues;
        }
        for item in self.entries(part, "the clause names no processor", HELP) {
            let mut texts = values(&item);
            let (Some(core), Some(queue)) = (texts.next(), texts.next()) else { continue };
            let number = self.number(&core, 0, "the number of a processor", HELP);
            let Some((number, of)) = number.zip(self.number(&queue, 0, "the number of a queue", HELP)) else {
                continue;
            };
            if queues.insert(number, RxQueueId(of)).is_some() {
                let message = format!("processor {number} has a queue already");
                self.find(Code::StatedTwice, core.span, message, "give each processor one queue");
            }
        }
        queues
    }

    /// The entries in braces; none are reported.
    fn entries(&mut self, part: &SyntaxNode, none: &str, help: &str) -> Vec<SyntaxNode> {
        let entries: Vec<SyntaxNode> =
            part.children().filter(|item| item.kind() == SyntaxKind::QueueItem).collect();
        if entries.is_empty() {
            self.find(Code::NoChildren, head_span(part), none, help);
        }
        entries
    }

    /// The formula in quotes.
    fn formula(&mut self, part: &SyntaxNode) -> Option<Spanned<Expression>> {
        let quotes = token(part, SyntaxKind::Text)?;
        let span = span_of(quotes.text_range());
        let text = quotes.text().trim_matches('"');
        let read = Expression::read(text).map_err(|error| {
            let error = error.behind(span.start + 1);
            Box::new(SpannedDiagnostic::new(Code::BadGoal, error.span, error.what, error.hint))
        });
        Some(Spanned { value: self.keep(read)?, span })
    }
}

/// The numbers of a goal or of an entry, in order.
fn values(part: &SyntaxNode) -> impl Iterator<Item = Spanned<String>> {
    part.children().filter(|child| child.kind() == SyntaxKind::Value).map(|value| spanned_text(&value))
}

fn token(part: &SyntaxNode, kind: SyntaxKind) -> Option<crate::syntax::SyntaxToken> {
    token_of(part, kind)
}

fn token_is(part: &SyntaxNode, word: &str) -> bool {
    let mut tokens = part.children_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    tokens.any(|token| token.text() == word)
}
