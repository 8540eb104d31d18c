//! Goals without a policy, such as `isolate hp on 4 queues`: what a clause has behind `steer`. The list of flows says which flow is of
//! which class.

use crate::code::Code;
use crate::compile::Source;
use crate::diagnostic::{Diagnostic, SpannedDiagnostic};
use crate::syntax::{self, SyntaxKind, SyntaxNode};
use crate::{lowering, steering};
use weft_steer::policy::{Classes, PolicyFile, Tally};
use weft_text::{LineIndex, Span, quoted};
use weft_units::RxQueueId;

/// The word before goals, which makes a clause of them.
const CLAUSE: &str = "steer ";
const HELP: &str = "such as `isolate hp on 4 queues`, `balance` or `1 * balance + 0.5 * locality`";

/// Reads goals without a policy. The classes that they name are those of the list of flows.
///
/// # Errors
/// What is wrong, in the order of the places.
pub fn read_goals(source: Source<'_>) -> Result<PolicyFile, Vec<Diagnostic>> {
    let clause = format!("{CLAUSE}{}", source.text);
    let (tree, mut errors) = syntax::parse(&clause);
    let is_other = |item: &SyntaxNode| item.kind() != SyntaxKind::SteerItem;
    if tree.children().next().is_none_or(|first| is_other(&first)) {
        errors = vec![no_goal(&clause, CLAUSE.len())];
    } else if let Some(other) = tree.children().find(is_other).filter(|_| errors.is_empty()) {
        errors = vec![no_goal(&clause, other.text_range().start().into())];
    }
    let (policy, more) = lowering::lower(&tree, &errors, None);
    errors.extend(more);
    match steering::sum(&policy.goals) {
        Some(policy) if errors.is_empty() => Ok(PolicyFile { policy, classes: Classes::default() }),
        _ => {
            errors.sort_by_key(SpannedDiagnostic::place);
            let lines = LineIndex::new(source.text);
            let located = |error: SpannedDiagnostic| error.before(CLAUSE.len()).locate(source.name, &lines);
            Err(errors.into_iter().map(located).collect())
        }
    }
}

/// The diagnostic for what is not a goal, from byte `at` on.
fn no_goal(text: &str, at: usize) -> SpannedDiagnostic {
    let start = text.len() - text[at..].trim_start().len();
    let word = text[start..].split_whitespace().next().unwrap_or_default();
    let found = if word.is_empty() { "the end".to_owned() } else { quoted(word) };
    let span = Span::new(start, start + word.len());
    SpannedDiagnostic::new(Code::Unexpected, span, format!("expected a goal, found {found}"), HELP)
}

/// Reads arbitrary bytes as goals. Terminates with goals that have a name and a cost, or with errors whose places are within the text. A
/// fuzz target.
#[doc(hidden)]
pub fn fuzz_goals(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read_goals(Source { name: "fuzz", text: &text }) {
        Ok(PolicyFile { policy, .. }) => {
            let queues: Vec<RxQueueId> = (0..8).map(RxQueueId).collect();
            let mut tally = Tally::new(queues.clone(), 8);
            tally.intern("hp");
            assert!(!policy.name().is_empty());
            if let Err(problem) = policy.check(&queues) {
                assert!(!problem.to_string().is_empty());
            }
            policy.cost(&tally);
            policy.layout(&tally);
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without an error: {text}");
            for error in errors {
                assert!(text.get(error.span.start..error.span.end).is_some(), "{error:?}");
                assert!(!error.one_line().contains('\n'), "one line: {error:?}");
            }
        }
    }
}
