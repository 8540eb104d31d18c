//! The first pass over an algorithm: from the syntax tree to its model.

use super::model::{
    Action, Body, Definition, Expression, FieldText, Form, Owner, ParameterText, PartText, RankText,
    Statement,
};
use super::types::{Operator, Type};
use crate::spanned::Spanned;
use crate::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};
use rowan::NodeOrToken;
use weft_rank::{Kind, Part};
use weft_text::Span;

/// The algorithms that a file defines. `broken` says whether the parser has reported an error at a place.
pub(crate) fn definitions(tree: &SyntaxNode, broken: &dyn Fn(Span) -> bool) -> Vec<Definition> {
    let items = tree.children().filter(|item| item.kind() == SyntaxKind::AlgorithmItem);
    items.filter_map(|item| definition(&item, broken)).collect()
}

fn definition(item: &SyntaxNode, broken: &dyn Fn(Span) -> bool) -> Option<Definition> {
    let kind = match words(item).next()?.text() {
        "shaper" => Kind::Shaper,
        "dropper" => Kind::Dropper,
        _ => Kind::Algorithm,
    };
    let mut definition = Definition {
        name: named(item, SyntaxKind::Name)?,
        kind,
        parameters: Vec::new(),
        fields: Vec::new(),
        follows_head: None,
        parts: Vec::new(),
        broken: !has_token(item, SyntaxKind::CloseBrace) || broken(span_of(item)),
    };
    if definition.broken {
        return Some(definition);
    }
    for child in item.children() {
        match child.kind() {
            SyntaxKind::ParameterList => {
                definition.parameters = child.children().filter_map(|node| parameter(&node)).collect();
            }
            SyntaxKind::StatePart => fields(&child, &mut definition.fields),
            SyntaxKind::FollowsPart => definition.follows_head = Some(span_of(&child)),
            _ => {
                let body = body(&child);
                definition.parts.extend(body.map(|body| PartText { span: head_of(&child), body }));
            }
        }
    }
    Some(definition)
}

fn body(node: &SyntaxNode) -> Option<Body> {
    Some(match node.kind() {
        SyntaxKind::EventPart => {
            let word = words(node).next()?;
            let part = Part::ALL.into_iter().find(|part| part.name() == word.text())?;
            Body::Event(part, block(&node.children().find(|child| child.kind() == SyntaxKind::Block)?))
        }
        SyntaxKind::RankPart => {
            let clause = |kind| node.children().find(|child| child.kind() == kind);
            let until = clause(SyntaxKind::UntilClause).and_then(|clause| {
                let mut all = expressions(&clause);
                (!all.is_empty()).then(|| (all.remove(0), all))
            });
            let from = clause(SyntaxKind::FromClause).and_then(|clause| expressions(&clause).pop());
            Body::Rank(RankText { rank: expressions(node), from, until })
        }
        SyntaxKind::FromClause => Body::From(expressions(node).pop()?),
        _ => return None,
    })
}

fn parameter(node: &SyntaxNode) -> Option<ParameterText> {
    Some(ParameterText { name: named(node, SyntaxKind::Name)?, of: type_of(node), default: constant(node) })
}

/// The fields of `node ...` or `child ...`.
fn fields(part: &SyntaxNode, out: &mut Vec<FieldText>) {
    let owner = match words(part).next() {
        Some(word) if word.text() == "node" => Owner::Node,
        _ => Owner::Child,
    };
    for field in part.children().filter(|child| child.kind() == SyntaxKind::Field) {
        let Some(of) = type_of(&field) else { continue };
        let constants: Vec<SyntaxNode> = field.children().filter(|child| is_constant(child.kind())).collect();
        let assigned = has_token(&field, SyntaxKind::Equals);
        let text = |at: usize| constants.get(at).map(spanned);
        let forgets = words(&field).any(|word| word.text() == "forget");
        for name in field.children().filter(|child| child.kind() == SyntaxKind::Name) {
            out.push(FieldText {
                owner,
                name: spanned(&name),
                of: of.clone(),
                initial: if assigned { text(0) } else { None },
                forget: if forgets { text(usize::from(assigned)) } else { None },
            });
        }
    }
}

fn type_of(node: &SyntaxNode) -> Option<Spanned<Type>> {
    let node = node.children().find(|child| child.kind() == SyntaxKind::TypeName)?;
    let words: Vec<String> = words(&node).map(|word| word.text().to_owned()).collect();
    let value = Type::named(&words.join(" ")).unwrap_or(Type::Count);
    Some(Spanned { value, span: span_of(&node) })
}

fn is_constant(kind: SyntaxKind) -> bool {
    matches!(kind, SyntaxKind::LiteralExpr | SyntaxKind::PathExpr)
}

fn constant(node: &SyntaxNode) -> Option<Spanned<String>> {
    node.children().find(|child| is_constant(child.kind())).map(|child| spanned(&child))
}

/// The statements of a block.
fn block(node: &SyntaxNode) -> Vec<Statement> {
    node.children().filter_map(|child| statement(&child)).collect()
}

fn statement(node: &SyntaxNode) -> Option<Statement> {
    let name = || named(node, SyntaxKind::Name);
    Some(match node.kind() {
        SyntaxKind::LetStatement => Statement::Let(name()?, expressions(node).pop()?),
        SyntaxKind::AssignStatement => {
            let sign = tokens(node)
                .find(|token| matches!(token.kind(), SyntaxKind::Equals | SyntaxKind::Operator))?
                .text()
                .to_owned();
            Statement::Assign(name()?, Operator::of(sign.trim_end_matches('=')), expressions(node).pop()?)
        }
        SyntaxKind::IfStatement => {
            let mut blocks = node.children().filter(|child| child.kind() == SyntaxKind::Block);
            let yes = block(&blocks.next()?);
            let other = node.children().find(|child| child.kind() == SyntaxKind::IfStatement);
            let no = match (blocks.next(), other) {
                (Some(no), _) => block(&no),
                (None, Some(other)) => statement(&other).into_iter().collect(),
                (None, None) => Vec::new(),
            };
            Statement::If(expressions(node).into_iter().next()?, yes, no)
        }
        SyntaxKind::ActionStatement => {
            let action = match words(node).next()?.text() {
                "drop" => Action::Drop,
                "mark" => Action::Mark,
                _ => Action::Rerank,
            };
            Statement::Act(action, span_of(node))
        }
        _ => return None,
    })
}

/// The expressions that are direct children of a node.
fn expressions(node: &SyntaxNode) -> Vec<Expression> {
    node.children().filter_map(|child| expression(&child)).collect()
}

fn expression(node: &SyntaxNode) -> Option<Expression> {
    let form = match node.kind() {
        SyntaxKind::LiteralExpr => Form::Number(spanned(node).value),
        SyntaxKind::PathExpr => Form::Name(spanned(node).value),
        SyntaxKind::NotExpr => Form::Not(Box::new(expressions(node).pop()?)),
        SyntaxKind::ParenExpr => expressions(node).pop()?.form,
        SyntaxKind::CallExpr => Form::Call(words(node).next()?.text().to_owned(), expressions(node)),
        SyntaxKind::LowestExpr => Form::Lowest(named(node, SyntaxKind::Name)?),
        SyntaxKind::BinaryExpr => {
            let mut operands = expressions(node).into_iter();
            let first = operands.next()?;
            let signs = tokens(node).filter_map(|token| operator(&token));
            Form::Chain(Box::new(first), signs.zip(operands).collect())
        }
        _ => return None,
    };
    Some(Expression { span: span_of(node), form })
}

/// The operator of a token; signs that the parser has reported are what was meant.
fn operator(token: &SyntaxToken) -> Option<Operator> {
    match (token.kind(), token.text()) {
        (SyntaxKind::Equals, _) => Some(Operator::Eq),
        (_, text) => Operator::of(text),
    }
}

/// The text of a node without the spaces that the parser has reported, and its place.
fn spanned(node: &SyntaxNode) -> Spanned<String> {
    let value = node.text().to_string().split_whitespace().collect();
    Spanned { value, span: span_of(node) }
}

fn named(node: &SyntaxNode, kind: SyntaxKind) -> Option<Spanned<String>> {
    node.children().find(|child| child.kind() == kind).map(|child| spanned(&child))
}

/// The tokens that are direct children of a node.
fn tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    node.children_with_tokens().filter_map(NodeOrToken::into_token)
}

fn words(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    tokens(node).filter(|token| token.kind() == SyntaxKind::Word)
}

fn has_token(node: &SyntaxNode, kind: SyntaxKind) -> bool {
    tokens(node).any(|token| token.kind() == kind)
}

/// The place of a node's first token, at which a message about the whole points.
fn head_of(node: &SyntaxNode) -> Span {
    node.first_token().map_or_else(|| span_of(node), |token| range(token.text_range()))
}

fn span_of(node: &SyntaxNode) -> Span {
    range(node.text_range())
}

fn range(range: rowan::TextRange) -> Span {
    Span::new(range.start().into(), range.end().into())
}
