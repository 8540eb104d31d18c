//! Tokens of formulas, with their places.

use weft_text::{ParseError, Span, quoted};

/// A token of a formula.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// A letter followed by letters, digits, `-`, `_`, and by dots before letters.
    Name(String),
    /// A non-negative number.
    Number(f64),
    /// A quoted text.
    Text(String),
    /// One of `+ - * / ( ) , =` or `..`.
    Sign(&'static str),
}

impl Token {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Name(name) => quoted(name),
            Self::Number(number) => format!("`{number}`"),
            Self::Text(_) => "a quoted text".to_owned(),
            Self::Sign(sign) => format!("`{sign}`"),
        }
    }
}

/// Splits a text into tokens with their places.
pub(super) fn tokens(text: &str) -> Result<Vec<(Span, Token)>, ParseError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], first).map_err(|error| error.behind(at))?;
        out.push((Span::new(at, at + length), token));
        at += length;
    }
    Ok(out)
}

/// Returns the token at the start of `rest`, and its length in bytes.
fn token(rest: &str, first: char) -> Result<(Token, usize), ParseError> {
    const SIGNS: [&str; 9] = ["..", "+", "-", "*", "/", "(", ")", ",", "="];
    let run = |wanted: &dyn Fn(char) -> bool| rest.find(|c: char| !wanted(c)).unwrap_or(rest.len());
    if first.is_ascii_alphabetic() {
        let length = name_length(rest);
        Ok((Token::Name(rest[..length].to_owned()), length))
    } else if first.is_ascii_digit() {
        let whole = run(&|c| c.is_ascii_digit());
        let fraction = rest[whole..].strip_prefix('.').map_or(0, |rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if digits == 0 { 0 } else { digits + 1 }
        });
        let length = whole + fraction;
        let number = rest[..length].parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| ParseError::new(0..length, "the number is too large", ""))?;
        Ok((Token::Number(number), length))
    } else if first == '"' {
        let end = rest[1..].find('"').ok_or_else(|| {
            ParseError::new(0..1, "the quote is not closed", "write `\"` at the end of the text")
        })?;
        Ok((Token::Text(rest[1..=end].to_owned()), end + 2))
    } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        Ok((Token::Sign(sign), sign.len()))
    } else {
        let length = first.len_utf8();
        let what = format!("{} has no meaning here", quoted(&rest[..length]));
        Err(ParseError::new(0..length, what, ""))
    }
}

/// Returns the length in bytes of the name at the start of `rest`. A dot is a part of it if a letter follows: `vm1.web`, but not
/// `hp..` of a range.
fn name_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let letter = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let part = |at: usize| match bytes[at] {
        b'.' => letter(at + 1),
        byte => byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-',
    };
    (0..bytes.len()).find(|at| !part(*at)).unwrap_or(bytes.len())
}

/// Reads tokens in order.
pub(super) struct Cursor {
    tokens: Vec<(Span, Token)>,
    next: usize,
    end: usize,
}

impl Cursor {
    pub(super) fn new(text: &str) -> Result<Self, ParseError> {
        Ok(Self { tokens: tokens(text)?, next: 0, end: text.len() })
    }

    /// Returns the place of the next token.
    pub(super) fn place(&self) -> Span {
        self.tokens.get(self.next).map_or(Span::at(self.end), |(place, _)| *place)
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    pub(super) fn advance(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Skips the next token if it is this sign; returns whether it did.
    pub(super) fn sign(&mut self, sign: &'static str) -> bool {
        let here = self.peek() == Some(&Token::Sign(sign));
        self.next += usize::from(here);
        here
    }

    /// Skips the next token if it is this word; returns whether it did.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let here = matches!(self.peek(), Some(Token::Name(name)) if name == word);
        self.next += usize::from(here);
        here
    }

    pub(super) fn expected<T>(&self, wanted: &str, hint: &str) -> Result<T, ParseError> {
        let found = self.peek().map_or_else(|| "the end".to_owned(), Token::shown);
        Err(ParseError::new(self.place(), format!("expected {wanted}, found {found}"), hint))
    }

    pub(super) fn need_sign(&mut self, sign: &'static str, hint: &str) -> Result<(), ParseError> {
        if self.sign(sign) { Ok(()) } else { self.expected(&format!("`{sign}`"), hint) }
    }

    /// Reads a class's name: a word or a quoted text.
    pub(super) fn name(&mut self, hint: &str) -> Result<String, ParseError> {
        match self.peek() {
            Some(Token::Name(name) | Token::Text(name)) if !name.is_empty() => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            _ => self.expected("a class's name", hint),
        }
    }

    /// Reads a whole number.
    pub(super) fn whole(&mut self, hint: &str) -> Result<u32, ParseError> {
        match self.peek() {
            Some(Token::Number(number)) if number.fract() == 0.0 && *number <= f64::from(u32::MAX) => {
                let number = *number as u32;
                self.next += 1;
                Ok(number)
            }
            _ => self.expected("a whole number", hint),
        }
    }

    /// Reads `3` or `0..3`, ends included.
    pub(super) fn range(&mut self, hint: &str) -> Result<(u32, u32), ParseError> {
        let start = self.place();
        let first = self.whole(hint)?;
        let (end, last) = if self.sign("..") { (self.place(), self.whole(hint)?) } else { (start, first) };
        if last < first {
            let what = format!("the queues {first}..{last} go backwards");
            return Err(ParseError::new(start.to(end), what, format!("write {last}..{first}")));
        }
        Ok((first, last))
    }

    pub(super) fn finish(&self) -> Result<(), ParseError> {
        if self.peek().is_none() { Ok(()) } else { self.expected("the end", "") }
    }
}
