//! A position in the tokens of a model, and the readers of its elements.

use crate::predicate::lexer::{Kind, Token};
use crate::predicate::value::number;
use crate::predicate::{Predicate, Reader};
use weft_text::{ParseError, Span, hint, quoted};

/// Keywords that begin the parts of a model; names must differ from them.
pub(super) const PARTS: [&str; 8] = ["nic", "queues", "fact", "pool", "table", "exclude", "rss", "node"];

/// A name with its place in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl Name<'_> {
    /// Its place.
    pub(super) const fn span(&self) -> Span {
        Span::new(self.at, self.at + self.text.len())
    }

    /// Returns an error about the named object.
    pub(super) fn error(&self, what: impl AsRef<str>, hint: impl AsRef<str>) -> ParseError {
        ParseError::new(self.span(), what, hint)
    }
}

/// A position in the tokens.
pub(super) struct Cursor<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the position before the first token of a text of `end` bytes.
    pub(super) const fn new(tokens: &'a [Token<'a>], end: usize) -> Self {
        Self { tokens, next: 0, end }
    }

    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    /// Returns the place of the next token.
    pub(super) fn place(&self) -> Span {
        self.peek().map_or(Span::at(self.end), |token| token.span())
    }

    /// Whether the next token equals `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        self.peek().is_some_and(|token| token.kind != Kind::Text && token.text == text)
    }

    /// Skips the next token if it equals `text`; returns whether it did.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let there = self.is(text);
        self.next += usize::from(there);
        there
    }

    /// Returns the error that the next token is not `wanted`.
    pub(super) fn error(&self, wanted: &str) -> ParseError {
        let what = match self.peek() {
            Some(token) if token.kind == Kind::OpenText => "a text is not closed on its line".to_owned(),
            Some(token) => format!("expected {wanted}, found {}", quoted(token.text)),
            None => format!("the file ends where {wanted} should be"),
        };
        ParseError::new(self.place(), what, format!("write {wanted} here"))
    }

    /// Skips the next token, which must equal `text`.
    pub(super) fn expect(&mut self, text: &str) -> Result<(), ParseError> {
        if self.eat(text) { Ok(()) } else { Err(self.error(&format!("`{text}`"))) }
    }

    /// Reads one of the known words.
    pub(super) fn one_of(&mut self, what: &str, known: &[&str]) -> Result<Name<'a>, ParseError> {
        let name = self.word(&format!("{what}: {}", known.join(", ")))?;
        if known.contains(&name.text) {
            return Ok(name);
        }
        Err(name.error(format!("{} is not {what}", quoted(name.text)), hint(name.text, known, &[])))
    }

    /// Reads any word.
    pub(super) fn word(&mut self, wanted: &str) -> Result<Name<'a>, ParseError> {
        match self.peek() {
            Some(Token { kind: Kind::Word, text, at }) => {
                self.next += 1;
                Ok(Name { text, at })
            }
            _ => Err(self.error(wanted)),
        }
    }

    /// Reads a name: letters, digits, `-`, `_` and `.`, but no keyword of [`PARTS`].
    pub(super) fn name(&mut self, of: &str) -> Result<Name<'a>, ParseError> {
        let name = self.word(&format!("the name of {of}"))?;
        if PARTS.contains(&name.text) {
            return Err(name.error(
                format!("`{}` cannot be the name of {of}", name.text),
                "it begins a part of a model",
            ));
        }
        if name.text.contains([':', '/', '&']) {
            let what = format!("{} cannot be the name of {of}", quoted(name.text));
            return Err(name.error(what, "names have letters, digits, `-`, `_` and `.`"));
        }
        Ok(name)
    }

    /// Reads a text in quotes.
    pub(super) fn text(&mut self, wanted: &str) -> Result<&'a str, ParseError> {
        match self.peek() {
            Some(token @ Token { kind: Kind::Text, text, .. }) => {
                if text.trim().is_empty() || text.chars().any(char::is_control) {
                    let what = "a text is empty or has control characters";
                    return Err(ParseError::new(token.span(), what, format!("write {wanted}")));
                }
                self.next += 1;
                Ok(text)
            }
            _ => Err(self.error(&format!("{wanted} in quotes"))),
        }
    }

    /// Reads a number from `least` to `most`.
    pub(super) fn number<T: TryFrom<u128>>(
        &mut self,
        of: &str,
        least: u32,
        most: u32,
    ) -> Result<T, ParseError> {
        let name = self.word(of)?;
        let fits = number(name.text).filter(|number| (u128::from(least)..=u128::from(most)).contains(number));
        fits.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            name.error(
                format!("{} cannot be {of}", quoted(name.text)),
                format!("write a number from {least} to {most}"),
            )
        })
    }

    /// Reads a predicate.
    pub(super) fn predicate(&mut self) -> Result<Predicate, ParseError> {
        let mut reader = Reader::new(&self.tokens[self.next..], self.end);
        let predicate = reader.predicate()?;
        self.next += reader.used();
        Ok(predicate)
    }
}

/// Declared names of one kind.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// The kind, for messages.
    of: &'static str,
    all: Vec<&'a str>,
    /// The numbers of the names, sorted by name.
    sorted: Vec<(&'a str, u16)>,
}

impl<'a> Names<'a> {
    /// Collects the names that follow the word `part` outside of braces.
    pub(super) fn collect(tokens: &[Token<'a>], part: &str, of: &'static str) -> Result<Self, ParseError> {
        let mut names = Names { of, ..Names::default() };
        let mut depth = 0u32;
        for pair in tokens.windows(2) {
            let [first, second] = pair else { continue };
            match first.text {
                "{" if first.kind == Kind::Sign => depth += 1,
                "}" if first.kind == Kind::Sign => depth = depth.saturating_sub(1),
                text if depth == 0
                    && text == part
                    && first.kind == Kind::Word
                    && second.kind == Kind::Word =>
                {
                    let Ok(place) = u16::try_from(names.all.len()) else {
                        let what = format!("the model has more than {} of {of}", u16::MAX);
                        return Err(ParseError::new(second.span(), what, "leave some out"));
                    };
                    names.all.push(second.text);
                    names.sorted.push((second.text, place));
                }
                _ => {}
            }
        }
        names.sorted.sort_unstable();
        Ok(names)
    }

    /// Returns the number of a name.
    pub(super) fn find(&self, name: Name<'_>) -> Result<u16, ParseError> {
        match self.sorted.binary_search_by(|(known, _)| (*known).cmp(name.text)) {
            Ok(at) => Ok(self.sorted[at].1),
            Err(_) => Err(name.error(
                format!("there is no {} {}", self.of, quoted(name.text)),
                hint(name.text, &self.all, &[]),
            )),
        }
    }

    /// Refuses a name that was already declared, as number `place`.
    pub(super) fn once(&self, name: Name<'_>, place: usize) -> Result<(), ParseError> {
        let from = self.sorted.partition_point(|(known, _)| *known < name.text);
        match self.sorted.get(from) {
            Some((known, first)) if *known == name.text && usize::from(*first) != place => Err(name.error(
                format!("the model has two of the name {}: {}", quoted(name.text), self.of),
                "give one of them another name",
            )),
            _ => Ok(()),
        }
    }
}

/// The maximum number of queues of a model: the range of queue numbers in descriptors and drivers.
pub(super) const QUEUES_MAX: u32 = 65_536;

/// Names that may be used before their declaration.
pub(super) struct Declared<'a> {
    pub(super) nodes: Names<'a>,
    pub(super) tables: Names<'a>,
    pub(super) pools: Names<'a>,
}

/// Returns the error of a repeated part.
pub(super) fn twice(name: Name<'_>) -> ParseError {
    name.error(format!("`{}` is given for the second time", name.text), "keep one of them")
}
