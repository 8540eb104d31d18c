//! The promises of a policy that a place of execution keeps: each statement of the policy is a promise, which the place keeps, keeps within a
//! bound, or does not keep. A place that cannot run a policy at all has a [`Refusal`].
//!
//! The compiler depends on no place. A place reports what it can do from the facts that it uses itself, and [`refused_with`] finds the
//! statement in the text that requires more.

use crate::code::Code;
use crate::compile::{CompileOptions, Source, checked_with};
use crate::cost;
use crate::diagnostic::{Diagnostic, SpannedDiagnostic};
use crate::files::TenantFiles;
use crate::validate::graph::{Graph, Kind};
use weft_text::Span;

/// The promise of the match table.
pub const CLASSES: &str = "packets are in their classes";
/// The promise of the tree.
pub const ORDER: &str = "classes share the link as the tree says";
/// The promise of limits.
pub const LIMITS: &str = "limits hold";

/// The extent to which a place keeps a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// As the policy says.
    Yes,
    /// Within a bound, or under a condition.
    Within,
    /// Not at all.
    No,
}

impl Kept {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Within => "within",
            Self::No => "no",
        }
    }
}

/// A promise of a policy at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// The statement, such as `limits hold`.
    pub promise: String,
    /// The extent to which it is kept.
    pub kept: Kept,
    /// The bound, the condition or the reason, unless it is kept.
    pub within: Option<String>,
    /// The remedy, where one is known.
    pub instead: Option<String>,
}

impl Promise {
    /// A promise that is kept.
    pub fn kept(promise: impl Into<String>) -> Self {
        Self { promise: promise.into(), kept: Kept::Yes, within: None, instead: None }
    }

    /// A promise that is kept within a bound.
    pub fn within(promise: impl Into<String>, bound: impl Into<String>) -> Self {
        Self { kept: Kept::Within, within: Some(bound.into()), ..Self::kept(promise) }
    }

    /// A promise that is not kept, for this reason.
    pub fn broken(promise: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { kept: Kept::No, within: Some(reason.into()), ..Self::kept(promise) }
    }
}

/// The statement of a policy that a place refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// The use of an algorithm.
    Algorithm {
        /// The name of the node, the leaf or the class.
        place: String,
        /// The algorithm.
        algorithm: String,
    },
    /// The lanes: classes, each for the limits that it passes.
    Lanes,
    /// The rows of the match table.
    Rows,
    /// A class, a node or a limit of this name.
    Named(String),
    /// Nothing that is in the text, such as the rate of the link.
    Surroundings,
}

/// The reason why a place cannot run a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The statement that requires more than the place has.
    pub about: About,
    /// The reason, such as `it has 101 lanes, and its port has 64 rings`.
    pub reason: String,
    /// The remedy.
    pub instead: String,
}

impl Refusal {
    /// A refusal in the words of an error: the reason, and behind the first semicolon what to do instead.
    pub fn split(about: About, error: &str) -> Self {
        let (reason, instead) =
            error.split_once("; ").unwrap_or((error, "change the policy, or run it at another place"));
        Self { about, reason: reason.to_owned(), instead: instead.to_owned() }
    }
}

/// The refusal of a policy by `place`, such as `the daemon`, as a diagnostic at the statement in the text.
pub fn refused_with(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
    (place, refusal): (&str, &Refusal),
) -> Option<Diagnostic> {
    let message = format!("{place} cannot run this policy: {}", refusal.reason);
    let diagnostic = |span| SpannedDiagnostic::new(Code::ProfileRefuses, span, &message, &refusal.instead);
    let (found, _) = checked_with(source, files, options, &|policy, graph, shape| {
        let orders = || cost::count(policy, graph, shape).orders;
        let root = || graph.root.map(|root| graph.nodes[root].span);
        let span = match &refusal.about {
            About::Algorithm { place, algorithm } => {
                let uses: Vec<_> =
                    orders().into_iter().filter(|order| order.algorithm == *algorithm).collect();
                let of_place = uses.iter().find(|order| order.name == *place).or(uses.first());
                of_place.map(|order| order.span)
            }
            About::Lanes => widest_limit(graph),
            About::Named(name) => named(graph, name),
            About::Rows | About::Surroundings => None,
        };
        diagnostic(span.or_else(root).unwrap_or_default())
    });
    found
}

/// The class, node or limit of this name; that of a limit has its destination or port in brackets.
fn named(graph: &Graph, name: &str) -> Option<Span> {
    let node = name.split_once('[').map_or(name, |(node, _)| node);
    graph.nodes.iter().find(|of| of.name == name || of.name == node).map(|node| node.span)
}

/// The node with the most limits, if one has several.
fn widest_limit(graph: &Graph) -> Option<Span> {
    let limits = graph.nodes.iter().filter_map(|node| match &node.kind {
        Kind::Limit(branches) if branches.len() > 1 => Some((branches.len(), node.span)),
        _ => None,
    });
    limits.max_by_key(|(branches, span)| (*branches, core::cmp::Reverse(span.start))).map(|(_, span)| span)
}
