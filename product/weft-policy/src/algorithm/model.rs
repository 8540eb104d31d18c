//! The model of an algorithm's text: its parts with their places, before any check.

use super::types::{Operator, Type};
use crate::spanned::Spanned;
use weft_rank::{Kind, Part};
use weft_text::Span;

/// The definition of an algorithm.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: Spanned<String>,
    pub(crate) kind: Kind,
    pub(crate) parameters: Vec<ParameterText>,
    pub(crate) fields: Vec<FieldText>,
    /// The place of `follows head`.
    pub(crate) follows_head: Option<Span>,
    pub(crate) parts: Vec<PartText>,
    /// Whether the parser has reported an error in it. It is then not checked.
    pub(crate) broken: bool,
}

/// A parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParameterText {
    pub(crate) name: Spanned<String>,
    /// `None` if the name is that of its type.
    pub(crate) of: Option<Spanned<Type>>,
    pub(crate) default: Option<Spanned<String>>,
}

/// The owner of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The node has one.
    Node,
    /// Each child has one.
    Child,
}

/// A field of the state.
#[derive(Clone, Debug)]
pub(crate) struct FieldText {
    pub(crate) owner: Owner,
    pub(crate) name: Spanned<String>,
    pub(crate) of: Spanned<Type>,
    pub(crate) initial: Option<Spanned<String>>,
    pub(crate) forget: Option<Spanned<String>>,
}

/// A part with its place.
#[derive(Clone, Debug)]
pub(crate) struct PartText {
    pub(crate) span: Span,
    pub(crate) body: Body,
}

/// The content of a part.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// `active { ... }` and the like.
    Event(Part, Vec<Statement>),
    /// `rank = ...`
    Rank(RankText),
    /// `from T` alone.
    From(Expression),
}

/// `rank = R from T until T then R`
#[derive(Clone, Debug)]
pub(crate) struct RankText {
    pub(crate) rank: Vec<Expression>,
    pub(crate) from: Option<Expression>,
    pub(crate) until: Option<(Expression, Vec<Expression>)>,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Let(Spanned<String>, Expression),
    /// The operator is that before `=`, as in `+=`.
    Assign(Spanned<String>, Option<Operator>, Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
    Act(Action, Span),
}

/// A statement of one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Rerank,
    Drop,
    Mark,
}

/// An expression with its place.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) span: Span,
    pub(crate) form: Form,
}

/// The form of an expression. Operands of one level are a list, so that a long sum is not a deep tree.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Number(String),
    Name(String),
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
    Not(Box<Expression>),
    Call(String, Vec<Expression>),
    /// `lowest FIELD`
    Lowest(Spanned<String>),
}
