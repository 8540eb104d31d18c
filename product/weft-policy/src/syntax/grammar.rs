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
//! Recovery takes place at two levels only. `file` skips to the next line that begins an item, and `braces` skips to the next comma
//! or the closing brace. An item begins at a keyword (`class`, `link`, `bound`) or at `NAME =`, which no expression contains.
//! Therefore a list ends at an item: a missing brace costs one item and not the rest of the file.
//!
//! `mistakes` finds the ordinary mistakes. A production asks it where one is likely; a mistake that is recognized is reported with
//! its fix, and the production continues with what was meant. What is not recognized is reported as unexpected.
//!
//! These rules hold:
//!
//! - Every token enters the tree exactly once, including white space, comments and errors.
//! - Each iteration of a loop consumes at least one token or ends the loop, so parsing terminates.
//! - Every production that can contain itself calls `p.nested`, which bounds the recursion.
//!
//! Each error branch records a diagnostic with a code, so none needs a counter.

use super::algorithms;
use super::kind::SyntaxKind::*;
use super::mistakes::{self, Opening};
use super::parser::{Parsed, Parser, Stop};
use super::{steering, tenants};
use crate::attributes;
use crate::disciplines::{self, Children, ROWS};
use weft_packet::Attribute;

/// `file = { item }`
pub(super) fn file(p: &mut Parser<'_>) {
    let mut after_whole_item = false;
    while !p.at_end() {
        let before = p.position();
        let parsed = match after_whole_item && !p.at_line_start() {
            true => mistakes::leftover(p).and_then(|()| item(p)),
            false => item(p),
        };
        after_whole_item = parsed.is_ok();
        if parsed.is_err() {
            if p.position() == before {
                p.discard();
            }
            p.skip_until(mistakes::at_item_or_mistake);
        }
    }
}

/// `item = link | bound | latency | steer | algorithm | class | node`
fn item(p: &mut Parser<'_>) -> Parsed {
    p.stray_brace = false;
    mistakes::item_word(p);
    if p.at_word("link") {
        p.node(LinkItem, link)
    } else if p.at_word("bound") {
        p.node(BoundItem, bound)
    } else if p.at_latency() {
        p.node(LatencyItem, latency)
    } else if steering::at_steer(p) {
        p.node(SteerItem, steering::steer)
    } else if mistakes::goal_without_steer(p) {
        p.node(SteerItem, steering::goals)
    } else if algorithms::at_algorithm(p) {
        p.node(AlgorithmItem, algorithms::algorithm)
    } else if p.at_word("class") && mistakes::node_as_class(p) {
        p.discard();
        p.node(NodeItem, node)
    } else if p.at_word("class") {
        p.bump_into(ClassItem, class)
    } else if mistakes::class_without_word(p) {
        p.node(ClassItem, class)
    } else if mistakes::at_node(p) {
        p.node(NodeItem, node)
    } else if p.kind_at(1) == Some(Unknown) && !p.line_start(1) && p.text_at(1) != "%" {
        // The character was reported; it probably means `=`.
        Err(Stop)
    } else {
        p.unexpected(
            "`class`, `link`, `bound` or `NAME = ...`",
            "each line defines one item, such as `root = priority { mgmt, tenants }`",
        )
    }
}

/// `latency = "latency" TIME "of" NAME`
fn latency(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `latency 200us of voice`";
    p.bump();
    value(p, "a time", HELP)?;
    mistakes::word(p, "of", HELP)?;
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
    mistakes::word(p, "packets", HELP)?;
    if p.eat_word("of") { p.name(NameRef, "the name of a class") } else { Ok(()) }
}

/// `class = "class" NAME "=" condition`, behind its first word
fn class(p: &mut Parser<'_>) -> Parsed {
    p.name(Name, "the name of the class")?;
    mistakes::equals(p, "such as `class web = tcp and dport 80..443`")?;
    condition(p)
}

/// `condition = conjunction { "or" conjunction }`
pub(super) fn condition(p: &mut Parser<'_>) -> Parsed {
    joined(p, "or", OrCondition, conjunction)
}

/// `conjunction = negation { "and" negation }`
fn conjunction(p: &mut Parser<'_>) -> Parsed {
    joined(p, "and", AndCondition, negation)
}

/// One or more of `part`, joined by `word`; wrapped in a node of `kind` if there are several.
fn joined(
    p: &mut Parser<'_>,
    word: &'static str,
    kind: super::SyntaxKind,
    part: impl Fn(&mut Parser<'_>) -> Parsed,
) -> Parsed {
    let start = p.checkpoint();
    let mut parsed = part(p);
    let mut several = false;
    while parsed.is_ok() && mistakes::joins(p, word) {
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
        if mistakes::negates(p) {
            return p.node(NotCondition, |p| {
                p.bump();
                negation(p)
            });
        }
        if p.at(OpenParen) {
            return p.node(ParenCondition, |p| {
                p.bump();
                condition(p)?;
                mistakes::close_paren(p)
            });
        }
        let start = p.checkpoint();
        p.node(Test, test)?;
        let transport = ["tcp", "udp", "sctp"].contains(&p.text_before());
        if transport {
            mistakes::ports_word(p, TESTS);
        }
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

/// The tests, for help.
const TESTS: &str = "a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, \
                     from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup \"PATH\", port \"NAME\", vlan N, pcp N, \
                     dscp N, ecn N, user \"NAME\", classid N, cookie N, process \"NAME\"";

/// `test = "any" | "tcp" | ... | "cgroup" TEXT | "port" TEXT`
fn test(p: &mut Parser<'_>) -> Parsed {
    let (before, start) = (p.text_before(), p.span().start);
    mistakes::test_word(p, TESTS)?;
    let keyword = p.text();
    let (what, help) = match keyword {
        "any" | "tcp" | "udp" | "sctp" | "icmp" | "icmpv6" => {
            p.bump();
            return Ok(());
        }
        "cgroup" => {
            p.bump();
            return mistakes::in_quotes(p, "a path in quotes", "such as `cgroup \"/system.slice/mgmt\"`");
        }
        "process" => {
            p.bump();
            return mistakes::in_quotes(p, "a name in quotes", attributes::help(Attribute::Process));
        }
        "port" | "user" if p.next_is(Text) => {
            p.bump();
            p.bump();
            return Ok(());
        }
        "protocol" => ("a protocol number", "such as `protocol 47`"),
        "port" | "sport" | "dport" => ("a port", "such as `dport 443` or `port 8000..8080`"),
        "from" | "to" => ("an address prefix", "such as `to 10.0.1.0/24` or `from fd00::/8`"),
        "mark" => ("a mark", "such as `mark 0x10` or `mark 0x10/0xff`"),
        "priority" => ("a number", "such as `priority 3`"),
        other => Attribute::named(other)
            .map_or(("a number", ""), |of| (attributes::noun(of), attributes::help(of))),
    };
    p.bump();
    if keyword == "protocol" && mistakes::named_protocol(p, start) {
        return Ok(());
    }
    if mistakes::value_set(p, keyword, before, start) {
        return Ok(());
    }
    let value_start = p.span().start;
    value(p, what, help)?;
    match keyword {
        "from" | "to" => mistakes::port_of_address(p, keyword),
        "port" | "sport" | "dport" => mistakes::range_apart(p, value_start),
        _ => {}
    }
    mistakes::value_list(p, keyword, before, start);
    Ok(())
}

/// `node = NAME "=" expression`
fn node(p: &mut Parser<'_>) -> Parsed {
    p.name(Name, "the name of the node")?;
    mistakes::equals(p, "such as `root = priority { mgmt, tenants }`")?;
    expression(p)
}

/// `expression = NAME | DISCIPLINE children | fair | limit | use | tenant`
pub(super) fn expression(p: &mut Parser<'_>) -> Parsed {
    p.nested(|p| {
        if tenants::at_tenant(p) {
            return p.node(TenantExpr, tenants::tenant);
        }
        if algorithms::at_use(p) {
            return p.node(AlgorithmExpr, algorithms::algorithm_use);
        }
        mistakes::node_word(p);
        if algorithms::at_use(p) {
            return p.node(AlgorithmExpr, algorithms::algorithm_use);
        }
        if let Some(row) = ROWS.iter().find(|row| row.word == p.text()) {
            let child = if row.children == Children::Weighted { weighted_child } else { child };
            return p.bump_into(DisciplineExpr, |p| braces(p, ChildItem, child));
        }
        match p.text() {
            "fair" => {
                let start = p.span().start;
                p.bump_into(FairExpr, |p| {
                    mistakes::word(p, "of", "write `fair of CLASS`: its flows share fairly")?;
                    mistakes::fair_of_list(p, start);
                    expression(p)
                })
            }
            "limit" => p.bump_into(LimitExpr, limit),
            "of" => mistakes::of_without_fair(p),
            _ if p.at_item() => {
                p.unexpected("an expression", "an item begins here, but the one before it is not finished")
            }
            _ => match mistakes::unknown_node(p, |p| braces(p, ChildItem, weighted_child)) {
                Some(stop) => Err(stop),
                None => p.name(NameRef, &disciplines::expressions()),
            },
        }
    })
}

/// `{`, parts separated by commas, `}`. Skips a part that cannot be read.
pub(super) fn braces(
    p: &mut Parser<'_>,
    kind: super::SyntaxKind,
    part: fn(&mut Parser<'_>) -> Parsed,
) -> Parsed {
    let opening = Opening::read(p)?;
    let at_end = |p: &Parser<'_>| p.at_end() || opening.at_close(p) || p.at_item();
    mistakes::superfluous_comma(p);
    while !at_end(p) {
        if p.node(kind, part).is_err() {
            p.skip_until(|p| p.at(Comma) || at_end(p));
        }
        if at_end(p) || p.at_word("of") {
            break;
        }
        if mistakes::closes_otherwise(p, opening) {
            return Ok(());
        }
        if mistakes::comma_for_colon(p) {
            p.eat(Comma);
            continue;
        }
        if p.eat(Comma) {
            mistakes::superfluous_comma(p);
            // Nothing but a child begins with `of`, and that is a mistake too.
            if kind == DestinationItem && p.at_word("of") {
                break;
            }
        } else if !mistakes::separator(p) {
            p.skip_until(|p| p.at(Comma) || at_end(p));
            p.eat(Comma);
        }
    }
    opening.close(p)
}

/// `child = expression [ ":" WEIGHT ]`, where the weight is superfluous
fn child(p: &mut Parser<'_>) -> Parsed {
    expression(p)?;
    if !mistakes::colon_for_comma(p) && p.eat(Colon) { weight(p) } else { Ok(()) }
}

/// `child = expression [ ":" WEIGHT ]`, where the weight is needed
fn weighted_child(p: &mut Parser<'_>) -> Parsed {
    expression(p)?;
    if mistakes::colon(p, "the weight") { weight(p) } else { Ok(()) }
}

fn weight(p: &mut Parser<'_>) -> Parsed {
    value(p, "a weight", "such as `vm1: 2`")
}

/// `limit = "limit" ( by | RATE { burst | "to" PREFIX } ) "of" expression`, behind its first word
fn limit(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `limit 2gbps of apps`, `limit 2gbps burst 64kib to 10.0.1.0/24 of apps` or \
                        `limit by destination { 10.0.1.0/24: 2gbps } of apps`";
    if p.eat_word("by") {
        if p.eat_word("port") || mistakes::by_port(p) {
            braces(p, PortItem, port)?;
        } else {
            mistakes::word(p, "destination", HELP)?;
            braces(p, DestinationItem, destination)?;
        }
    } else {
        mistakes::word_before_rate(p);
        value(p, "a rate or `by destination`", HELP)?;
        loop {
            mistakes::burst_word(p);
            if !p.at_word("burst") && !p.at_word("to") {
                break;
            }
            if p.at_word("burst") {
                p.node(Burst, burst)?;
            } else if mistakes::limit_to_class(p) {
                p.bump();
                return expression(p);
            } else {
                p.node(Test, test)?;
            }
        }
    }
    mistakes::word(p, "of", HELP)?;
    expression(p)
}

/// `destination = PREFIX ":" RATE [ burst ]`
fn destination(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `10.0.1.0/24: 2gbps`";
    let start = p.span().start;
    value(p, "an address prefix", HELP)?;
    if !mistakes::rate_behind_address(p, start) {
        if !mistakes::colon(p, "the rate") {
            return p.unexpected("`:`", HELP);
        }
        value(p, "a rate", HELP)?;
    }
    mistakes::burst_word(p);
    if p.at_word("burst") { p.node(Burst, burst) } else { Ok(()) }
}

/// `port = TEXT ":" RATE [ burst ]`
fn port(p: &mut Parser<'_>) -> Parsed {
    const HELP: &str = "such as `\"vm1\": 100mbps`";
    mistakes::in_quotes(p, "the name of a port in quotes", HELP)?;
    if !mistakes::colon(p, "the rate") {
        return p.unexpected("`:`", HELP);
    }
    value(p, "a rate", HELP)?;
    if p.at_word("burst") { p.node(Burst, burst) } else { Ok(()) }
}

/// `burst = "burst" SIZE`
fn burst(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    value(p, "a size", "such as `burst 64kib`")
}

/// A number, rate, size, mark, range of ports, address or prefix: adjacent tokens without white space. A colon is part of
/// it inside an IPv6 address only. A percent sign is part of it, so that the reader of the value can report its meaning.
pub(super) fn value(p: &mut Parser<'_>, what: &str, help: &str) -> Parsed {
    mistakes::before_value(p);
    let keyword = super::RESERVED.contains(&p.text());
    if keyword || p.at_item() || !(p.at(Word) || p.at(DoubleColon)) {
        return p.unexpected(what, help);
    }
    p.node(Value, |p| {
        let number = p.span();
        let (mut colon, mut dot, mut slash) = (p.at(DoubleColon), p.text().contains('.'), false);
        p.bump();
        while p.at_glued() {
            let colon_of_address = p.at(Colon) && (colon || !dot) && p.word_glued_behind();
            if p.at(Slash) {
                slash = true;
            } else if !slash && (p.at(DoubleColon) || colon_of_address) {
                colon = true;
            } else if p.at(Word) {
                dot |= p.text().contains('.');
            } else if !(p.at(Unknown) && p.text() == "%") {
                break;
            }
            p.bump();
        }
        mistakes::unit_apart(p, number);
        Ok(())
    })
}
