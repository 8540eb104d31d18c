//! The disciplines of nodes with their children in braces, as one table: a row has everything that the language says of one. What a
//! discipline does is in the engine.

use crate::corrections::{Synonyms, pairs};
use Children::{Alike, Ordered, Weighted};
use weft_sched::program::Discipline;
use weft_text::nearest;
use weft_units::Weight;

/// A discipline of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Native {
    Priority,
    Wfq,
    Fifo,
}

/// The difference between the children of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Children {
    /// The first is before the others. A `default` that the policy does not place is the last.
    Ordered,
    /// Each has a weight. A `default` that the policy does not place has weight 1.
    Weighted,
    /// They are equal. A `default` that the policy does not place is behind the whole node.
    Alike,
}

/// A row of the table.
pub(crate) struct Row {
    of: Native,
    /// The word that begins the node.
    pub(crate) word: &'static str,
    pub(crate) children: Children,
    /// The engine's form with the weights of the children; `None` for what merges classes into one leaf.
    pub(crate) engine: Option<fn(Vec<Weight>) -> Discipline>,
    /// Other languages' words for it.
    synonyms: &'static [&'static str],
    /// The noun in messages.
    pub(crate) noun: &'static str,
    /// Its effect, behind its word.
    does: &'static str,
    /// Its line in `weft policy show`.
    pub(crate) shown: &'static str,
    /// An example and its meaning, for the guide.
    #[cfg(test)]
    guide: [&'static str; 2],
}

/// All disciplines.
pub(crate) const ROWS: &[Row] = &[
    Row {
        of: Native::Priority,
        word: "priority",
        children: Ordered,
        engine: Some(|_| Discipline::Priority),
        synonyms: &["prio", "sp"],
        noun: "strict priority",
        does: "serves the first child with packets",
        shown: "strict priority, the first child with packets is served",
        #[cfg(test)]
        guide: ["priority { a, b, c }", "strict priority: the first child with packets is served"],
    },
    Row {
        of: Native::Wfq,
        word: "wfq",
        children: Weighted,
        engine: Some(Discipline::Wfq),
        synonyms: &["htb", "hfsc", "wrr", "ets", "weighted", "share", "shares"],
        noun: "weighted fair queueing",
        does: "shares by weights",
        shown: "weighted fair queueing",
        #[cfg(test)]
        guide: [
            "wfq { a: 1, b: 4 }",
            "weighted fair queueing: shares in proportion to the weights; unused capacity goes to the others",
        ],
    },
    Row {
        of: Native::Fifo,
        word: "fifo",
        children: Alike,
        engine: None,
        synonyms: &["pfifo", "bfifo", "queue"],
        noun: "a FIFO",
        does: "keeps the order of arrival",
        shown: "FIFO",
        #[cfg(test)]
        guide: ["fifo { a, b }", "the packets of the classes leave in the order of their arrival"],
    },
];

const _: () = {
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].of as usize == at, "rows are in the order of their cases");
        at += 1;
    }
};

impl Native {
    /// The row of the table.
    pub(crate) const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Whether its children differ so.
    pub(crate) fn has(self, children: Children) -> bool {
        self.row().children == children
    }

    /// The discipline that `word` is for the parser, which corrects a word of another language and a misspelt one.
    pub(crate) fn meant(word: &str) -> Option<Self> {
        let word = nearest(word, words(), &pairs(&synonyms()));
        ROWS.iter().find(|row| Some(row.word) == word).map(|row| row.of)
    }
}

/// Whether a node with children in braces begins with `word`.
pub(crate) fn is_word(word: &str) -> bool {
    ROWS.iter().any(|row| row.word == word)
}

/// The words.
pub(crate) fn words() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.word).collect()
}

/// The words with other languages' words for them.
pub(crate) fn synonyms() -> Vec<Synonyms> {
    ROWS.iter().map(|row| (row.word, row.synonyms)).collect()
}

/// The effect of each discipline, in a sentence.
pub(crate) fn sentence() -> String {
    ROWS.iter().map(|row| format!("`{}` {}", row.word, row.does)).collect::<Vec<_>>().join(", ")
}

/// The beginnings of an expression, as alternatives behind a name. The one that merges its children is the last row, and is behind `fair`.
pub(crate) fn expressions() -> String {
    let mut all = words();
    all.insert(all.len() - 1, "fair");
    all.push("limit");
    format!("a name, {}", either(&all))
}

/// Words as alternatives.
pub(crate) fn either(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// The row of one of the engine's disciplines; `None` for a user-defined algorithm.
pub(crate) fn row_of(discipline: &Discipline) -> Option<&'static Row> {
    let native = discipline.native();
    ROWS.iter()
        .find(|row| native.is_some() && row.engine.and_then(|make| make(Vec::new()).native()) == native)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Compares a file of the repository with `wanted` made of it; `UPDATE_EXPECT=1` writes it there.
    fn check(path: &str, wanted: impl Fn(&str) -> String) {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&path).expect("the file is there");
        let wanted = wanted(&text);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, wanted).expect("the file can be written");
        } else {
            assert!(
                text == wanted,
                "{path} differs from the table of disciplines; UPDATE_EXPECT=1 writes it"
            );
        }
    }

    /// The text with `new` between the first `before` and the next `after`.
    fn between(text: &str, before: &str, after: &str, new: &str) -> String {
        let (head, rest) = text.split_once(before).expect("the beginning is there");
        let (_, rest) = rest.split_once(after).expect("the end is there");
        format!("{head}{before}{new}{after}{rest}")
    }

    #[test]
    fn every_discipline_of_the_engine_has_a_row() {
        let found: Vec<_> = Discipline::NATIVE.iter().map(|make| row_of(&make(Vec::new()))).collect();
        assert!(found.iter().all(Option::is_some), "a row for each of Discipline::NATIVE");
        for make in ROWS.iter().filter_map(|row| row.engine) {
            assert!(make(Vec::new()).native().is_some(), "Discipline::NATIVE has {:?}", make(Vec::new()));
        }
    }

    #[test]
    fn the_guide_and_the_vim_syntax_have_the_rows() {
        check("docs/policy-language.md", |text| {
            let line = |row: &Row| format!("| `{}` | {} |\n", row.guide[0], row.guide[1]);
            let table: String = ROWS.iter().map(line).collect();
            let text = between(text, "| node | meaning |\n|---|---|\n", "| `fair of", &table);
            let words: Vec<String> = ROWS.iter().map(|row| format!("\"{}\"", row.word)).collect();
            between(&text, "expression  = NAME | ( ", " ) \"{\" child", &words.join(" | "))
        });
        check("editors/vim/syntax/weft.vim", |text| {
            let others = ["burst", "by", "destination", "fair", "limit", "of"];
            let mut all = [&others[..], &words()].concat();
            all.sort_unstable();
            between(text, "syntax keyword weftNode ", "\n", &all.join(" "))
        });
    }
}
