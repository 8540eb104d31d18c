//! Reads predicates: `src-ip fd00::/8 and (tcp dst-port 1000..2000 or udp) and not tcp-flags 0x2/0x2`.
//!
//! `not` binds strongest, then adjacent tests, then `and`, then `or`. Adjacent tests form one header match.

use super::lexer::{Kind, Token};
use super::value::{self, PROTOCOLS};
use super::{Predicate, joined};
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field, HeaderMatch};
use weft_text::{ParseError, Span, nearest, quoted};

/// The maximum nesting depth of parentheses and `not`; the reader recurses per level.
const DEEPEST: u32 = 64;
/// Words that are complete tests, beside the protocols' names.
const SHORT: [&str; 4] = ["any", "none", "ipv4", "ipv6"];

/// Reads a predicate from the start of a list of tokens.
///
/// Fields have the names of [`Field::name`]. Values are numbers (decimal, or hexadecimal after `0x`), addresses, prefixes,
/// `FIRST..LAST` with both ends included, and `VALUE/MASK` or `VALUE&MASK`. `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, `ipv4`,
/// `ipv6`, `any` and `none` are complete tests. `vlan N` tests the identifier's 12 bits. An address also tests the Ethernet type
/// of its family.
pub(crate) struct Reader<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    end: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    /// Creates a reader of tokens from a text of `end` bytes.
    pub(crate) const fn new(tokens: &'a [Token<'a>], end: usize) -> Self {
        Self { tokens, next: 0, end, depth: 0 }
    }

    /// The number of consumed tokens.
    pub(crate) const fn used(&self) -> usize {
        self.next
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    /// Returns the place of the next token, or of the end.
    fn place(&self) -> Span {
        self.peek().map_or(Span::at(self.end), |token| token.span())
    }

    fn eat(&mut self, kind: Kind, text: &str) -> bool {
        let there = self.peek().is_some_and(|token| token.kind == kind && token.text == text);
        self.next += usize::from(there);
        there
    }

    /// Reads a predicate, up to the first token that cannot continue it.
    pub(crate) fn predicate(&mut self) -> Result<Predicate, ParseError> {
        let mut choices = vec![self.conjunction()?];
        while self.eat(Kind::Word, "or") {
            choices.push(self.conjunction()?);
        }
        Ok(joined(choices, Predicate::Any))
    }

    fn conjunction(&mut self) -> Result<Predicate, ParseError> {
        let mut all = self.side_by_side()?;
        while self.eat(Kind::Word, "and") {
            all.extend(self.side_by_side()?);
        }
        Ok(joined(all, Predicate::All))
    }

    /// Reads adjacent tests, without `and` between them. Header matches among them are intersected.
    fn side_by_side(&mut self) -> Result<Vec<Predicate>, ParseError> {
        let start = self.place();
        let mut all = vec![self.single()?];
        while self.peek().is_some_and(|token| starts_single(&token)) {
            let one = self.single()?;
            let (Some(Predicate::Is(left)), Predicate::Is(right)) = (all.last_mut(), &one) else {
                all.push(one);
                continue;
            };
            let place =
                self.tokens.get(self.next.saturating_sub(1)).map_or(start, |last| start.to(last.span()));
            *left = left.intersect(right).ok_or_else(|| {
                let what = format!("no packet passes both `{left}` and `{right}`");
                ParseError::new(place, what, "join them with `or`, or leave one out")
            })?;
        }
        Ok(all)
    }

    fn single(&mut self) -> Result<Predicate, ParseError> {
        let Some(token) = self.peek() else {
            let what = "the predicate ends where a test should be";
            return Err(ParseError::new(self.place(), what, "write a field and its value"));
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

    /// Reads the predicate in parentheses or after `not`.
    fn nested(&mut self, token: Token<'_>) -> Result<Predicate, ParseError> {
        if self.depth == DEEPEST {
            let what = format!("more than {DEEPEST} levels of parentheses and `not`");
            return Err(ParseError::new(token.span(), what, "write the predicate with fewer levels"));
        }
        self.depth += 1;
        let predicate = if token.text == "not" {
            Predicate::Not(Box::new(self.single()?))
        } else {
            let inner = self.predicate()?;
            if !self.eat(Kind::Sign, ")") {
                return Err(ParseError::new(self.place(), "a parenthesis is not closed", "put `)` here"));
            }
            inner
        };
        self.depth -= 1;
        Ok(predicate)
    }

    fn test(&mut self, field: Field) -> Result<Predicate, ParseError> {
        match self.peek() {
            Some(token) if token.kind == Kind::Word => {
                self.next += 1;
                value::read(field, token.text, token.span())
            }
            _ => {
                let name = field.name();
                let what = format!("{name} has no value");
                Err(ParseError::new(self.place(), what, format!("write `{name} VALUE`")))
            }
        }
    }

    fn unexpected(&self, token: Token<'_>) -> ParseError {
        let known = Field::ALL.iter().map(|field| field.name()).chain(SHORT);
        let known = known.chain(PROTOCOLS.iter().map(|(name, _)| *name)).chain(["and", "or", "not"]);
        let hint = match nearest(token.text, known, &[]) {
            Some(name) if name != token.text => format!("did you mean `{name}`?"),
            _ => {
                let fields: Vec<&str> = Field::ALL.iter().map(|field| field.name()).collect();
                format!("tests begin with tcp, udp, sctp, ipv4, ipv6, not, or a field: {}", fields.join(", "))
            }
        };
        let what = format!("{} is not a test of a packet", quoted(token.text));
        ParseError::new(token.span(), what, hint)
    }
}

/// Reads a text that is a predicate and nothing else.
#[cfg(test)]
pub(crate) fn read_predicate(text: &str) -> Result<Predicate, ParseError> {
    let tokens = super::lexer::tokens(text);
    let mut reader = Reader::new(&tokens, text.len());
    let predicate = reader.predicate()?;
    match reader.peek() {
        None => Ok(predicate),
        Some(token) => Err(reader.unexpected(token)),
    }
}

fn exact(field: Field, value: u128) -> Predicate {
    Predicate::Is(HeaderMatch::ALL.exact(field, value))
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
