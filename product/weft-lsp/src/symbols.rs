//! The names of a policy: where they are defined and used.

use crate::line_index::LineIndex;
use gen_lsp_types::{DocumentSymbol, SymbolKind};
use weft_policy::syntax::{SyntaxKind, SyntaxNode};
use weft_text::Span;

/// The kind of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Class,
    Node,
    Limit,
    Algorithm,
}

/// The names among which a name must be unique.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Those of classes and nodes.
    Tree,
    /// Those of algorithms.
    Algorithms,
}

impl Kind {
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::Algorithm => Scope::Algorithms,
            Self::Class | Self::Node | Self::Limit => Scope::Tree,
        }
    }

    /// The word for people.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Node => "node",
            Self::Limit => "limit",
            Self::Algorithm => "algorithm",
        }
    }
}

/// A definition.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) span: Span,
    /// The whole item.
    pub(crate) item: SyntaxNode,
}

/// A place at which a name is defined or used.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) span: Span,
}

/// The names of a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) definitions: Vec<Definition>,
    /// All places, in the order of the text.
    pub(crate) places: Vec<Place>,
}

impl Symbols {
    /// Finds the names of a tree.
    pub(crate) fn new(tree: &SyntaxNode) -> Self {
        let mut symbols = Self::default();
        for item in tree.children() {
            symbols.definition(&item);
            if item.kind() != SyntaxKind::AlgorithmItem {
                symbols.places.extend(item.descendants().filter_map(|node| used(&node)));
            }
        }
        symbols.places.sort_by_key(|place| place.span);
        symbols
    }

    fn definition(&mut self, item: &SyntaxNode) {
        let kind = match item.kind() {
            SyntaxKind::ClassItem => Kind::Class,
            SyntaxKind::AlgorithmItem => Kind::Algorithm,
            SyntaxKind::NodeItem if item.children().any(|part| part.kind() == SyntaxKind::LimitExpr) => {
                Kind::Limit
            }
            SyntaxKind::NodeItem => Kind::Node,
            _ => return,
        };
        let Some(name) = item.children().find(|part| part.kind() == SyntaxKind::Name) else { return };
        let (span, name) = (span_of(&name), name.text().to_string());
        self.places.push(Place { scope: kind.scope(), name: name.clone(), span });
        self.definitions.push(Definition { kind, name, span, item: item.clone() });
    }

    /// The name at byte `offset`, also behind its last character.
    pub(crate) fn at(&self, offset: usize) -> Option<&Place> {
        self.places.iter().find(|place| (place.span.start..=place.span.end).contains(&offset))
    }

    /// The definition of a name; the first, if there are several.
    pub(crate) fn find(&self, scope: Scope, name: &str) -> Option<&Definition> {
        self.definitions.iter().find(|known| known.kind.scope() == scope && known.name == name)
    }

    /// The definitions as an editor's outline.
    pub(crate) fn outline(&self, lines: &LineIndex<'_>) -> Vec<DocumentSymbol> {
        self.definitions.iter().map(|known| symbol(known, lines)).collect()
    }
}

#[expect(deprecated, reason = "the type has no default, so its deprecated field must be named")]
fn symbol(known: &Definition, lines: &LineIndex<'_>) -> DocumentSymbol {
    DocumentSymbol {
        name: known.name.clone(),
        detail: Some(known.kind.word().to_owned()),
        kind: match known.kind {
            Kind::Class => SymbolKind::Class,
            Kind::Node => SymbolKind::Object,
            Kind::Limit => SymbolKind::Property,
            Kind::Algorithm => SymbolKind::Function,
        },
        tags: None,
        deprecated: None,
        range: lines.range(span_of(&known.item)),
        selection_range: lines.range(known.span),
        children: None,
    }
}

/// The use that a node of the tree is.
fn used(node: &SyntaxNode) -> Option<Place> {
    if node.kind() != SyntaxKind::NameRef {
        return None;
    }
    let of_algorithm = node.parent().is_some_and(|parent| {
        parent.kind() == SyntaxKind::AlgorithmExpr && parent.children().next().as_ref() == Some(node)
    });
    let scope = if of_algorithm { Scope::Algorithms } else { Scope::Tree };
    Some(Place { scope, name: node.text().to_string(), span: span_of(node) })
}

/// The span of a node.
pub(crate) fn span_of(node: &SyntaxNode) -> Span {
    let range = node.text_range();
    Span::new(range.start().into(), range.end().into())
}
