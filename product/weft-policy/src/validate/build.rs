//! Name resolution: from the model to the graph.

use super::graph::{Edge, Graph, Kind, Node, ROOT};
use super::root;
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::lowering::model::{Child, Condition, Expression, Policy, Spanned};
use std::collections::BTreeSet;
use weft_packet::Match;
use weft_text::{LineIndex, Span, nearest, quoted};

/// The most classes and nodes that a policy may have.
pub(crate) const NODES_MAX: usize = 16_384;

pub(crate) use crate::compiled::DEFAULT;

struct Builder<'a> {
    graph: Graph,
    lines: &'a LineIndex<'a>,
    diagnostics: Vec<SpannedDiagnostic>,
    /// The definition whose unnamed nodes are being added, and the number added so far.
    owner: String,
    inner_count: usize,
    unknown_count: usize,
    /// Words of parts that could not be parsed.
    unread: BTreeSet<String>,
    /// Whether a definition has no name that could be read.
    nameless: bool,
}

/// The most unknown names that are compared with all known ones to suggest a correction.
const SUGGESTIONS_MAX: usize = 20;

/// Other words for the packets that no class describes.
const DEFAULT_SYNONYMS: [(&str, &str); 6] = [
    ("rest", "default"),
    ("other", "default"),
    ("others", "default"),
    ("else", "default"),
    ("everything", "default"),
    ("unclassified", "default"),
];

/// Whether the policy names a node, or the node is part of another definition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Named,
    Unnamed,
}

/// Builds the graph of `policy`. Removes a definition of `default` from the classes, since every policy has that class.
/// `complete` is whether the whole text could be parsed.
pub(crate) fn build(
    policy: &mut Policy,
    complete: bool,
    lines: &LineIndex<'_>,
) -> (Graph, Vec<SpannedDiagnostic>) {
    let graph = Graph { complete, ..Graph::default() };
    let mut builder = Builder {
        graph,
        lines,
        diagnostics: Vec::new(),
        owner: String::new(),
        inner_count: 0,
        unknown_count: 0,
        unread: core::mem::take(&mut policy.unread),
        nameless: policy.nameless,
    };
    let count = policy.classes.len() + policy.nodes.len();
    if count > NODES_MAX {
        let span = policy.nodes.last().map_or(Span::default(), |node| node.name.span);
        let message = format!("the policy has {count} classes and nodes; at most {NODES_MAX} are possible");
        builder.find(Code::TooManyNodes, span, message, "let one class stand for several");
        builder.graph.complete = false;
        return (builder.graph, builder.diagnostics);
    }
    builder.classes(policy);
    let firsts = builder.declare_nodes(policy);
    for (definition, at) in policy.nodes.iter().zip(firsts) {
        if let Some(at) = at {
            (builder.owner, builder.inner_count) = (definition.name.value.clone(), 0);
            builder.define(at, &definition.expression);
        }
    }
    builder.find_root(policy);
    (builder.graph, builder.diagnostics)
}

impl Builder<'_> {
    fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.diagnostics.push(SpannedDiagnostic::new(code, span, message, help));
    }

    fn add(&mut self, name: &str, span: Span, kind: Kind, naming: Naming) -> usize {
        self.graph.nodes.push(Node {
            name: name.to_owned(),
            span,
            kind,
            children: Vec::new(),
            named: naming == Naming::Named,
        });
        self.graph.nodes.len() - 1
    }

    /// Registers the name of `at`, unless the name is taken.
    fn declare(&mut self, name: &Spanned<String>, at: usize) -> bool {
        if let Some(first) = self.graph.names.get(&name.value).copied() {
            let line = self.lines.position(self.graph.nodes[first].span.start).line;
            let message = format!("{} is defined twice", quoted(&name.value));
            let diagnostic = SpannedDiagnostic::new(
                Code::DefinedTwice,
                name.span,
                message,
                "give one of them another name",
            );
            self.diagnostics.push(diagnostic.note(format!("it is first defined on line {line}")));
            // What the second definition places is not known to be unused.
            self.graph.complete = false;
            return false;
        }
        self.graph.names.insert(name.value.clone(), at);
        true
    }

    fn classes(&mut self, policy: &mut Policy) {
        let mut default_span = None;
        policy.classes.retain(|class| {
            if class.name.value != DEFAULT {
                return true;
            }
            let any = Condition::Row(Match::default());
            let bad = class.condition.as_ref().is_some_and(|condition| *condition != any);
            if bad {
                let help = "write `class default = any`, or give the class another name";
                self.find(
                    Code::DefaultRedefined,
                    class.name.span,
                    "`default` takes all remaining packets and cannot have a test",
                    help,
                );
            } else if default_span.is_some() {
                self.find(Code::DefinedTwice, class.name.span, "`default` is defined twice", "leave one out");
            }
            default_span = Some(class.name.span);
            false
        });
        for (number, class) in policy.classes.iter().enumerate() {
            let at = self.add(&class.name.value, class.name.span, Kind::Class(number), Naming::Named);
            self.declare(&class.name, at);
        }
        let count = policy.classes.len();
        self.graph.classes = count;
        let default = self.add(DEFAULT, default_span.unwrap_or_default(), Kind::Class(count), Naming::Named);
        self.graph.names.insert(DEFAULT.to_owned(), default);
    }

    /// Declares the nodes' names first, so that a name may be used before its definition. `None` marks a node whose name
    /// is taken.
    fn declare_nodes(&mut self, policy: &Policy) -> Vec<Option<usize>> {
        policy
            .nodes
            .iter()
            .map(|definition| {
                let name = &definition.name;
                if name.value == DEFAULT {
                    let help = "name it in the tree, such as `priority { mgmt, default }`";
                    self.find(
                        Code::DefaultRedefined,
                        name.span,
                        "`default` is a class and cannot be a node",
                        help,
                    );
                    return None;
                }
                let at = self.add(&name.value, name.span, Kind::Broken, Naming::Named);
                self.declare(name, at).then_some(at)
            })
            .collect()
    }

    /// Sets the kind and the children of node `at`.
    fn define(&mut self, at: usize, expression: &Spanned<Expression>) {
        let (kind, children) = match &expression.value {
            Expression::Name(name) => (Kind::FIFO, self.edge(name, expression.span).into_iter().collect()),
            Expression::Native(native, children) => (Kind::Native(*native), self.edges(children)),
            Expression::Fair(inner) => (Kind::Fair, self.inner(inner).into_iter().collect()),
            Expression::Limit(branches, inner) => {
                (Kind::Limit(branches.clone()), self.inner(inner).into_iter().collect())
            }
            Expression::Algorithm(number, children) => (Kind::Algorithm(*number), self.edges(children)),
            Expression::Broken => {
                self.graph.complete = false;
                (Kind::Broken, Vec::new())
            }
        };
        self.graph.nodes[at].kind = kind;
        self.graph.nodes[at].children = children;
    }

    fn edges(&mut self, children: &[Child]) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::with_capacity(children.len());
        let mut seen = BTreeSet::new();
        for child in children {
            let Some(edge) = self.inner(&child.expression) else { continue };
            if seen.insert(edge.to) {
                edges.push(Edge { weight: child.weight, ..edge });
            } else {
                let message = format!("{} is listed twice", quoted(&self.graph.nodes[edge.to].name));
                self.find(Code::ChildTwice, edge.span, message, "leave one of the two out");
            }
        }
        edges
    }

    /// The edge to an expression: to the node that it names, or to a new unnamed node.
    fn inner(&mut self, expression: &Spanned<Expression>) -> Option<Edge> {
        if let Expression::Name(name) = &expression.value {
            return self.edge(name, expression.span);
        }
        if self.graph.nodes.len() >= NODES_MAX {
            if self.graph.complete {
                let message = format!("the policy has more than {NODES_MAX} classes and nodes");
                self.find(Code::TooManyNodes, expression.span, message, "let one class stand for several");
            }
            self.graph.complete = false;
            return None;
        }
        self.inner_count += 1;
        let name = format!("{}#{}", self.owner, self.inner_count);
        let at = self.add(&name, expression.span, Kind::Broken, Naming::Unnamed);
        self.define(at, expression);
        Some(Edge { to: at, span: expression.span, weight: None })
    }

    fn edge(&mut self, name: &str, span: Span) -> Option<Edge> {
        if let Some(to) = self.graph.names.get(name).copied() {
            return Some(Edge { to, span, weight: None });
        }
        self.graph.complete = false;
        let similar = self.similar(name).map(str::to_owned);
        if !(self.unread.contains(name) || (self.nameless && similar.is_none())) {
            self.unknown_count += 1;
            let help = format!("define it: `class {name} = ...` or `{name} = ...`");
            let name = Spanned { value: name.to_owned(), span };
            let diagnostic = unknown_name(&name, similar.as_deref(), &help);
            self.diagnostics.push(diagnostic);
        }
        None
    }

    /// A known name similar to `name`; `None` after [`SUGGESTIONS_MAX`] unknown names, to bound the time.
    fn similar(&self, name: &str) -> Option<&str> {
        if self.unknown_count > SUGGESTIONS_MAX {
            return None;
        }
        nearest(name, self.graph.names.keys().map(String::as_str), &DEFAULT_SYNONYMS)
    }

    fn find_root(&mut self, policy: &Policy) {
        self.graph.root = self.graph.names.get(ROOT).copied();
        if self.graph.root.is_none() && self.graph.complete {
            self.diagnostics.push(root::missing(&self.graph, policy, self.lines));
        }
    }
}

/// The diagnostic for a name that nothing has, at the known name that it resembles or with `help`.
pub(crate) fn unknown_name(name: &Spanned<String>, similar: Option<&str>, help: &str) -> SpannedDiagnostic {
    let message = format!("nothing in the policy has the name {}", quoted(&name.value));
    match similar {
        Some(similar) => {
            let message = format!("{message}: did you mean {}?", quoted(similar));
            let diagnostic = SpannedDiagnostic::new(
                Code::UnknownName,
                name.span,
                message,
                "a name is used as it is defined, with capitals and small letters",
            );
            diagnostic.fix(Edit::replace(name.span, similar))
        }
        None => SpannedDiagnostic::new(Code::UnknownName, name.span, message, help),
    }
}
