//! The grammar: one function for each production of docs/policy-language.md, in the order of that document.
//!
//! The parser is a recursive descent over the tokens, and builds the tree as it reads. Conventions of the functions:
//!
//! - The doc comment of a function is its production. `"word"` is a keyword, `NAME` and the like are tokens, `[ ]` is
//!   optional, `{ }` repeats.
//! - The caller opens the node (`p.node(Kind, production)`); the production adds its parts. So an incomplete construct still has
//!   its node. An operator node is the exception: `joined` wraps it around its first operand once an operator follows.
//! - A production that begins with a keyword is called with the cursor at that keyword and consumes it without a check.
//! - `Ok` means that the construct was read to its end. `Err(Stop)` means that a diagnostic was recorded and the
//!   rest of the construct cannot be read; the caller recovers.
//!
//! Recovery takes place at two levels only. `file` skips to the next item, and `braces` skips to the next comma or the closing brace.
//! An item begins at a keyword (`class`, `link`, `bound`) or at `NAME =`, which no expression contains. Therefore every skip
//! also stops at an item: a missing brace costs one item and not the rest of the file.
//!
//! These rules hold:
//!
//! - Every token enters the tree exactly once, including white space, comments and errors.
//! - Each iteration of a loop consumes at least one token or ends the loop, so parsing terminates.
//! - Every production that can contain itself calls `p.nested`, which bounds the recursion.
//!
//! Each error branch records a diagnostic with a code, so none needs a counter.

use super::kind::SyntaxKind::*;
use super::parser::{Parsed, Parser};
use crate::code::Code;

/// `file = { item }`
pub(super) fn file(p: &mut Parser<'_>) {
    let mut after_whole_item = false;
    while !p.at_end() {
        let before = p.position();
        if after_whole_item && p.at_item() && !p.at_line_start() {
            let _ = p.unexpected(
                "the end of the line",
                "each item begins on a line of its own; the bound of one class is `bound 500 packets of NAME`",
            );
        }
        let parsed = if p.at_word("link") {
            p.node(LinkItem, link)
        } else if p.at_word("bound") {
            p.node(BoundItem, bound)
        } else if p.at_latency() {
            p.node(LatencyItem, latency)
        } else if p.at_word("class") {
            p.node(ClassItem, class)
        } else if p.at_definition() {
            p.node(NodeItem, node)
        } else {
            p.unexpected(
                "`class`, `link`, `bound` or `NAME = ...`",
                "each line defines one item, such as `root = priority { mgmt, tenants }`",
            )
        };
        after_whole_item = parsed.is_ok();
        if parsed.is_err() {
            if p.position() == before {
                p.bump();
            }
            p.skip_until(|_| false);
        }
    }
}

/// `latency = "latency" TIME "of" NAME`
fn latency(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `latency 200us of voice`";
    p.bump();
    value(p, "a time", HELP)?;
    p.expect_word("of", HELP)?;
    p.name(NameRef, "the name of a class")
}

/// `link = "link" ( RATE | "auto" )`
fn link(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    value(p, "the link's rate", "such as `link 40gbps` or `link auto`")
}

/// `bound = "bound" NUMBER "packets" [ "of" NAME ]`
fn bound(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `bound 20000 packets` or `bound 500 packets of bulk`";
    p.bump();
    value(p, "a number of packets", HELP)?;
    p.expect_word("packets", HELP)?;
    if p.eat_word("of") { p.name(NameRef, "the name of a class") } else { Ok(()) }
}

/// `class = "class" NAME "=" condition`
fn class(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `class web = tcp and dport 80..443`";
    p.bump();
    p.name(Name, "the name of the class")?;
    p.expect(Equals, "`=`", HELP)?;
    condition(p)
}

/// `condition = conjunction { "or" conjunction }`
fn condition(p: &mut Parser<'_>) -> Parsed {
    joined(p, "or", OrCondition, conjunction)
}

/// `conjunction = negation { "and" negation }`
fn conjunction(p: &mut Parser<'_>) -> Parsed {
    joined(p, "and", AndCondition, negation)
}

/// One or more of `part`, joined by `word`; wrapped in a node of `kind` if there are several.
fn joined(
    p: &mut Parser<'_>,
    word: &str,
    kind: super::SyntaxKind,
    part: impl Fn(&mut Parser<'_>) -> Parsed,
) -> Parsed {
    let start = p.checkpoint();
    let mut parsed = part(p);
    let mut several = false;
    while parsed.is_ok() && p.eat_word(word) {
        several = true;
        parsed = part(p);
    }
    if several {
        p.wrap(start, kind);
    }
    parsed
}

/// `negation = "not" negation | "(" condition ")" | protocol ports | test`
fn negation(p: &mut Parser<'_>) -> Parsed {
    p.nested(|p| {
        if p.at_word("not") {
            return p.node(NotCondition, |p| {
                p.bump();
                negation(p)
            });
        }
        if p.at(OpenParen) {
            return p.node(ParenCondition, |p| {
                p.bump();
                condition(p)?;
                p.expect(CloseParen, "`)`", "close the parenthesis")
            });
        }
        let start = p.checkpoint();
        let transport = ["tcp", "udp", "sctp"].iter().any(|word| p.at_word(word));
        p.node(Test, test)?;
        if !(transport && at_ports(p)) {
            return Ok(());
        }
        let parsed = p.node(Test, test);
        p.wrap(start, AndCondition);
        parsed
    })
}

/// Whether a test of ports follows: `tcp port 80` means `tcp and port 80`.
fn at_ports(p: &Parser<'_>) -> bool {
    ["port", "sport", "dport"].iter().any(|word| p.at_word(word))
}

/// `test = "any" | "tcp" | ... | "cgroup" TEXT | "port" TEXT`
fn test(p: &mut Parser<'_>) -> Parsed {
    let (what, help) = match p.text() {
        "any" | "tcp" | "udp" | "sctp" | "icmp" | "icmpv6" => {
            p.bump();
            return Ok(());
        }
        "cgroup" => {
            p.bump();
            return p.expect(Text, "a path in quotes", "such as `cgroup \"/system.slice/mgmt\"`");
        }
        "port" if p.next_is(Text) => {
            p.bump();
            p.bump();
            return Ok(());
        }
        "protocol" => ("a protocol number", "such as `protocol 47`"),
        "port" | "sport" | "dport" => ("a port", "such as `dport 443` or `port 8000..8080`"),
        "from" | "to" => ("an address prefix", "such as `to 10.0.1.0/24` or `from fd00::/8`"),
        "mark" => ("a mark", "such as `mark 0x10` or `mark 0x10/0xff`"),
        "priority" => ("a number", "such as `priority 3`"),
        _ => {
            return p.unexpected(
                "a test",
                "a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, \
                 from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup \"PATH\", port \"NAME\"",
            );
        }
    };
    p.bump();
    value(p, what, help)
}

/// `node = NAME "=" expression`
fn node(p: &mut Parser<'_>) -> Parsed {
    p.name(Name, "the name of the node")?;
    p.expect(Equals, "`=`", "such as `root = priority { mgmt, tenants }`")?;
    expression(p)
}

/// `expression = NAME | "priority" children | "wfq" children | "fifo" children | fair | limit`
fn expression(p: &mut Parser<'_>) -> Parsed {
    p.nested(|p| match p.text() {
        "priority" => p.node(PriorityExpr, |p| {
            p.bump();
            braces(p, ChildItem, child)
        }),
        "wfq" => p.node(WfqExpr, |p| {
            p.bump();
            braces(p, ChildItem, child)
        }),
        "fifo" => p.node(FifoExpr, |p| {
            p.bump();
            braces(p, ChildItem, child)
        }),
        "fair" => p.node(FairExpr, |p| {
            p.bump();
            p.expect_word("of", "write `fair of CLASS`: its flows share fairly")?;
            expression(p)
        }),
        "limit" => p.node(LimitExpr, limit),
        _ if p.at_item() => {
            p.unexpected("an expression", "an item begins here, but the one before it is not finished")
        }
        _ => p.name(NameRef, "a name, `priority`, `wfq`, `fair`, `fifo` or `limit`"),
    })
}

/// `{`, parts separated by commas, `}`. Skips a part that cannot be read.
fn braces(p: &mut Parser<'_>, kind: super::SyntaxKind, part: fn(&mut Parser<'_>) -> Parsed) -> Parsed {
    p.expect(OpenBrace, "`{`", "list its entries in braces, separated by commas")?;
    while !p.at_end() && !p.at(CloseBrace) && !p.at_item() {
        if p.node(kind, part).is_err() {
            p.skip_until(|p| p.at(Comma) || p.at(CloseBrace));
        }
        if p.at(CloseBrace) || p.at_end() || p.at_item() {
            break;
        }
        if !p.eat(Comma) {
            let _ = p.unexpected("`,` or `}`", "separate the entries in braces by commas");
            if !p.at(Word) {
                p.skip_until(|p| p.at(Comma) || p.at(CloseBrace));
                p.eat(Comma);
            }
        }
    }
    p.expect(CloseBrace, "`}`", "close the brace")
}

/// `child = expression [ ":" WEIGHT ]`
fn child(p: &mut Parser<'_>) -> Parsed {
    expression(p)?;
    if p.eat(Colon) { value(p, "a weight", "such as `vm1: 2`") } else { Ok(()) }
}

/// `limit = "limit" ( "by" "destination" destinations | RATE { burst | "to" PREFIX } ) "of" expression`
fn limit(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `limit 2gbps of apps`, `limit 2gbps burst 64kib to 10.0.1.0/24 of apps` or \
                        `limit by destination { 10.0.1.0/24: 2gbps } of apps`";
    p.bump();
    if p.eat_word("by") {
        p.expect_word("destination", HELP)?;
        braces(p, DestinationItem, destination)?;
    } else {
        value(p, "a rate or `by destination`", HELP)?;
        while p.at_word("burst") || p.at_word("to") {
            if p.at_word("burst") {
                p.node(Burst, burst)?;
            } else {
                p.node(Test, test)?;
            }
        }
    }
    p.expect_word("of", HELP)?;
    expression(p)
}

/// `destination = PREFIX ":" RATE [ burst ]`
fn destination(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `10.0.1.0/24: 2gbps`";
    value(p, "an address prefix", HELP)?;
    p.expect(Colon, "`:`", HELP)?;
    value(p, "a rate", HELP)?;
    if p.at_word("burst") { p.node(Burst, burst) } else { Ok(()) }
}

/// `burst = "burst" SIZE`
fn burst(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    value(p, "a size", "such as `burst 64kib`")
}

/// A number, rate, size, mark, range of ports, address or prefix: adjacent tokens without white space. A colon is part of
/// it inside an IPv6 address only.
fn value(p: &mut Parser<'_>, what: &str, help: &str) -> Parsed {
    let keyword = super::RESERVED.contains(&p.text());
    if keyword || p.at_item() || !(p.at(Word) || p.at(DoubleColon)) {
        return p.unexpected(what, help);
    }
    p.node(Value, |p| {
        let (mut colon, mut dot, mut slash) = (p.at(DoubleColon), p.text().contains('.'), false);
        p.bump();
        while p.at_glued() {
            let colon_of_address = p.at(Colon) && (colon || !dot) && p.word_glued_behind();
            if p.at(Slash) && !slash {
                slash = true;
            } else if !slash && (p.at(DoubleColon) || colon_of_address) {
                colon = true;
            } else if p.at(Word) {
                dot |= p.text().contains('.');
            } else {
                break;
            }
            p.bump();
        }
        Ok(())
    })?;
    if p.at(Word) && is_unit(p.text()) {
        let message = format!("the unit `{}` stands apart from its number", p.text());
        p.find(Code::Unexpected, p.span(), message, "write them together, such as `40gbps` or `64kib`");
        p.bump();
    }
    Ok(())
}

/// Whether `word` is a unit of rates or sizes, which some authors separate from the number.
fn is_unit(word: &str) -> bool {
    ["bps", "kbps", "mbps", "gbps", "tbps", "kbit", "mbit", "gbit", "kb", "mb", "kib", "mib"].contains(&word)
}
