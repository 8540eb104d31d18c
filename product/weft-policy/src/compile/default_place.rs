//! The warning that `default`, which the compiler has placed, is beside limits at the beginning of the root.
//!
//! A limit for all packets below it limits `default`, too ([`crate::program::place_default`]). Limits for some destinations or ports
//! may be meant for the listed classes alone, so `default` stays outside, and the warning has the text that puts it inside.

use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::disciplines::Native;
use crate::lowering::model::{Condition, Policy};
use crate::program::limits_all;
use crate::syntax;
use crate::validate::build::DEFAULT;
use crate::validate::graph::{Graph, Kind};
use rowan::TextSize;
use weft_packet::Match;
use weft_text::Span;

/// The warning, if there is reason for one: packets that no class takes pass limits of destinations or ports at the top of the tree.
pub(super) fn outside(policy: &Policy, graph: &Graph, text: &str) -> Option<SpannedDiagnostic> {
    let any = Condition::Row(Match::default());
    if policy.classes.iter().any(|class| class.condition.as_ref() == Some(&any)) {
        return None;
    }
    let mut at = graph.root?;
    let limit = loop {
        let node = &graph.nodes[at];
        match (&node.kind, &node.children[..]) {
            (Kind::Limit(branches), [_]) if !limits_all(branches) => break node,
            (Kind::Limit(_) | Kind::Native(Native::Fifo) | Kind::Algorithm(_), [only]) => at = only.to,
            // The node that the compiler has added for `default`.
            (Kind::Native(Native::Priority), [first, last]) if !node.named && last.to == graph.classes => {
                at = first.to;
            }
            _ => return None,
        }
    };
    let inner = whole(text, limit.children.first()?.span)?;
    let written = text.get(inner.start..inner.end)?;
    let message =
        format!("the limits hold for the listed classes, and not for `{DEFAULT}`, which is beside them");
    let help = "place `default` below them, or as a child of `root` to keep it outside: `root = priority { limited, default }`";
    let edit = Edit::replace(inner, format!("priority {{ {written}, {DEFAULT} }}"));
    Some(SpannedDiagnostic::new(Code::DefaultOutside, inner, message, help).fix(edit))
}

/// The whole expression that begins at a place.
fn whole(text: &str, begin: Span) -> Option<Span> {
    let (tree, _) = syntax::parse(text);
    let start = TextSize::try_from(begin.start).ok()?;
    let token = tree.token_at_offset(start).right_biased()?;
    let begins = |node: &syntax::SyntaxNode| node.text_range().start() == start;
    let node = token.parent_ancestors().take_while(begins).last()?;
    let end = usize::from(node.text_range().end());
    let end = text.get(begin.start..end)?.trim_end().len() + begin.start;
    Some(Span::new(begin.start, end))
}
