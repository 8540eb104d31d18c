//! The parser's state: a cursor over the tokens, the tree under construction, and the diagnostics so far.

use super::kind::{PolicyLanguage, SyntaxKind, SyntaxNode};
use super::lexer::{self, Token};
use super::{NESTING_MAX, RESERVED, TEXT_MAX, grammar};
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use rowan::{Checkpoint, GreenNodeBuilder, Language};
use weft_text::{Span, quoted};

/// The result of a construct that cannot be read further. A diagnostic was recorded; the caller recovers.
pub(super) struct Stop;

/// The result of a production: whether the construct was read to its end.
pub(super) type Parsed = Result<(), Stop>;

/// The state of the parser.
pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    /// The start of each token, and the end of the text.
    offsets: Vec<usize>,
    /// The indices of the tokens that are not trivia.
    significant: Vec<usize>,
    /// The index in `significant` of the next token to read.
    cursor: usize,
    /// The index of the next token to enter the tree.
    emitted: usize,
    depth: usize,
    builder: GreenNodeBuilder<'static>,
    diagnostics: Vec<SpannedDiagnostic>,
}

/// Parses `text`. The tree's text equals `text` for any input; the diagnostics report the errors.
pub(crate) fn parse(text: &str) -> (SyntaxNode, Vec<SpannedDiagnostic>) {
    let too_large = text.len() > TEXT_MAX;
    let mut parser = Parser::new(if too_large { "" } else { text });
    if too_large {
        let message = format!("the file has {} bytes; at most {TEXT_MAX} can be a policy", text.len());
        parser.find(Code::TooLarge, Span::default(), message, "check that this is the right file");
    }
    parser.builder.start_node(PolicyLanguage::kind_to_raw(SyntaxKind::File));
    grammar::file(&mut parser);
    parser.emit_up_to(parser.tokens.len());
    parser.builder.finish_node();
    (SyntaxNode::new_root(parser.builder.finish()), parser.diagnostics)
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let tokens = lexer::tokens(text);
        let mut offsets = Vec::with_capacity(tokens.len() + 1);
        let mut offset = 0;
        for token in &tokens {
            offsets.push(offset);
            offset += token.text.len();
        }
        offsets.push(offset);
        let significant = (0..tokens.len()).filter(|at| !tokens[*at].kind.is_trivia()).collect();
        let mut parser = Self {
            tokens,
            offsets,
            significant,
            cursor: 0,
            emitted: 0,
            depth: 0,
            builder: GreenNodeBuilder::new(),
            diagnostics: Vec::new(),
        };
        parser.check_tokens();
        parser
    }

    /// Reports errors of single tokens; the grammar then skips them silently.
    fn check_tokens(&mut self) {
        for at in 0..self.tokens.len() {
            let (token, span) = (self.tokens[at], self.span_of(at));
            if token.kind == SyntaxKind::Text && (token.text.len() < 2 || !token.text.ends_with('"')) {
                let message = "the text in quotes does not end on this line";
                self.find(Code::UnterminatedString, span, message, "close it with `\"`");
            }
            let again = at > 0 && self.tokens[at - 1].kind == SyntaxKind::Unknown;
            if token.kind == SyntaxKind::Unknown && !again {
                let message = format!("the character {} has no meaning here", quoted(token.text));
                self.find(Code::UnknownCharacter, span, message, "leave it out; a comment begins with `#`");
            }
        }
    }

    fn span_of(&self, token: usize) -> Span {
        Span::new(self.offsets[token], self.offsets[token + 1])
    }

    /// Records a diagnostic.
    pub(super) fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.diagnostics.push(SpannedDiagnostic::new(code, span, message, help));
    }

    /// The token `ahead` tokens after the cursor.
    fn ahead(&self, ahead: usize) -> Option<Token<'a>> {
        self.significant.get(self.cursor + ahead).map(|at| self.tokens[*at])
    }

    /// Whether the cursor is at the end of the text.
    pub(super) fn at_end(&self) -> bool {
        self.cursor >= self.significant.len()
    }

    /// Whether the next token is the first on its line.
    pub(super) fn at_line_start(&self) -> bool {
        let Some(at) = self.significant.get(self.cursor).copied() else { return true };
        let Some(before) = self.cursor.checked_sub(1) else { return true };
        self.tokens[self.significant[before]..at].iter().any(|token| token.text.contains('\n'))
    }

    /// The number of tokens read so far.
    pub(super) fn position(&self) -> usize {
        self.cursor
    }

    /// Whether the next token is of `kind`.
    pub(super) fn at(&self, kind: SyntaxKind) -> bool {
        self.ahead(0).is_some_and(|token| token.kind == kind)
    }

    /// Whether the next token is the word `word`.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.ahead(0).is_some_and(|token| token.kind == SyntaxKind::Word && token.text == word)
    }

    /// Whether the token after the next one is of `kind`.
    pub(super) fn next_is(&self, kind: SyntaxKind) -> bool {
        self.ahead(1).is_some_and(|token| token.kind == kind)
    }

    /// Whether a word and `=` follow.
    pub(super) fn at_definition(&self) -> bool {
        self.at(SyntaxKind::Word) && self.ahead(1).is_some_and(|token| token.kind == SyntaxKind::Equals)
    }

    /// Whether an item of the file begins at the cursor.
    pub(super) fn at_item(&self) -> bool {
        self.at_definition()
            || self.at_latency()
            || ["class", "link", "bound"].iter().any(|word| self.at_word(word))
    }

    /// Whether `latency TIME` follows. The word is not reserved: a class may have the name.
    pub(super) fn at_latency(&self) -> bool {
        let number = |token: Token<'_>| token.text.starts_with(|c: char| c.is_ascii_digit());
        self.at_word("latency") && self.ahead(1).is_some_and(number)
    }

    /// The text of the next token; empty at the end.
    pub(super) fn text(&self) -> &'a str {
        self.ahead(0).map_or("", |token| token.text)
    }

    /// The span of the next token; at the end, the position after the last token.
    pub(super) fn span(&self) -> Span {
        match self.significant.get(self.cursor) {
            Some(at) => self.span_of(*at),
            None => {
                let end = self.significant.last().map_or(0, |last| self.offsets[last + 1]);
                Span::new(end, end)
            }
        }
    }

    /// Whether no white space precedes the next token.
    pub(super) fn at_glued(&self) -> bool {
        self.glued(0)
    }

    fn glued(&self, ahead: usize) -> bool {
        let at = self.cursor + ahead;
        at > 0 && at < self.significant.len() && self.significant[at] == self.significant[at - 1] + 1
    }

    /// Whether a word follows the next token without white space.
    pub(super) fn word_glued_behind(&self) -> bool {
        self.glued(1) && self.ahead(1).is_some_and(|token| token.kind == SyntaxKind::Word)
    }

    fn emit_up_to(&mut self, end: usize) {
        for token in &self.tokens[self.emitted..end] {
            self.builder.token(PolicyLanguage::kind_to_raw(token.kind), token.text);
        }
        self.emitted = end;
    }

    /// Adds the trivia before the next token to the tree, so that it is outside the node about to begin.
    fn emit_trivia(&mut self) {
        let next = self.significant.get(self.cursor).copied().unwrap_or(self.emitted);
        self.emit_up_to(next);
    }

    /// Consumes the next token.
    pub(super) fn bump(&mut self) {
        if let Some(at) = self.significant.get(self.cursor) {
            self.emit_up_to(at + 1);
            self.cursor += 1;
        }
    }

    /// Consumes the next token if it is of `kind`.
    pub(super) fn eat(&mut self, kind: SyntaxKind) -> bool {
        let here = self.at(kind);
        if here {
            self.bump();
        }
        here
    }

    /// Consumes the next token if it is the word `word`.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let here = self.at_word(word);
        if here {
            self.bump();
        }
        here
    }

    /// Consumes a token of `kind`, or reports that `what` was expected.
    pub(super) fn expect(&mut self, kind: SyntaxKind, what: &str, help: &str) -> Parsed {
        if self.eat(kind) { Ok(()) } else { self.unexpected(what, help) }
    }

    /// Consumes the word `word`, or reports that it was expected.
    pub(super) fn expect_word(&mut self, word: &str, help: &str) -> Parsed {
        if self.eat_word(word) { Ok(()) } else { self.unexpected(&format!("`{word}`"), help) }
    }

    /// Reports that `what` was expected here, unless the token itself was reported already.
    pub(super) fn unexpected(&mut self, what: &str, help: &str) -> Parsed {
        let broken = self.at(SyntaxKind::Unknown);
        if !broken {
            let found = if self.at_end() { "the end of the file".to_owned() } else { quoted(self.text()) };
            self.find(Code::Unexpected, self.span(), format!("expected {what}, found {found}"), help);
        }
        Err(Stop)
    }

    /// Runs `read` inside a node of `kind`.
    pub(super) fn node(&mut self, kind: SyntaxKind, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.emit_trivia();
        self.builder.start_node(PolicyLanguage::kind_to_raw(kind));
        let parsed = read(self);
        self.builder.finish_node();
        parsed
    }

    /// A position in the tree at which a node may begin later.
    pub(super) fn checkpoint(&mut self) -> Checkpoint {
        self.emit_trivia();
        self.builder.checkpoint()
    }

    /// Wraps everything since `checkpoint` in a node of `kind`.
    pub(super) fn wrap(&mut self, checkpoint: Checkpoint, kind: SyntaxKind) {
        self.builder.start_node_at(checkpoint, PolicyLanguage::kind_to_raw(kind));
        self.builder.finish_node();
    }

    /// Runs a production that may contain itself, at most [`NESTING_MAX`] deep.
    pub(super) fn nested(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth >= NESTING_MAX {
            let message = format!("this is nested more than {NESTING_MAX} deep");
            self.find(Code::TooDeeplyNested, self.span(), message, "give parts of it names of their own");
            return Err(Stop);
        }
        self.depth += 1;
        let parsed = read(self);
        self.depth -= 1;
        parsed
    }

    /// Skips tokens until `stop` returns true, an item begins, or the text ends.
    pub(super) fn skip_until(&mut self, stop: impl Fn(&Self) -> bool) {
        if self.at_end() || stop(self) || self.at_item() {
            return;
        }
        let _ = self.node(SyntaxKind::Error, |p| {
            while !(p.at_end() || stop(p) || p.at_item()) {
                p.bump();
            }
            Ok(())
        });
    }

    /// Reads a name as a node of `kind`; `what` describes it in the diagnostic.
    pub(super) fn name(&mut self, kind: SyntaxKind, what: &str) -> Parsed {
        let help = "a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`";
        if !self.at(SyntaxKind::Word) {
            return self.unexpected(what, help);
        }
        let text = self.text();
        if RESERVED.contains(&text) {
            let message = format!("{} is a word of the language and cannot be a name", quoted(text));
            self.find(
                Code::ReservedName,
                self.span(),
                message,
                "choose another name, such as one with a prefix",
            );
            return Err(Stop);
        }
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !text.starts_with(letter) || text.ends_with('.') || text.contains("..") {
            return self.unexpected(what, help);
        }
        self.node(kind, |p| {
            p.bump();
            Ok(())
        })
    }
}
