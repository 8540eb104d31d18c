//! Places in policy texts, and what is wrong there.

use thiserror::Error;

/// What is wrong with a policy's text, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{file}:{line}:{column}: {message}{}", if hint.is_empty() { String::new() } else { format!("; {hint}") })]
pub struct PolicyError {
    /// The file, or what the text is called.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
}

/// The same with the place as bytes of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Wrong {
    pub(super) fn new(at: usize, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: hint.into() }
    }

    /// Moves the place: the text was a part of another one.
    pub(super) fn behind(self, bytes: usize) -> Self {
        Self { at: self.at + bytes, ..self }
    }

    pub(super) fn in_text(self, text: &str, file: &str) -> PolicyError {
        let mut at = self.at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let one_line = |text: String| text.replace(['\n', '\r'], " ");
        PolicyError {
            file: file.to_owned(),
            line,
            column,
            message: one_line(self.message),
            hint: one_line(self.hint),
        }
    }
}

/// A word of a policy.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// Letters, digits, `-` and `_` behind a letter.
    Name(String),
    /// A number that is not negative.
    Number(f64),
    /// Text between quotes; the place of its first byte is one behind the token's.
    Text(String),
    /// One of `+ - * / ( ) { } , : =` or `..`.
    Sign(&'static str),
}

impl Token {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Number(number) => format!("`{number}`"),
            Self::Text(_) => "a quoted text".to_owned(),
            Self::Sign(sign) => format!("`{sign}`"),
        }
    }
}

/// The words of a text with their places.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Wrong> {
    const SIGNS: [&str; 12] = ["..", "+", "-", "*", "/", "(", ")", "{", "}", ",", ":", "="];
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let run = |wanted: &dyn Fn(char) -> bool| rest.find(|c: char| !wanted(c)).unwrap_or(rest.len());
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if first.is_ascii_alphabetic() {
            let length = run(&|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            out.push((at, Token::Name(rest[..length].to_owned())));
            length
        } else if first.is_ascii_digit() {
            let whole = run(&|c| c.is_ascii_digit());
            let fraction = rest[whole..].strip_prefix('.').map_or(0, |rest| {
                let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                if digits == 0 { 0 } else { digits + 1 }
            });
            let number = rest[..whole + fraction].parse::<f64>().ok().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| Wrong::new(at, "the number is too large", ""))?;
            out.push((at, Token::Number(number)));
            whole + fraction
        } else if first == '"' {
            let end = rest[1..].find('"');
            let end = end.ok_or_else(|| {
                Wrong::new(at, "the quote is not closed", "write `\"` at the end of the text")
            })?;
            out.push((at, Token::Text(rest[1..=end].to_owned())));
            end + 2
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            out.push((at, Token::Sign(sign)));
            sign.len()
        } else {
            return Err(Wrong::new(at, format!("`{}` has no meaning here", first.escape_default()), ""));
        };
        at += length;
    }
    Ok(out)
}

/// Reads words one after the other.
pub(super) struct Cursor {
    tokens: Vec<(usize, Token)>,
    next: usize,
    end: usize,
}

impl Cursor {
    pub(super) fn new(text: &str) -> Result<Self, Wrong> {
        Ok(Self { tokens: tokens(text)?, next: 0, end: text.len() })
    }

    /// The place of the next word.
    pub(super) fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    pub(super) fn advance(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Takes a sign if it is next.
    pub(super) fn sign(&mut self, sign: &'static str) -> bool {
        let here = self.peek() == Some(&Token::Sign(sign));
        self.next += usize::from(here);
        here
    }

    /// Takes a word if it is next.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let here = matches!(self.peek(), Some(Token::Name(name)) if name == word);
        self.next += usize::from(here);
        here
    }

    pub(super) fn wrong<T>(&self, wanted: &str, hint: &str) -> Result<T, Wrong> {
        let found = self.peek().map_or_else(|| "the end".to_owned(), Token::shown);
        Err(Wrong::new(self.at(), format!("expected {wanted}, found {found}"), hint))
    }

    pub(super) fn need_sign(&mut self, sign: &'static str, hint: &str) -> Result<(), Wrong> {
        if self.sign(sign) { Ok(()) } else { self.wrong(&format!("`{sign}`"), hint) }
    }

    /// A class's name: a word or a quoted text.
    pub(super) fn name(&mut self, hint: &str) -> Result<String, Wrong> {
        match self.peek() {
            Some(Token::Name(name) | Token::Text(name)) if !name.is_empty() => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            _ => self.wrong("a class's name", hint),
        }
    }

    /// A whole number.
    pub(super) fn whole(&mut self, hint: &str) -> Result<u32, Wrong> {
        match self.peek() {
            Some(Token::Number(number)) if number.fract() == 0.0 && *number <= f64::from(u32::MAX) => {
                let number = *number as u32;
                self.next += 1;
                Ok(number)
            }
            _ => self.wrong("a whole number", hint),
        }
    }

    /// `3` or `0..3`, ends included.
    pub(super) fn range(&mut self, hint: &str) -> Result<(u32, u32), Wrong> {
        let at = self.at();
        let first = self.whole(hint)?;
        let last = if self.sign("..") { self.whole(hint)? } else { first };
        if last < first {
            return Err(Wrong::new(
                at,
                format!("the queues {first}..{last} go backwards"),
                format!("write {last}..{first}"),
            ));
        }
        Ok((first, last))
    }

    pub(super) fn finish(&self) -> Result<(), Wrong> {
        if self.peek().is_none() { Ok(()) } else { self.wrong("the end", "") }
    }
}
