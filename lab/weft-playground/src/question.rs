//! A question: the texts, their bounds, and the steps to the answer.

use crate::answer::{Fault, PlaygroundAnswer};
use crate::bounds::{CLASSES_DRAWN_MAX, PACKETS_MAX, TEXT_MAX, TIME_MAX};
use crate::{observe, pifo};
use serde::Deserialize;
use weft_policy::trial::{Trial, Trials};
use weft_policy::{CompileOptions, CompiledPolicy, NoFiles, Source, compile, draw, price};
use weft_text::{LineIndex, ParseError, Position, quoted};
use weft_units::BitsPerSec;

/// A question of the page.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Question {
    /// The text of the policy.
    pub policy: String,
    /// The arrivals, as a test of `weft policy test`.
    pub arrivals: String,
    /// The link's rate in place of the policy's, such as `1gbps`.
    #[serde(default)]
    pub link: Option<String>,
}

/// Answers a question in JSON, as JSON.
pub fn run(question: &str) -> String {
    let answer = match serde_json::from_str::<Question>(question) {
        Ok(question) => answer(&question),
        Err(error) => {
            PlaygroundAnswer { error: Some(format!("not a question: {error}")), ..PlaygroundAnswer::empty() }
        }
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

/// Answers a question.
pub fn answer(question: &Question) -> PlaygroundAnswer {
    let mut found = PlaygroundAnswer::empty();
    for (text, what) in [(&question.policy, "policy"), (&question.arrivals, "arrivals")] {
        if text.len() > TEXT_MAX {
            let message = format!("the text of the {what} has more than {} KiB", TEXT_MAX >> 10);
            return PlaygroundAnswer { error: Some(message), ..found };
        }
    }
    let link = match question.link.as_deref().map(str::trim).filter(|link| !link.is_empty()) {
        None => None,
        Some(link) => match link.parse::<BitsPerSec>() {
            Ok(rate) if rate > BitsPerSec::ZERO => Some(rate),
            _ => {
                let message = format!("{} is not a rate of the link, such as 1gbps", quoted(link));
                return PlaygroundAnswer { error: Some(message), ..found };
            }
        },
    };
    let trial = match trial(&question.arrivals) {
        Ok(trial) => trial,
        Err(error) => {
            found.arrivals_error = Some(fault(error, &question.arrivals));
            Trial::default()
        }
    };
    let Some(policy) = compiled(question, link, &mut found) else { return found };
    if found.arrivals_error.is_none() {
        match observe::outcome(&trial, &policy, &question.policy) {
            Ok(mut outcome) => {
                outcome.pifo = if outcome.cut { None } else { pifo::departures(&trial, &policy) };
                found.run = Some(outcome);
            }
            Err(error) => found.error = Some(error.to_string()),
        }
    }
    found
}

/// Compiles the policy, and notes what is known of it.
fn compiled(
    question: &Question,
    link: Option<BitsPerSec>,
    found: &mut PlaygroundAnswer,
) -> Option<CompiledPolicy> {
    let source = Source { name: "policy", text: &question.policy };
    let options = CompileOptions { link, ..CompileOptions::default() };
    let compilation = compile(source, &options);
    found.diagnostics = compilation.diagnostics.iter().map(weft_policy::Diagnostic::stated).collect();
    let policy = compilation.policy?;
    found.classes = policy.classes.iter().map(|class| class.name.clone()).collect();
    found.link_bps = Some(policy.link.unwrap_or(weft_policy::trial::run::LINK).get());
    found.cost = price(source, &[]).0.map(|cost| cost.to_string());
    if policy.classes.len() <= CLASSES_DRAWN_MAX {
        found.drawing = draw(source, &NoFiles).map(|drawing| drawing.to_svg());
    }
    Some(policy)
}

/// The first test of a text.
fn trial(text: &str) -> Result<Trial, ParseError> {
    let trials: Trials = text.parse()?;
    let trial = trials.cases.into_iter().next().unwrap_or_default();
    // The text is kept by no packet, so an error about one is at the end.
    let wrong = |message: String, help: &str| ParseError::new(text.len()..text.len(), message, help);
    if trial.packets.len() > PACKETS_MAX {
        let message = format!("{} packets, and at most {PACKETS_MAX} are run here", trial.packets.len());
        return Err(wrong(message, "`weft policy test` has no such bound"));
    }
    match trial.packets.iter().find(|packet| packet.at > TIME_MAX) {
        Some(late) => {
            let message = format!("packet {} arrives after {TIME_MAX}", quoted(&late.name));
            Err(wrong(message, "let it arrive earlier"))
        }
        None => Ok(trial),
    }
}

fn fault(error: ParseError, text: &str) -> Fault {
    let Position { line, column } = LineIndex::new(text).position(error.span.start);
    Fault { line, column, message: error.what, help: error.hint }
}
