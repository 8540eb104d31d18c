//! Reads predicates: `src-ip fd00::/8 and (tcp dst-port 1000..2000 or udp) and not tcp-flags 0x2/0x2`.
//!
//! `not` binds most, then tests that stand side by side, then `and`, then `or`. Tests side by side are one cube.

use super::lexer::{Kind, Token, tokens};
use super::value::{self, PROTOCOLS};
use super::{Predicate, PredicateError, joined};
use crate::nearest::{nearest, quoted};
use weft_packet::cube::{Cube, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field};

/// How deep parentheses and `not` may be nested; the reader calls itself for each level.
const DEEPEST: u32 = 64;
/// Words that are tests by themselves, beside the protocols' names.
const SHORT: [&str; 4] = ["any", "none", "ipv4", "ipv6"];

/// Reads a predicate.
///
/// Fields are named as [`Field::name`] does. Values are numbers (decimal, or hexadecimal after `0x`), addresses, prefixes, `FIRST..LAST`
/// with both ends included, and `VALUE/MASK` or `VALUE&MASK`. `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, `ipv4`, `ipv6`, `any` and `none`
/// are tests by themselves; `vlan N` tests the identifier's 12 bits. An address also tests the Ethernet type of its family.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn read_predicate(text: &str) -> Result<Predicate, PredicateError> {
    let tokens = tokens(text);
    let mut reader = Reader::new(&tokens, text.len());
    let predicate = reader.predicate()?;
    match reader.peek() {
        None => Ok(predicate),
        Some(token) => Err(reader.unexpected(token)),
    }
}

/// Reads predicates from tokens, as far as they go.
pub(crate) struct Reader<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    end: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    /// A reader of tokens from a text of `end` bytes.
    pub(crate) const fn new(tokens: &'a [Token<'a>], end: usize) -> Self {
        Self { tokens, next: 0, end, depth: 0 }
    }

    /// Tokens that were read.
    pub(crate) const fn used(&self) -> usize {
        self.next
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn eat(&mut self, kind: Kind, text: &str) -> bool {
        let there = self.peek().is_some_and(|token| token.kind == kind && token.text == text);
        self.next += usize::from(there);
        there
    }

    /// A predicate, up to the first token that cannot go on with it.
    pub(crate) fn predicate(&mut self) -> Result<Predicate, PredicateError> {
        let mut choices = vec![self.conjunction()?];
        while self.eat(Kind::Word, "or") {
            choices.push(self.conjunction()?);
        }
        Ok(joined(choices, Predicate::Any))
    }

    fn conjunction(&mut self) -> Result<Predicate, PredicateError> {
        let mut all = self.side_by_side()?;
        while self.eat(Kind::Word, "and") {
            all.extend(self.side_by_side()?);
        }
        Ok(joined(all, Predicate::All))
    }

    /// Tests without `and` between them. Those that are cubes join into one.
    fn side_by_side(&mut self) -> Result<Vec<Predicate>, PredicateError> {
        let at = self.peek().map_or(self.end, |token| token.at);
        let mut all = vec![self.single()?];
        while self.peek().is_some_and(|token| starts_single(&token)) {
            let one = self.single()?;
            let (Some(Predicate::Is(left)), Predicate::Is(right)) = (all.last_mut(), &one) else {
                all.push(one);
                continue;
            };
            *left = left.intersect(right).ok_or_else(|| PredicateError {
                at,
                what: format!("no packet passes both `{left}` and `{right}`"),
                hint: "join them with `or`, or leave one out".to_owned(),
            })?;
        }
        Ok(all)
    }

    fn single(&mut self) -> Result<Predicate, PredicateError> {
        let Some(token) = self.peek() else {
            let what = "the predicate ends where a test should be".to_owned();
            return Err(PredicateError {
                at: self.end,
                what,
                hint: "write a field and its value".to_owned(),
            });
        };
        if !starts_single(&token) {
            return Err(self.unexpected(token));
        }
        self.next += 1;
        match token.text {
            "(" | "not" => self.nested(token),
            "any" => Ok(Predicate::TRUE),
            "none" => Ok(Predicate::Any(Vec::new())),
            "ipv4" => Ok(exact(Field::EtherType, ETHER_TYPE_IPV4.into())),
            "ipv6" => Ok(exact(Field::EtherType, ETHER_TYPE_IPV6.into())),
            name => match (Field::from_name(name), PROTOCOLS.iter().find(|(known, _)| *known == name)) {
                (Some(field), _) => self.test(field),
                (None, Some((_, number))) => Ok(exact(Field::IpProtocol, (*number).into())),
                (None, None) => Err(self.unexpected(token)),
            },
        }
    }

    /// What stands in parentheses or after `not`.
    fn nested(&mut self, token: Token<'_>) -> Result<Predicate, PredicateError> {
        if self.depth == DEEPEST {
            let what = format!("more than {DEEPEST} levels of parentheses and `not`");
            let hint = "write the predicate without so many".to_owned();
            return Err(PredicateError { at: token.at, what, hint });
        }
        self.depth += 1;
        let predicate = if token.text == "not" {
            Predicate::Not(Box::new(self.single()?))
        } else {
            let inner = self.predicate()?;
            if !self.eat(Kind::Sign, ")") {
                let at = self.peek().map_or(self.end, |token| token.at);
                let what = "a parenthesis is not closed".to_owned();
                return Err(PredicateError { at, what, hint: "put `)` here".to_owned() });
            }
            inner
        };
        self.depth -= 1;
        Ok(predicate)
    }

    fn test(&mut self, field: Field) -> Result<Predicate, PredicateError> {
        match self.peek() {
            Some(token) if token.kind == Kind::Word => {
                self.next += 1;
                value::read(field, token.text, token.at)
            }
            other => Err(PredicateError {
                at: other.map_or(self.end, |token| token.at),
                what: format!("{} has no value", field.name()),
                hint: format!("write `{} VALUE`", field.name()),
            }),
        }
    }

    fn unexpected(&self, token: Token<'_>) -> PredicateError {
        let known = Field::ALL.iter().map(|field| field.name()).chain(SHORT);
        let known = known.chain(PROTOCOLS.iter().map(|(name, _)| *name)).chain(["and", "or", "not"]);
        let hint = match nearest(token.text, known) {
            Some(name) if name != token.text => format!("did you mean `{name}`?"),
            _ => {
                let fields: Vec<&str> = Field::ALL.iter().map(|field| field.name()).collect();
                format!("tests begin with tcp, udp, sctp, ipv4, ipv6, not, or a field: {}", fields.join(", "))
            }
        };
        PredicateError {
            at: token.at,
            what: format!("{} is not a test of a packet", quoted(token.text)),
            hint,
        }
    }
}

fn exact(field: Field, value: u128) -> Predicate {
    Predicate::Is(Cube::ALL.exact(field, value))
}

/// Whether a token can begin a test.
fn starts_single(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Sign => token.text == "(",
        Kind::Word => {
            token.text == "not"
                || SHORT.contains(&token.text)
                || Field::from_name(token.text).is_some()
                || PROTOCOLS.iter().any(|(name, _)| *name == token.text)
        }
        _ => false,
    }
}
