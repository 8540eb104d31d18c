//! The text of one item.

use super::WIDTH;
use crate::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};
use rowan::{NodeOrToken, WalkEvent};

/// The spaces of one level.
const INDENT: usize = 4;
/// The columns kept behind a list for what follows it: a comma, or a weight.
const BEHIND: usize = 6;

/// Whether a list or a condition has a line for each of its parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Flat,
    Broken,
}

/// A comment inside an item, which waits for the token before which it is written.
struct Waiting {
    text: String,
    /// Whether it begins its line.
    own_line: bool,
    after_blank: bool,
}

/// An item being written.
struct Writer {
    out: String,
    /// The spaces before the item's `=`, beyond the usual one.
    pad: usize,
    condition: Shape,
    /// The open lists, outermost first.
    lists: Vec<Shape>,
    comments: Vec<Waiting>,
    newlines: usize,
    before: Option<SyntaxToken>,
    /// Whether the next token begins a line.
    breaks: bool,
}

/// Writes `item` with `pad` additional spaces before its `=`.
pub(super) fn layout(item: &SyntaxNode, pad: usize) -> String {
    let one_line = flat(tokens(item)).chars().count() + pad;
    let commented = item.kind() == SyntaxKind::ClassItem && has_comment(item);
    let long = item.kind() == SyntaxKind::ClassItem && one_line > WIDTH;
    let mut writer = Writer {
        out: String::new(),
        pad,
        condition: if commented || long { Shape::Broken } else { Shape::Flat },
        lists: Vec::new(),
        comments: Vec::new(),
        newlines: 0,
        before: None,
        breaks: false,
    };
    for part in item.preorder_with_tokens() {
        if let WalkEvent::Enter(NodeOrToken::Token(token)) = part {
            writer.token(&token);
        }
    }
    writer.out
}

impl Writer {
    fn token(&mut self, token: &SyntaxToken) {
        match token.kind() {
            SyntaxKind::Whitespace => self.newlines += token.text().matches('\n').count(),
            SyntaxKind::Comment => {
                let text = token.text().trim_end().to_owned();
                let (own_line, after_blank) = (self.newlines > 0, self.newlines > 1);
                self.comments.push(Waiting { text, own_line, after_blank });
                self.newlines = 0;
            }
            SyntaxKind::Comma if separates_entries(token) => self.comma(token),
            // Statements are separated anew, by lines or by `;`.
            SyntaxKind::Semicolon => {}
            SyntaxKind::OpenBrace => {
                self.put(token);
                let shape = self.shape_of(token);
                self.lists.push(shape);
                self.breaks = shape == Shape::Broken;
            }
            SyntaxKind::CloseBrace => {
                let bare = self.before.as_ref().is_some_and(|before| before.kind() != SyntaxKind::Comma);
                if self.lists.last() == Some(&Shape::Broken) {
                    let empty =
                        self.before.as_ref().is_some_and(|before| before.kind() == SyntaxKind::OpenBrace);
                    if bare && !empty && !holds_statements(token) {
                        self.out.push(',');
                    }
                    self.write_comments();
                    self.breaks = true;
                }
                self.lists.pop();
                self.put(token);
            }
            _ => {
                self.breaks |= self.condition == Shape::Broken && is_outer_operator(token);
                if begins_statement(token) {
                    self.breaks |= self.lists.last() == Some(&Shape::Broken);
                    if !self.breaks && self.before.as_ref().is_some_and(needs_semicolon) {
                        self.out.push(';');
                    }
                }
                self.put(token);
            }
        }
    }

    /// Writes a comma, but not one behind the last entry of a list on one line.
    fn comma(&mut self, token: &SyntaxToken) {
        let broken = self.lists.last() == Some(&Shape::Broken);
        if broken || !is_last_comma(token) {
            self.out.push(',');
            self.breaks = broken;
        }
        self.remember(token);
    }

    fn remember(&mut self, token: &SyntaxToken) {
        self.before = Some(token.clone());
        self.newlines = 0;
    }

    /// Writes a token, and the comments before it.
    fn put(&mut self, token: &SyntaxToken) {
        // A colon stays at its name; the comments between them follow it.
        if is_separator(token) {
            self.out.push_str(token.text());
            return self.remember(token);
        }
        let after_blank = self.newlines > 1 && token.kind() != SyntaxKind::CloseBrace;
        if self.write_comments() || self.breaks {
            let level = match token.kind() {
                SyntaxKind::CloseBrace => self.lists.len(),
                _ => self.lists.len().max(1),
            };
            self.line(level, after_blank);
        } else if let Some(before) = &self.before
            && is_apart(before, token)
        {
            self.out.push(' ');
        }
        if token.kind() == SyntaxKind::Equals {
            self.out.extend(core::iter::repeat_n(' ', self.pad));
        }
        self.breaks = false;
        self.out.push_str(token.text());
        self.remember(token);
    }

    /// Writes the waiting comments. Returns whether there were any: the next token then begins a line.
    fn write_comments(&mut self) -> bool {
        let comments = core::mem::take(&mut self.comments);
        let any = !comments.is_empty();
        let level = self.lists.len().max(1);
        for (number, comment) in comments.into_iter().enumerate() {
            if comment.own_line || number > 0 {
                self.line(level, comment.after_blank);
            } else {
                self.out.push_str("  ");
            }
            self.out.push_str(&comment.text);
        }
        any
    }

    /// Begins a line. A blank line before it is kept between the entries of a list.
    fn line(&mut self, level: usize, after_blank: bool) {
        if after_blank && !self.lists.is_empty() && !self.out.ends_with('{') {
            self.out.push('\n');
        }
        self.out.push('\n');
        self.out.extend(core::iter::repeat_n(' ', level * INDENT));
    }

    /// The shape of the list that `open` opens.
    fn shape_of(&self, open: &SyntaxToken) -> Shape {
        let column = self.out.rsplit('\n').next().unwrap_or_default().chars().count();
        let list = list_tokens(open);
        let width = flat(list.iter().filter(|token| !token.kind().is_trivia()).cloned());
        if is_begun_on_a_line(&list) || column + width.chars().count() + BEHIND > WIDTH {
            Shape::Broken
        } else {
            Shape::Flat
        }
    }
}

/// Whether the braces of this token hold the parts or the statements of an algorithm, which no comma separates.
fn holds_statements(token: &SyntaxToken) -> bool {
    let kind = token.parent().map(|parent| parent.kind());
    matches!(kind, Some(SyntaxKind::AlgorithmItem | SyntaxKind::Block))
}

/// Whether a comma is between the entries of a list in braces.
fn separates_entries(comma: &SyntaxToken) -> bool {
    use SyntaxKind::*;
    let kind = comma.parent().map(|parent| parent.kind());
    !matches!(kind, Some(ParameterList | StatePart | Field | RankPart | UntilClause | CallExpr))
}

/// Whether a part or a statement of an algorithm begins with this token.
fn begins_statement(token: &SyntaxToken) -> bool {
    use SyntaxKind::*;
    let outermost = token
        .parent_ancestors()
        .find(|node| node.parent().is_none_or(|parent| matches!(parent.kind(), AlgorithmItem | Block)));
    outermost.is_some_and(|node| {
        let within = node.parent().is_some_and(|parent| matches!(parent.kind(), AlgorithmItem | Block));
        let named = matches!(node.kind(), Name | ParameterList | Block);
        within && !named && node.first_token().as_ref() == Some(token)
    })
}

/// Whether a `;` separates a statement from the one before it, whose last token is `before`.
fn needs_semicolon(before: &SyntaxToken) -> bool {
    !matches!(before.kind(), SyntaxKind::OpenBrace | SyntaxKind::CloseBrace)
}

/// The tokens of a list behind its opening brace, up to its closing one.
fn list_tokens(open: &SyntaxToken) -> Vec<SyntaxToken> {
    let mut depth = 1;
    let mut list = Vec::new();
    let mut next = open.next_token();
    while let Some(token) = next.filter(|_| depth > 0) {
        match token.kind() {
            SyntaxKind::OpenBrace => depth += 1,
            SyntaxKind::CloseBrace => depth -= 1,
            _ => {}
        }
        next = token.next_token();
        list.push(token);
    }
    list
}

/// Whether the author has begun a line behind the opening brace of this list or of one in it, or has written a comment in it.
fn is_begun_on_a_line(list: &[SyntaxToken]) -> bool {
    let gap = |token: &SyntaxToken| token.kind() == SyntaxKind::Whitespace && token.text().contains('\n');
    let inner = list.windows(2).any(|pair| pair[0].kind() == SyntaxKind::OpenBrace && gap(&pair[1]));
    list.first().is_some_and(gap) || inner || list.iter().any(|token| token.kind() == SyntaxKind::Comment)
}

/// Whether a comma is before a closing brace.
fn is_last_comma(comma: &SyntaxToken) -> bool {
    let mut next = comma.next_token();
    while let Some(token) = next.as_ref().filter(|token| token.kind().is_trivia()) {
        next = token.next_token();
    }
    next.is_some_and(|token| token.kind() == SyntaxKind::CloseBrace)
}

/// Whether `token` is the `and` or `or` of a class's whole condition.
fn is_outer_operator(token: &SyntaxToken) -> bool {
    let joins = token.parent().is_some_and(|parent| {
        let kind = parent.kind();
        let outer = parent.parent().is_some_and(|item| item.kind() == SyntaxKind::ClassItem);
        outer && matches!(kind, SyntaxKind::AndCondition | SyntaxKind::OrCondition)
    });
    joins && matches!(token.text(), "and" | "or")
}

fn has_comment(item: &SyntaxNode) -> bool {
    item.descendants_with_tokens().any(|part| part.kind() == SyntaxKind::Comment)
}

/// The significant tokens of an item.
fn tokens(item: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    item.descendants_with_tokens()
        .filter_map(NodeOrToken::into_token)
        .filter(|token| !token.kind().is_trivia())
}

fn in_value(token: &SyntaxToken) -> bool {
    token.parent().is_some_and(|parent| parent.kind() == SyntaxKind::Value)
}

/// Whether `token` is a colon between an entry and its value.
fn is_separator(token: &SyntaxToken) -> bool {
    token.kind() == SyntaxKind::Colon && !in_value(token)
}

/// Whether white space separates two tokens that follow each other.
fn is_apart(before: &SyntaxToken, token: &SyntaxToken) -> bool {
    let one_value = in_value(before) && token.parent() == before.parent();
    let closes = matches!(token.kind(), SyntaxKind::Comma | SyntaxKind::CloseParen);
    let calls = token.kind() == SyntaxKind::OpenParen && before.kind() == SyntaxKind::Word && {
        let kind = token.parent().map(|parent| parent.kind());
        matches!(kind, Some(SyntaxKind::ParameterList | SyntaxKind::CallExpr))
    };
    !(one_value || calls || closes || is_separator(token) || before.kind() == SyntaxKind::OpenParen)
}

/// Tokens on one line.
fn flat(tokens: impl Iterator<Item = SyntaxToken>) -> String {
    let mut out = String::new();
    let mut before: Option<SyntaxToken> = None;
    let kept = |token: &SyntaxToken| match token.kind() {
        SyntaxKind::Comma => !is_last_comma(token),
        SyntaxKind::Semicolon => false,
        _ => true,
    };
    for token in tokens.filter(kept) {
        if begins_statement(&token) && before.as_ref().is_some_and(needs_semicolon) {
            out.push(';');
        }
        if before.as_ref().is_some_and(|before| is_apart(before, &token)) {
            out.push(' ');
        }
        out.push_str(token.text());
        before = Some(token);
    }
    out
}
