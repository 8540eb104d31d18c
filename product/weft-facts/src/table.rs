//! Text tables: aligned columns for a terminal, with colours only on request.

use std::fmt::Write;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left: names and sentences.
    Left,
    /// Right: numbers.
    Right,
}

/// A column's heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The text.
    pub name: String,
    /// The alignment of the column.
    pub align: Align,
}

impl Column {
    /// A column of names or sentences.
    pub fn left(name: impl Into<String>) -> Self {
        Column { name: name.into(), align: Align::Left }
    }

    /// A column of numbers.
    pub fn right(name: impl Into<String>) -> Self {
        Column { name: name.into(), align: Align::Right }
    }
}

/// The tone of a cell. It never carries a meaning alone: the text says the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neutral.
    #[default]
    Plain,
    /// As required.
    Good,
    /// Not as required.
    Bad,
    /// Less important.
    Dim,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text, in one line.
    pub text: String,
    /// Its tone.
    pub tone: Tone,
}

impl Cell {
    /// A cell without a tone.
    pub fn plain(text: impl Into<String>) -> Self {
        Cell { text: text.into(), tone: Tone::Plain }
    }

    /// A cell with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Cell { text: text.into(), tone }
    }

    /// `good` or `bad`, in the corresponding tone.
    pub fn verdict(ok: bool, good: &str, bad: &str) -> Self {
        if ok { Cell::toned(good, Tone::Good) } else { Cell::toned(bad, Tone::Bad) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::plain(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::plain(text)
    }
}

/// A table: a title, columns, rows, and notes below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table; a title of `""` is not written.
    pub fn new(title: impl Into<String>) -> Self {
        Table { title: title.into(), ..Table::default() }
    }

    /// The same table with these columns.
    #[must_use]
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns = columns.into_iter().collect();
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// In debug builds, if the number of cells differs from the number of columns.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "{}: {cells:?}", self.title);
        self.rows.push(cells);
    }

    /// Adds a line below the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The title; `""` if the table has none.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The columns.
    pub fn heads(&self) -> &[Column] {
        &self.columns
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The lines below the table.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line ended by a newline and without trailing blanks; with ANSI colours if `colour` is set.
    ///
    /// Widths count characters, so wide (East Asian) characters are off by one column each. Control characters become `?`:
    /// a name from outside must not move the cursor.
    pub fn render(&self, colour: bool) -> String {
        let widths = self.widths();
        let mut out = String::new();
        if !self.title.is_empty() {
            let title = one_line(&self.title);
            let _ = writeln!(out, "{}", painted(&title, if colour { "1" } else { "" }));
        }
        let heads = self.columns.iter().map(|c| Cell::toned(c.name.as_str(), Tone::Dim)).collect::<Vec<_>>();
        self.line(&mut out, &heads, &widths, colour);
        let rule = widths.iter().map(|&w| Cell::toned("─".repeat(w), Tone::Dim)).collect::<Vec<_>>();
        self.line(&mut out, &rule, &widths, colour);
        for row in &self.rows {
            self.line(&mut out, row, &widths, colour);
        }
        for note in &self.notes {
            let _ = writeln!(out, "{}", one_line(note));
        }
        out
    }

    /// The width of every column in characters.
    fn widths(&self) -> Vec<usize> {
        let width = |text: &str| one_line(text).chars().count();
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(&c.name)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(width(&cell.text));
            }
        }
        widths
    }

    /// Appends one line of cells.
    fn line(&self, out: &mut String, cells: &[Cell], widths: &[usize], colour: bool) {
        let last = cells.len().saturating_sub(1);
        for (i, ((cell, column), &width)) in cells.iter().zip(&self.columns).zip(widths).enumerate() {
            let text = one_line(&cell.text);
            let pad = " ".repeat(width.saturating_sub(text.chars().count()));
            let text = painted(&text, if colour { code(cell.tone) } else { "" });
            match column.align {
                Align::Right => {
                    let _ = write!(out, "{pad}{text}");
                }
                Align::Left if i == last => out.push_str(&text),
                Align::Left => {
                    let _ = write!(out, "{text}{pad}");
                }
            }
            if i != last {
                out.push_str("  ");
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
}

/// Several tables as text, separated by empty lines.
pub fn render_all(tables: &[Table], colour: bool) -> String {
    tables.iter().map(|t| t.render(colour)).collect::<Vec<_>>().join("\n")
}

/// The ANSI colour of a tone; `""` for a neutral one.
fn code(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "32",
        Tone::Bad => "1;31",
        Tone::Dim => "2",
    }
}

/// `text` in the ANSI colour `code`.
fn painted(text: &str, code: &str) -> String {
    if code.is_empty() { text.to_owned() } else { format!("\x1b[{code}m{text}\x1b[0m") }
}

/// `text` with every control character replaced by `?`.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn example() -> Table {
        let mut table = Table::new("shares").columns([
            Column::left("tenant"),
            Column::right("rate"),
            Column::left("verdict"),
        ]);
        table.row([Cell::plain("T1"), "125 Mb/s".into(), Cell::verdict(true, "fair", "SHORT")]);
        table.row([Cell::plain("Zoë"), "4 Mb/s".into(), Cell::verdict(false, "fair", "SHORT")]);
        table.note("at full load");
        table
    }

    #[test]
    fn columns_align() {
        expect![[r#"
            shares
            tenant      rate  verdict
            ──────  ────────  ───────
            T1      125 Mb/s  fair
            Zoë       4 Mb/s  SHORT
            at full load
        "#]]
        .assert_eq(&example().render(false));
    }

    #[test]
    fn colours_only_when_asked_and_never_from_outside() {
        assert!(!example().render(false).contains('\x1b'));
        assert!(example().render(true).contains("\x1b[1;31mSHORT\x1b[0m"));
        let mut hostile = Table::new("a\nb").columns([Column::left("c")]);
        hostile.row(["\x1b[2Jgone\r"]);
        assert_eq!(hostile.render(false), "a?b\nc\n─────────\n?[2Jgone?\n");
    }
}
