//! Completion: the words and names that are allowed at a place.

use crate::symbols::{Kind, Symbols};
use gen_lsp_types::{CompletionItem, CompletionItemKind};
use weft_policy::syntax::SyntaxKind;
use weft_policy::{Source, library, parse, words};

/// The words beside those of tests that a value follows.
const VALUED: &[&str] = &["burst", "destination"];
/// The words that begin an item.
const ITEMS: &[&str] =
    &["class", "link", "bound", "latency", "root", "steer", "algorithm", "shaper", "dropper"];
/// The words that begin a goal of steering.
const GOALS: &[&str] = &["balance", "isolate", "priority", "static", "locality", "expression"];

/// The kind of words and names that are allowed at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Item,
    Test,
    AfterTest,
    Node,
    Class,
    /// The name of a class or of a node, which means its classes.
    Steered,
    Words(&'static [&'static str]),
    Body,
    Nothing,
}

/// The completions at byte `offset`. The editor filters them by the letters that are there.
pub(crate) fn completions(text: &str, offset: usize) -> Vec<CompletionItem> {
    let before = text.get(..offset).unwrap_or_default();
    let (tree, _) = parse(Source { name: "", text });
    let symbols = Symbols::new(&tree);
    let keywords =
        |words: &[&str]| words.iter().map(|word| item(word, CompletionItemKind::Keyword, "")).collect();
    match expected(before) {
        Expected::Item => keywords(ITEMS),
        Expected::Test => keywords(&[words::tests(), &["not"]].concat()),
        Expected::AfterTest => keywords(&["and", "or"]),
        Expected::Words(words) => keywords(words),
        Expected::Class => names(&symbols, |kind| kind == Kind::Class),
        Expected::Steered => names(&symbols, |kind| kind != Kind::Algorithm),
        Expected::Node => {
            let mut all: Vec<CompletionItem> = keywords(&words::nodes());
            all.extend(names(&symbols, |kind| kind != Kind::Algorithm));
            all.push(item("default", CompletionItemKind::Class, "packets that no other class takes"));
            all.extend(names(&symbols, |kind| kind == Kind::Algorithm));
            let shipped = library::shipped().iter();
            all.extend(
                shipped.map(|shipped| {
                    item(shipped.name, CompletionItemKind::Function, "algorithm of the library")
                }),
            );
            all
        }
        Expected::Body => {
            let mut all: Vec<CompletionItem> = keywords(&words::algorithm_words());
            all.extend(words::functions().iter().map(|name| item(name, CompletionItemKind::Function, "")));
            all.extend(
                words::algorithm_names().iter().map(|name| item(name, CompletionItemKind::Variable, "")),
            );
            all
        }
        Expected::Nothing => Vec::new(),
    }
}

fn item(label: &str, kind: CompletionItemKind, detail: &str) -> CompletionItem {
    CompletionItem {
        label: label.to_owned(),
        kind: Some(kind),
        detail: (!detail.is_empty()).then(|| detail.to_owned()),
        ..CompletionItem::default()
    }
}

fn names(symbols: &Symbols, wanted: impl Fn(Kind) -> bool) -> Vec<CompletionItem> {
    let known = symbols.definitions.iter().filter(|known| wanted(known.kind));
    let kind = |kind| match kind {
        Kind::Class => CompletionItemKind::Class,
        Kind::Algorithm => CompletionItemKind::Function,
        Kind::Node | Kind::Limit => CompletionItemKind::Module,
    };
    known.map(|known| item(&known.name, kind(known.kind), known.kind.word())).collect()
}

/// A token before the cursor.
struct Token {
    kind: SyntaxKind,
    text: String,
    /// Whether it is the first of its line.
    first: bool,
    /// The braces that are open before it.
    depth: usize,
}

/// The kind that is allowed behind `before`, apart from the word that is being written.
fn expected(before: &str) -> Expected {
    let (mut tokens, in_comment) = tokens(before);
    if in_comment {
        return Expected::Nothing;
    }
    // The word that is being written says nothing about its place.
    let writing = before.ends_with(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let mut at_line_start = before.rsplit('\n').next().unwrap_or_default().trim().is_empty();
    if writing && let Some(last) = tokens.pop() {
        at_line_start = last.first;
    }
    let open = |tokens: &[Token]| {
        tokens.iter().fold(0_usize, |depth, token| match token.kind {
            SyntaxKind::OpenBrace => depth + 1,
            SyntaxKind::CloseBrace => depth.saturating_sub(1),
            _ => depth,
        })
    };
    let depth = open(&tokens);
    let begins = |token: &&Token| token.first && token.depth == 0;
    let start = tokens.iter().rposition(|token| begins(&token)).unwrap_or(0);
    let item = &tokens[start..];
    let word = |at: usize| item.get(at).map_or("", |token| token.text.as_str());
    if depth == 0 && at_line_start && !goes_on(item) {
        return Expected::Item;
    }
    match word(0) {
        _ if words::algorithm_kinds().contains(&word(0)) && word(1) != "=" => {
            if depth > 0 {
                Expected::Body
            } else {
                Expected::Nothing
            }
        }
        "steer" if word(1) != "=" => in_goal(&item[1..]),
        "link" if item.len() == 1 => Expected::Words(&["auto"]),
        "bound" | "latency" if item.last().is_some_and(|token| token.text == "of") => Expected::Class,
        "bound" if item.len() == 2 => Expected::Words(&["packets"]),
        "bound" if item.len() == 3 => Expected::Words(&["of"]),
        "latency" if item.len() == 2 => Expected::Words(&["of"]),
        "class" if item.len() >= 3 => in_condition(&item[3..]),
        "class" | "link" | "bound" | "latency" => Expected::Nothing,
        _ if item.len() >= 2 && word(1) == "=" => in_node(&item[2..]),
        _ => Expected::Nothing,
    }
}

/// Whether an item must continue in the next line.
fn goes_on(item: &[Token]) -> bool {
    let Some(last) = item.last() else { return false };
    matches!(
        last.kind,
        SyntaxKind::Equals | SyntaxKind::OpenBrace | SyntaxKind::OpenParen | SyntaxKind::Comma
    ) || ["and", "or", "not", "of"].contains(&last.text.as_str())
}

/// Within a steering clause.
fn in_goal(tokens: &[Token]) -> Expected {
    let Some(last) = tokens.last() else { return Expected::Words(GOALS) };
    let words: Vec<&str> = tokens.iter().rev().take(3).map(|token| token.text.as_str()).collect();
    match words[..] {
        ["+" | "*", ..] => Expected::Words(GOALS),
        ["balance", ..] => Expected::Words(&["by"]),
        ["by", "balance", ..] => Expected::Words(&["rate", "weight"]),
        ["isolate" | "priority", ..] => Expected::Steered,
        [_, "isolate", ..] => Expected::Words(&["on"]),
        [_, "priority", ..] => Expected::Words(&["by"]),
        [_, "on", ..] => Expected::Words(&["queues"]),
        [_, "by", _] if last.kind == SyntaxKind::Word => Expected::Words(&["flows"]),
        ["{" | ",", ..] if tokens.iter().any(|token| token.text == "static") => Expected::Steered,
        _ => Expected::Nothing,
    }
}

fn in_condition(tokens: &[Token]) -> Expected {
    match tokens.last() {
        None => Expected::Test,
        Some(last)
            if last.kind == SyntaxKind::OpenParen || ["and", "or", "not"].contains(&last.text.as_str()) =>
        {
            Expected::Test
        }
        Some(last) if words::is_valued_test(&last.text) || VALUED.contains(&last.text.as_str()) => {
            Expected::Nothing
        }
        Some(last) if ["tcp", "udp", "sctp"].contains(&last.text.as_str()) => {
            Expected::Words(&["and", "or", "port", "sport", "dport"])
        }
        Some(_) => Expected::AfterTest,
    }
}

fn in_node(tokens: &[Token]) -> Expected {
    let Some(last) = tokens.last() else { return Expected::Node };
    let before =
        tokens.len().checked_sub(2).and_then(|at| tokens.get(at)).map_or("", |token| token.text.as_str());
    let limits = tokens.iter().rev().any(|token| token.text == "limit");
    match (last.kind, last.text.as_str()) {
        (_, "of") => Expected::Node,
        (SyntaxKind::OpenBrace | SyntaxKind::Comma, _) if in_limits(tokens) => Expected::Nothing,
        (SyntaxKind::OpenBrace | SyntaxKind::Comma, _) => Expected::Node,
        (_, "limit") => Expected::Words(&["by"]),
        (_, "by") => Expected::Words(&["destination", "port"]),
        (_, "fair") => Expected::Words(&["of"]),
        (_, "burst" | "to") => Expected::Nothing,
        (SyntaxKind::CloseBrace, _) if limits => Expected::Words(&["of"]),
        (SyntaxKind::Word, _) if ["limit", "burst", "to"].contains(&before) => {
            Expected::Words(&["burst", "to", "of"])
        }
        _ => Expected::Nothing,
    }
}

/// Whether the innermost open brace is that of `limit by`.
fn in_limits(tokens: &[Token]) -> bool {
    let mut closed = 0;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token.kind {
            SyntaxKind::CloseBrace => closed += 1,
            SyntaxKind::OpenBrace if closed > 0 => closed -= 1,
            SyntaxKind::OpenBrace => {
                let before = at.checked_sub(2).and_then(|by| tokens.get(by));
                return before.is_some_and(|before| before.text == "by");
            }
            _ => {}
        }
    }
    false
}

/// The tokens of a text, and whether it ends within a comment.
fn tokens(before: &str) -> (Vec<Token>, bool) {
    let (tree, _) = parse(Source { name: "", text: before });
    let (mut tokens, mut first, mut depth, mut in_comment) = (Vec::new(), true, 0_usize, false);
    for token in tree.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token) {
        in_comment = token.kind() == SyntaxKind::Comment;
        if token.kind().is_trivia() {
            first |= token.text().contains('\n');
            continue;
        }
        tokens.push(Token { kind: token.kind(), text: token.text().to_owned(), first, depth });
        first = false;
        match token.kind() {
            SyntaxKind::OpenBrace => depth += 1,
            SyntaxKind::CloseBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (tokens, in_comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_follows_from_what_is_there() {
        for (before, wanted) in [
            ("", Expected::Item),
            ("link 1gbps\ncl", Expected::Item),
            ("class a = ", Expected::Test),
            ("class a = tcp and (d", Expected::Test),
            ("class a = mark 3 ", Expected::AfterTest),
            ("class a = mark ", Expected::Nothing),
            ("class a = udp\nroot = ", Expected::Node),
            ("root = priority {\n  a,\n  ", Expected::Node),
            ("root = wfq { fair of ", Expected::Node),
            ("x = limit ", Expected::Words(&["by"])),
            ("x = limit 2gbps ", Expected::Words(&["burst", "to", "of"])),
            ("x = limit by destination { ", Expected::Nothing),
            ("x = limit by destination { 10.0.0.0/8: 1gbps } ", Expected::Words(&["of"])),
            ("bound 5 packets of ", Expected::Class),
            ("algorithm a {\n  ra", Expected::Body),
            ("steer ", Expected::Words(GOALS)),
            ("steer 0.5 * loc", Expected::Words(GOALS)),
            ("steer isolate ", Expected::Steered),
            ("steer isolate kvs ", Expected::Words(&["on"])),
            ("steer isolate kvs on 4 ", Expected::Words(&["queues"])),
            ("steer priority kvs by 8 ", Expected::Words(&["flows"])),
            ("steer balance by ", Expected::Words(&["rate", "weight"])),
            ("steer static { kvs: 1, ", Expected::Steered),
            ("# ", Expected::Nothing),
        ] {
            assert_eq!(expected(before), wanted, "{before:?}");
        }
    }
}
