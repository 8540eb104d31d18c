//! A value with its place in the text.

use weft_text::Span;

/// A value with its place in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}
