//! The standard form of a policy's text.
//!
//! [`reformat`] writes the tokens of the tree again, in their order, with other white space. It takes these steps:
//!
//! 1. `rows`: the file becomes rows: items, comments on separate lines, comments behind items. Of several blank lines one is kept.
//! 2. The `=` of rows without a blank line or a comment between them are aligned, those of classes and those of nodes.
//! 3. `layout`: each item is written. Braces are on one line if they fit in [`WIDTH`] columns and the author has not begun a new line
//!    behind the opening one. A long condition is broken before its outermost `and` or `or`.
//! 4. Comments behind rows that follow each other are aligned.
//!
//! These rules hold:
//!
//! - The order of items, children and tests does not change, since it has a meaning.
//! - No comment is lost or changed. Of the tokens, only the comma behind the last entry of a list comes or goes.
//! - The result is a fixed point: all decisions depend on what the result shows again.
//! - A text with syntax errors is not formatted: the tree of its errors would be guesswork.

mod layout;
mod rows;

use crate::compile::{Source, parse_corrected};
use crate::diagnostic::Diagnostic;
use rows::{Row, RowKind};

/// The longest line that is not broken, in characters.
const WIDTH: usize = 100;
/// The longest name to which the `=` of others are aligned, in characters.
const ALIGNED_MAX: usize = 40;

/// The standard form of a policy, or its syntax errors.
pub fn reformat(source: Source<'_>) -> Result<String, Vec<Diagnostic>> {
    let (tree, errors) = parse_corrected(source);
    if !errors.is_empty() {
        return Err(errors);
    }
    let rows = rows::rows(&tree);
    let mut lines: Vec<(String, &Row)> = Vec::with_capacity(rows.len());
    for block in blocks(&rows) {
        let names = block.iter().map(Row::name_length).filter(|length| *length <= ALIGNED_MAX);
        let width = names.max().unwrap_or(0);
        lines.extend(block.iter().map(|row| (row.text(width), row)));
    }
    Ok(joined(&lines))
}

/// Divides rows into blocks of items of one kind that follow each other.
fn blocks(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| a.kind == b.kind && a.kind != RowKind::Other && !b.after_blank)
}

/// Joins rows to a text, with their comments below each other.
fn joined(lines: &[(String, &Row)]) -> String {
    let mut out = String::new();
    let commented = |(_, row): &(String, &Row)| row.comment.is_some();
    for run in lines.chunk_by(|a, b| commented(a) == commented(b) && !b.1.after_blank) {
        let last_line = |text: &str| text.rsplit('\n').next().unwrap_or_default().chars().count();
        let column = run.iter().map(|(text, _)| last_line(text)).max().unwrap_or(0) + 2;
        for (text, row) in run {
            if row.after_blank && !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
            if let Some(comment) = &row.comment {
                let gap = column - last_line(text);
                out.extend(core::iter::repeat_n(' ', gap));
                out.push_str(comment);
            }
            out.push('\n');
        }
    }
    out
}
