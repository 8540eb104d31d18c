//! The rows of a file: its items and the comments between them.

use super::layout::layout;
use crate::syntax::{SyntaxKind, SyntaxNode};
use rowan::NodeOrToken;

/// The kind of a row. Rows of one kind are aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowKind {
    /// The definition of a class.
    Class,
    /// The definition of a node.
    Node,
    /// Another item or a comment.
    Other,
}

/// The item or the comment that a row shows.
enum Content {
    Item(SyntaxNode),
    Comment(String),
}

/// An item with the comment behind it, or a comment on a separate line.
pub(super) struct Row {
    pub(super) kind: RowKind,
    content: Content,
    /// The comment on the item's last line.
    pub(super) comment: Option<String>,
    /// Whether a blank line precedes it.
    pub(super) after_blank: bool,
}

impl Row {
    /// The length of the words before `=`, in characters.
    pub(super) fn name_length(&self) -> usize {
        match &self.content {
            Content::Comment(_) => 0,
            Content::Item(item) => {
                let name = item.children().find(|child| child.kind() == SyntaxKind::Name);
                name.map_or(0, |name| name.text().len().into())
            }
        }
    }

    /// The text of the row, with the `=` of an item behind a name of `width` characters.
    pub(super) fn text(&self, width: usize) -> String {
        match &self.content {
            Content::Comment(text) => text.clone(),
            Content::Item(item) => layout(item, width.saturating_sub(self.name_length())),
        }
    }
}

/// The rows of a file.
pub(super) fn rows(file: &SyntaxNode) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut newlines = 0;
    for part in file.children_with_tokens() {
        let after_blank = newlines > 1;
        match part {
            NodeOrToken::Token(token) if token.kind() == SyntaxKind::Comment => {
                let text = token.text().trim_end().to_owned();
                match rows.last_mut() {
                    Some(row) if newlines == 0 => row.comment = Some(text),
                    _ => {
                        let content = Content::Comment(text);
                        rows.push(Row { kind: RowKind::Other, content, comment: None, after_blank });
                    }
                }
                newlines = 0;
            }
            NodeOrToken::Token(token) => newlines += token.text().matches('\n').count(),
            NodeOrToken::Node(item) => {
                let kind = match item.kind() {
                    SyntaxKind::ClassItem => RowKind::Class,
                    SyntaxKind::NodeItem => RowKind::Node,
                    _ => RowKind::Other,
                };
                rows.push(Row { kind, content: Content::Item(item), comment: None, after_blank });
                newlines = 0;
            }
        }
    }
    rows
}
