//! The grammar of algorithms: one function for each production of docs/algorithms.md.
//!
//! The conventions are those of `grammar`, with one exception. An error that no mistake explains ends the whole algorithm: what follows
//! within its braces is skipped. So a wrong sign in an expression is one error.

use super::grammar::{braces, expression, value};
use super::kind::SyntaxKind::*;
use super::mistakes::algorithms::{self as mistakes, Inside};
use super::parser::{Parsed, Parser};

/// The words of the parts that have statements.
pub(super) const EVENTS: &[&str] = &["active", "arrives", "begin", "sent", "idle", "fetched"];
/// The first words of the parts of an algorithm.
pub(crate) const PARTS: &[&str] =
    &["node", "child", "active", "arrives", "rank", "begin", "sent", "idle", "fetched", "from", "follows"];
/// The words of types.
pub(crate) const TYPES: &[&str] =
    &["count", "bytes", "time", "duration", "rate", "vtime", "weight", "signed"];
/// The words of an algorithm that cannot name a parameter, a field or a local value.
pub(crate) const KEYWORDS: &[&str] = &[
    "let", "if", "else", "then", "and", "or", "not", "node", "child", "from", "until", "rerank", "drop",
    "mark", "lowest", "forget", "signed",
];
/// The operators of each precedence, from the loosest.
const LEVELS: [&[&str]; 5] =
    [&["or"], &["and"], &["<", "<=", ">", ">=", "==", "!="], &["+", "-"], &["*", "/"]];
/// The level of comparisons; `not` is above it.
const COMPARISONS: usize = 2;

/// Whether the definition of an algorithm begins at the cursor.
pub(super) fn at_algorithm(p: &Parser<'_>) -> bool {
    p.algorithm_at(0)
}

/// `algorithm = ( "algorithm" | "shaper" | "dropper" ) NAME [ parameters ] "{" { part } "}"`
pub(super) fn algorithm(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    if let Err(stop) = header(p) {
        // Without its header, the body means nothing.
        p.skip_until(|p| p.at(OpenBrace) || p.at_line_start());
        if p.at(OpenBrace) {
            p.enter_body();
            p.skip_until(Parser::at_body_end);
            p.eat(CloseBrace);
        }
        return Err(stop);
    }
    p.enter_body();
    let parsed = parts(p);
    if parsed.is_err() {
        p.skip_until(Parser::at_body_end);
    }
    match p.eat(CloseBrace) {
        true => parsed,
        false => parsed.and_then(|()| mistakes::close(p)),
    }
}

/// `NAME [ parameters ]`, up to the brace
fn header(p: &mut Parser<'_>) -> Parsed {
    p.name(Name, "the name of the algorithm")?;
    if p.at(OpenParen) {
        p.node(ParameterList, parameters)?;
    }
    mistakes::equals_before_body(p);
    if p.at(OpenBrace) {
        return Ok(());
    }
    let help = "the parts of an algorithm are in braces, such as `algorithm fifo { rank = head.arrived }`";
    p.unexpected("`{`", help)
}

/// `parameters = "(" [ parameter { "," parameter } ] ")"`
fn parameters(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    while p.at(Word) {
        p.node(Parameter, parameter)?;
        if !p.eat(Comma) {
            break;
        }
    }
    if p.eat(CloseParen) { Ok(()) } else { p.unexpected("`,` or `)`", "such as `(min: rate, weight)`") }
}

/// `parameter = NAME [ ":" TYPE ] [ "=" constant ]`
fn parameter(p: &mut Parser<'_>) -> Parsed {
    local_name(p, "the name of a parameter")?;
    if p.eat(Colon) {
        type_name(p)?;
    }
    if p.eat(Equals) { constant(p) } else { Ok(()) }
}

/// `TYPE = [ "signed" ] ( "count" | "bytes" | "time" | "duration" | "rate" | "vtime" | "weight" )`
fn type_name(p: &mut Parser<'_>) -> Parsed {
    p.node(TypeName, |p| {
        mistakes::type_word(p);
        let signed = p.eat_word("signed");
        if !p.at(Word) || !TYPES.contains(&p.text()) || (signed && p.at_word("signed")) {
            return p.unexpected("a type", mistakes::TYPES_HELP);
        }
        p.bump();
        Ok(())
    })
}

/// A number with its unit, or the name of a constant.
fn constant(p: &mut Parser<'_>) -> Parsed {
    if p.number_at(0) {
        return p.node(LiteralExpr, |p| {
            literal(p);
            Ok(())
        });
    }
    if p.at(Word) {
        return p.bump_into(PathExpr, |_| Ok(()));
    }
    p.unexpected("a value", "such as `5ms`, `1500` or `never`")
}

/// A number, and its unit if a space is between them.
fn literal(p: &mut Parser<'_>) {
    let number = p.span();
    p.bump();
    mistakes::unit_apart(p, number);
}

/// A name within an algorithm. Words of the rest of the language may be names here.
fn local_name(p: &mut Parser<'_>, what: &str) -> Parsed {
    let text = p.text();
    let form = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !text.contains(['.', '-']);
    if !p.at(Word) || !form || KEYWORDS.contains(&text) {
        return p.unexpected(
            what,
            "a name within an algorithm has letters, digits and `_`, and is no word of algorithms",
        );
    }
    p.bump_into(Name, |_| Ok(()))
}

/// `{ part [ ";" ] }` up to the closing brace
fn parts(p: &mut Parser<'_>) -> Parsed {
    while !p.at_body_end() {
        if p.eat(Semicolon) {
            continue;
        }
        part(p)?;
    }
    Ok(())
}

/// `part = state | event | rank | from | "follows" "head"`
fn part(p: &mut Parser<'_>) -> Parsed {
    mistakes::part_word(p);
    match p.text() {
        "node" | "child" if p.at(Word) => p.bump_into(StatePart, state),
        "rank" if p.at(Word) => p.node(RankPart, rank),
        "from" if p.at(Word) => p.bump_into(FromClause, sum),
        "follows" if p.at(Word) => p.bump_into(FollowsPart, |p| {
            if p.eat_word("head") { Ok(()) } else { p.unexpected("`head`", "such as `follows head`") }
        }),
        word if p.at(Word) && EVENTS.contains(&word) => p.bump_into(EventPart, block),
        _ => mistakes::unknown_part(p),
    }
}

/// `state = ( "node" | "child" ) field { "," field }`, behind its first word
fn state(p: &mut Parser<'_>) -> Parsed {
    loop {
        p.node(Field, field)?;
        if !p.eat(Comma) {
            return Ok(());
        }
    }
}

/// `field = NAME { "," NAME } ":" TYPE [ "=" constant ] [ "forget" "after" TIME ]`
fn field(p: &mut Parser<'_>) -> Parsed {
    local_name(p, "the name of a field")?;
    while p.at(Comma) {
        p.bump();
        local_name(p, "the name of a field")?;
    }
    if !p.eat(Colon) {
        return p.unexpected("`:` and a type", "such as `child credit: signed bytes`");
    }
    type_name(p)?;
    if p.eat(Equals) {
        constant(p)?;
    }
    if p.eat_word("forget") {
        if !p.eat_word("after") {
            return p.unexpected("`after` and a time", "such as `forget after 10s`");
        }
        return constant(p);
    }
    Ok(())
}

/// `rank = "rank" "=" sum { "," sum } [ "from" sum ] [ "until" sum "then" sum { "," sum } ]`
fn rank(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    mistakes::rank_equals(p)?;
    sums(p)?;
    mistakes::clause_word(p);
    if p.at_word("from") {
        p.bump_into(FromClause, sum)?;
        mistakes::clause_word(p);
    }
    if p.at_word("until") {
        p.bump_into(UntilClause, |p| {
            sum(p)?;
            if !p.eat_word("then") {
                return p.unexpected("`then` and a rank", "such as `until since + patience then 0`");
            }
            sums(p)
        })?;
    }
    Ok(())
}

/// `sum { "," sum }`
fn sums(p: &mut Parser<'_>) -> Parsed {
    sum(p)?;
    while p.eat(Comma) {
        sum(p)?;
    }
    Ok(())
}

/// `block = "{" { statement [ ";" ] } "}"`
fn block(p: &mut Parser<'_>) -> Parsed {
    p.node(Block, |p| {
        if !p.at(OpenBrace) {
            return p.unexpected("`{`", "statements are in braces, such as `sent { had += bytes }`");
        }
        p.bump();
        while !(p.at(CloseBrace) || p.at_body_end()) {
            if !p.eat(Semicolon) {
                statement(p)?;
            }
        }
        if p.eat(CloseBrace) { Ok(()) } else { mistakes::close(p) }
    })
}

/// `statement = let | if | assignment | "rerank" | "drop" | "mark"`
fn statement(p: &mut Parser<'_>) -> Parsed {
    p.nested(|p| {
        mistakes::statement_word(p)?;
        match p.text() {
            "let" => p.bump_into(LetStatement, |p| {
                local_name(p, "the name of a value")?;
                mistakes::assigns(p, &["="])?;
                sum(p)
            }),
            "if" => p.bump_into(IfStatement, branches),
            "rerank" | "drop" | "mark" => p.bump_into(ActionStatement, |_| Ok(())),
            _ => p.node(AssignStatement, |p| {
                local_name(p, "a statement")?;
                mistakes::assigns(p, &["=", "+=", "-=", "*=", "/="])?;
                sum(p)
            }),
        }
    })
}

/// `if = "if" sum block [ "else" ( block | if ) ]`, behind its first word
fn branches(p: &mut Parser<'_>) -> Parsed {
    sum(p)?;
    mistakes::then_before_block(p);
    block(p)?;
    if !p.eat_word("else") {
        return Ok(());
    }
    match p.at_word("if") {
        true => p.nested(|p| p.bump_into(IfStatement, branches)),
        false => block(p),
    }
}

/// An expression.
///
/// ```text
/// sum        = both { "or" both } ;
/// both       = negation { "and" negation } ;
/// negation   = "not" negation | comparison ;
/// comparison = term [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) term ] ;
/// term       = factor { ( "+" | "-" ) factor } ;
/// factor     = operand { ( "*" | "/" ) operand } ;
/// ```
fn sum(p: &mut Parser<'_>) -> Parsed {
    level(p, 0)
}

fn level(p: &mut Parser<'_>, at: usize) -> Parsed {
    let Some(operators) = LEVELS.get(at) else { return operand(p) };
    if at == COMPARISONS && p.at_word("not") {
        return p.nested(|p| p.bump_into(NotExpr, |p| level(p, COMPARISONS)));
    }
    let start = p.checkpoint();
    level(p, at + 1)?;
    let mut count = 0;
    // The operands of one level are siblings in the tree, so that a long sum is not a deep tree.
    while mistakes::at_operator(p, operators) {
        count += 1;
        if at == COMPARISONS && count > 1 {
            let help = "comparisons do not chain: write `a < b and b < c`";
            return p.unexpected("`and` or the end of the expression", help);
        }
        p.bump();
        if let Err(stop) = level(p, at + 1) {
            p.wrap(start, BinaryExpr);
            return Err(stop);
        }
    }
    if count > 0 {
        p.wrap(start, BinaryExpr);
    }
    Ok(())
}

/// `operand = NUMBER | NAME | "lowest" NAME | FUNCTION "(" sum { "," sum } ")" | "(" sum ")"`
fn operand(p: &mut Parser<'_>) -> Parsed {
    if p.at(OpenParen) {
        return p.nested(|p| {
            p.bump_into(ParenExpr, |p| {
                sum(p)?;
                if p.eat(CloseParen) { Ok(()) } else { mistakes::close_paren(p, Inside::Parentheses) }
            })
        });
    }
    if p.number_at(0) {
        return p.node(LiteralExpr, |p| {
            literal(p);
            Ok(())
        });
    }
    if p.at_word("lowest") {
        return p.bump_into(LowestExpr, |p| local_name(p, "the name of a field of the children"));
    }
    if !p.at(Word)
        || KEYWORDS.contains(&p.text())
        || p.text().starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_')
    {
        return mistakes::no_operand(p);
    }
    if p.kind_at(1) == Some(OpenParen) && (p.glued(1) || !p.line_start(1)) {
        return p.nested(|p| p.node(CallExpr, call));
    }
    p.bump_into(PathExpr, |_| Ok(()))
}

/// `FUNCTION "(" sum { "," sum } ")"`
fn call(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    p.bump();
    if !p.at(CloseParen) {
        sums(p)?;
    }
    if p.eat(CloseParen) { Ok(()) } else { mistakes::close_paren(p, Inside::Call) }
}

/// The most tokens between an algorithm's name and its `of`.
const ARGUMENTS_MAX: usize = 16;

/// Whether an algorithm at a node or a leaf follows: `NAME {`, `NAME of`, or `NAME` with arguments.
pub(super) fn at_use(p: &Parser<'_>) -> bool {
    if !p.at(Word) {
        return false;
    }
    let here = |ahead: usize| !p.line_start(ahead);
    let argument = here(1)
        && !p.item_at(1)
        && (p.number_at(1) || (p.kind_at(1) == Some(Word) && p.number_at(2) && here(2)));
    if p.knows_algorithm(p.text()) {
        // Another sign replaces the brace.
        let sign = here(1) && matches!(p.kind_at(1), Some(OpenParen | Unknown));
        return p.kind_at(1) == Some(OpenBrace) || p.text_at(1) == "of" || argument || sign;
    }
    // With arguments and `of`, it can be nothing else.
    let ends = |ahead: usize| {
        !here(ahead) || matches!(p.kind_at(ahead), None | Some(Comma | CloseBrace | OpenBrace | Colon))
    };
    let of = (1..ARGUMENTS_MAX).take_while(|ahead| !ends(*ahead)).any(|ahead| p.text_at(ahead) == "of");
    let word = p.text();
    let named = !super::RESERVED.contains(&word) && word.starts_with(|c: char| c.is_ascii_alphabetic());
    argument && of && named && !p.number_at(1) && !super::RESERVED.contains(&p.text_at(1))
}

/// `use = NAME ( "{" argued { "," argued } "}" | [ arguments ] "of" expression )`
pub(super) fn algorithm_use(p: &mut Parser<'_>) -> Parsed {
    mistakes::unknown_algorithm(p);
    p.bump_into(NameRef, |_| Ok(()))?;
    if matches!(p.kind_at(0), Some(OpenBrace | OpenParen | Unknown)) {
        return braces(p, ChildItem, argued_child);
    }
    if !p.at_word("of") {
        p.node(Arguments, arguments)?;
    }
    super::mistakes::word(p, "of", "such as `edf of a` or `edf budget 5ms of a`")?;
    expression(p)
}

/// `argued = expression [ ":" arguments ]`
fn argued_child(p: &mut Parser<'_>) -> Parsed {
    expression(p)?;
    if super::mistakes::colon(p, "the argument") { p.node(Arguments, arguments) } else { Ok(()) }
}

/// `arguments = [ VALUE ] { NAME VALUE }`
fn arguments(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `2ms`, or `min 4gbps max 10gbps`";
    let mut count = 0;
    loop {
        let named = mistakes::argument_sign(p);
        if p.number_at(0) && (named || count == 0) {
            value(p, "an argument", HELP)?;
        } else if p.at(Word) && p.number_at(1) && !p.item_at(0) {
            p.bump_into(Name, |_| Ok(()))?;
            value(p, "the value of the parameter", HELP)?;
        } else {
            break;
        }
        count += 1;
    }
    if count == 0 { p.unexpected("an argument", HELP) } else { Ok(()) }
}
