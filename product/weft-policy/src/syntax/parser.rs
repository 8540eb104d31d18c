//! The parser's state: a cursor over the tokens, the tree under construction, and the diagnostics so far; and its view of
//! algorithms: their names, and the ends of their bodies.

use super::body::{ALGORITHM_WORDS, meant};
use super::kind::{PolicyLanguage, SyntaxKind, SyntaxNode};
use super::lexer::{self, Token};
use super::steering::{STEER, goal_follows};
use super::{NESTING_MAX, RESERVED, TEXT_MAX, characters, grammar};
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::library;
use rowan::{Checkpoint, GreenNodeBuilder, Language};
use std::collections::{BTreeMap, BTreeSet};
use weft_text::{Span, nearest, quoted};

/// The result of a construct that cannot be read further. A diagnostic was recorded; the caller recovers.
pub(super) struct Stop;

/// The result of a production: whether the construct was read to its end.
pub(super) type Parsed = Result<(), Stop>;

/// The tokens behind an unexpected one in which another is most likely a consequence of the first.
const RECOVERY: usize = 3;

/// The state of the parser.
pub(super) struct Parser<'a> {
    source: &'a str,
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
    /// The words that replace misspelt ones, by their index in `significant`.
    read_as: BTreeMap<usize, &'a str>,
    /// The token at which something was last reported as unexpected.
    unexpected_at: Option<usize>,
    /// Whether a brace of this item was reported, so that the number of its braces need not agree.
    pub(super) stray_brace: bool,
    /// The words that were reported because they cannot be names.
    reported: BTreeSet<&'a str>,
    /// The names of the algorithms that the text defines.
    algorithms: BTreeSet<&'a str>,
    /// The closing brace of the algorithm being read, or the token that it should precede.
    body_end: usize,
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
    fn new(source: &'a str) -> Self {
        let tokens = lexer::tokens(source);
        let mut offsets = Vec::with_capacity(tokens.len() + 1);
        let mut offset = 0;
        for token in &tokens {
            offsets.push(offset);
            offset += token.text.len();
        }
        offsets.push(offset);
        let significant: Vec<usize> = (0..tokens.len()).filter(|at| !tokens[*at].kind.is_trivia()).collect();
        let defines = |pair: &&[usize]| {
            let (word, end) = (tokens[pair[0]], offsets[pair[0] + 1]);
            let gap = tokens[..pair[0]].iter().rev().take_while(|token| token.kind.is_trivia());
            let first = pair[0] == 0 || gap.into_iter().any(|token| token.text.contains('\n'));
            word.kind == SyntaxKind::Word && first && meant(word.text, &source[end..]).is_some()
        };
        let algorithms = significant.windows(2).filter(defines).map(|pair| tokens[pair[1]].text).collect();
        let diagnostics = characters::check(&tokens, &offsets);
        Self {
            source,
            tokens,
            offsets,
            significant,
            cursor: 0,
            emitted: 0,
            depth: 0,
            read_as: BTreeMap::new(),
            unexpected_at: None,
            stray_brace: false,
            reported: BTreeSet::new(),
            algorithms,
            body_end: 0,
            builder: GreenNodeBuilder::new(),
            diagnostics,
        }
    }

    fn span_of(&self, token: usize) -> Span {
        Span::new(self.offsets[token], self.offsets[token + 1])
    }

    /// Records a diagnostic.
    pub(super) fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.report(SpannedDiagnostic::new(code, span, message, help));
    }

    /// Records a diagnostic that may have a fix.
    pub(super) fn report(&mut self, diagnostic: SpannedDiagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// The token `ahead` tokens after the cursor.
    fn ahead(&self, ahead: usize) -> Option<Token<'a>> {
        self.significant.get(self.cursor + ahead).map(|at| self.tokens[*at])
    }

    /// The text of the source in `span`.
    pub(super) fn slice(&self, span: Span) -> &'a str {
        self.source.get(span.start..span.end).unwrap_or_default()
    }

    /// Whether the cursor is at the end of the text.
    pub(super) fn at_end(&self) -> bool {
        self.cursor >= self.significant.len()
    }

    /// Whether the next token is the first on its line.
    pub(super) fn at_line_start(&self) -> bool {
        self.line_start(0)
    }

    /// Whether the token `ahead` tokens after the cursor is the first on its line.
    pub(super) fn line_start(&self, ahead: usize) -> bool {
        self.cursor_starts_line(self.cursor + ahead)
    }

    fn cursor_starts_line(&self, cursor: usize) -> bool {
        let Some(at) = self.significant.get(cursor).copied() else { return true };
        let Some(before) = cursor.checked_sub(1) else { return true };
        self.tokens[self.significant[before]..at].iter().any(|token| token.text.contains('\n'))
    }

    /// The number of tokens read so far.
    pub(super) fn position(&self) -> usize {
        self.cursor
    }

    /// Whether the next token is of `kind`.
    pub(super) fn at(&self, kind: SyntaxKind) -> bool {
        self.kind_at(0) == Some(kind)
    }

    /// The kind of the token `ahead` tokens after the cursor.
    pub(super) fn kind_at(&self, ahead: usize) -> Option<SyntaxKind> {
        self.ahead(ahead).map(|token| token.kind)
    }

    /// Whether the next token is the word `word`.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.at(SyntaxKind::Word) && self.text() == word
    }

    /// Whether the token `ahead` tokens after the cursor begins with a digit.
    pub(super) fn number_at(&self, ahead: usize) -> bool {
        self.kind_at(ahead) == Some(SyntaxKind::Word)
            && self.text_at(ahead).starts_with(|c: char| c.is_ascii_digit())
    }

    /// Whether the token after the next one is of `kind`.
    pub(super) fn next_is(&self, kind: SyntaxKind) -> bool {
        self.ahead(1).is_some_and(|token| token.kind == kind)
    }

    /// Whether a word and `=` follow.
    pub(super) fn at_definition(&self) -> bool {
        self.at(SyntaxKind::Word) && self.kind_at(1) == Some(SyntaxKind::Equals)
    }

    /// Whether an item of the file begins at the cursor. Within a line, only what can be nothing else counts: `port = 80` and
    /// `a = 1` are a test and a weight with a superfluous or wrong `=`.
    pub(super) fn at_item(&self) -> bool {
        self.item_at(0)
    }

    /// Whether an item begins `ahead` tokens after the cursor.
    pub(super) fn item_at(&self, ahead: usize) -> bool {
        if self.latency_at(ahead) || self.steer_at(ahead) || self.algorithm_at(ahead) {
            return true;
        }
        let definition = self.kind_at(ahead) == Some(SyntaxKind::Word)
            && self.kind_at(ahead + 1) == Some(SyntaxKind::Equals)
            && !self.number_at(ahead)
            && !self.number_at(ahead + 2);
        match self.text_at(ahead) {
            "class" => self.line_start(ahead) || self.kind_at(ahead + 2) == Some(SyntaxKind::Equals),
            "link" | "bound" => self.line_start(ahead) || self.number_at(ahead + 1),
            word if RESERVED.contains(&word) => definition && self.line_start(ahead),
            _ => definition,
        }
    }

    /// Whether `latency TIME` follows. The word is not reserved: a class may have the name.
    pub(super) fn at_latency(&self) -> bool {
        self.latency_at(0)
    }

    /// Whether `steer` and a goal follow. The word is not reserved: a class may have the name.
    pub(super) fn at_steer(&self) -> bool {
        self.steer_at(0)
    }

    fn steer_at(&self, ahead: usize) -> bool {
        let word = self.kind_at(ahead) == Some(SyntaxKind::Word) && self.text_at(ahead) == STEER;
        word && self.line_start(ahead)
            && !self.algorithms.contains(STEER)
            && self.source.get(self.span_at(ahead).end..).is_some_and(goal_follows)
    }

    fn latency_at(&self, ahead: usize) -> bool {
        let number = self.text_at(ahead + 1).starts_with(|c: char| c.is_ascii_digit());
        let word = self.kind_at(ahead) == Some(SyntaxKind::Word) && self.text_at(ahead) == "latency";
        word && number && matches!(self.kind_at(ahead + 1), Some(SyntaxKind::Word | SyntaxKind::Unknown))
    }

    /// The text of the next token; empty at the end.
    pub(super) fn text(&self) -> &'a str {
        self.text_at(0)
    }

    /// The text of the token `ahead` tokens after the cursor, or the word that it means.
    pub(super) fn text_at(&self, ahead: usize) -> &'a str {
        match self.read_as.get(&(self.cursor + ahead)) {
            Some(word) => word,
            None => self.ahead(ahead).map_or("", |token| token.text),
        }
    }

    /// The span of the next token; at the end, the position after the last token.
    pub(super) fn span(&self) -> Span {
        self.span_at(0)
    }

    /// The span of the token `ahead` tokens after the cursor.
    pub(super) fn span_at(&self, ahead: usize) -> Span {
        match self.significant.get(self.cursor + ahead) {
            Some(at) => self.span_of(*at),
            None => Span::at(self.significant.last().map_or(0, |last| self.offsets[last + 1])),
        }
    }

    /// The text of the token before the cursor, or the word that it means; empty at the beginning.
    pub(super) fn text_before(&self) -> &'a str {
        let Some(before) = self.cursor.checked_sub(1) else { return "" };
        match self.read_as.get(&before) {
            Some(word) => word,
            None => self.significant.get(before).map_or("", |at| self.tokens[*at].text),
        }
    }

    /// The span of the token before the cursor.
    pub(super) fn span_before(&self) -> Span {
        let before = self.cursor.checked_sub(1).and_then(|at| self.significant.get(at));
        before.map_or(Span::default(), |at| self.span_of(*at))
    }

    /// The end of the token before the cursor.
    pub(super) fn end_before(&self) -> usize {
        self.span_before().end
    }

    /// Whether no white space precedes the next token.
    pub(super) fn at_glued(&self) -> bool {
        self.glued(0)
    }

    /// Whether no white space precedes the token `ahead` tokens after the cursor.
    pub(super) fn glued(&self, ahead: usize) -> bool {
        let at = self.cursor + ahead;
        at > 0 && at < self.significant.len() && self.significant[at] == self.significant[at - 1] + 1
    }

    /// Whether a word follows the next token without white space.
    pub(super) fn word_glued_behind(&self) -> bool {
        self.glued(1) && self.kind_at(1) == Some(SyntaxKind::Word)
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

    /// Consumes the next token as one that does not belong there.
    pub(super) fn discard(&mut self) {
        let _ = self.node(SyntaxKind::Error, |p| {
            p.bump();
            Ok(())
        });
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

    /// Reports that `what` was expected here, unless the token itself was reported already.
    pub(super) fn unexpected(&mut self, what: &str, help: &str) -> Parsed {
        self.unexpected_but(what, help, None)
    }

    /// Reports that `what` was expected here, with an edit. What is missing at the end of an item is reported there and not at
    /// the item that follows.
    pub(super) fn unexpected_but(&mut self, what: &str, help: &str, edit: Option<Edit>) -> Parsed {
        if self.at(SyntaxKind::Unknown) && self.text() != "%" {
            return Err(Stop);
        }
        if self.is_consequence() {
            return Err(Stop);
        }
        self.unexpected_at = Some(self.cursor);
        let (span, found) = if self.at_end() {
            (self.span(), "the end of the file".to_owned())
        } else if self.cursor > 0 && self.at_line_start() && self.at_item() {
            (Span::at(self.end_before()), "the end of the line".to_owned())
        } else {
            (self.span(), quoted(self.text()))
        };
        // Of a word that is written twice, one is left.
        let twice = self.at(SyntaxKind::Word) && self.cursor > 0 && self.text() == self.text_before();
        let gap = Span::new(self.end_before(), self.span().end);
        let edit = if twice && !self.at_line_start() { Some(Edit::delete(gap)) } else { edit };
        let message = format!("expected {what}, found {found}");
        self.report(SpannedDiagnostic::new(Code::Unexpected, span, message, help).fix(edit));
        Err(Stop)
    }

    /// Whether an unexpected token was reported just before, on the same line.
    fn is_consequence(&self) -> bool {
        let Some(last) = self.unexpected_at else { return false };
        let near = (1..=RECOVERY).contains(&(self.cursor - last));
        let line_starts = |cursor: usize| cursor < self.significant.len() && self.cursor_starts_line(cursor);
        near && !(last + 1..=self.cursor).any(line_starts)
    }

    /// Reports that the next word was meant to be `word`, and reads it as that.
    pub(super) fn correct(&mut self, what: &str, word: &'a str, help: &str) {
        let span = self.span();
        let message = format!("expected {what}, found {}: did you mean `{word}`?", quoted(self.text()));
        let diagnostic = SpannedDiagnostic::new(Code::Unexpected, span, message, help);
        self.report(diagnostic.fix(Edit::replace(span, word)));
        self.read_as(word);
    }

    /// Reads the next token as `word`.
    pub(super) fn read_as(&mut self, word: &'a str) {
        self.read_as.insert(self.cursor, word);
    }

    /// Runs `read` inside a node of `kind`.
    pub(super) fn node(&mut self, kind: SyntaxKind, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.emit_trivia();
        self.builder.start_node(PolicyLanguage::kind_to_raw(kind));
        let parsed = read(self);
        self.builder.finish_node();
        parsed
    }

    /// Consumes the next token and runs `read`, both inside a node of `kind`.
    pub(super) fn bump_into(&mut self, kind: SyntaxKind, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.node(kind, |p| {
            p.bump();
            read(p)
        })
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

    /// Skips tokens until `stop` returns true or the text ends.
    pub(super) fn skip_until(&mut self, stop: impl Fn(&Self) -> bool) {
        if self.at_end() || stop(self) {
            return;
        }
        let _ = self.node(SyntaxKind::Error, |p| {
            while !(p.at_end() || stop(p)) {
                p.bump();
            }
            Ok(())
        });
    }

    /// Reads a name as a node of `kind`; `what` describes it in the diagnostic. A word that cannot be a name is reported where it
    /// is first used as one.
    pub(super) fn name(&mut self, kind: SyntaxKind, what: &str) -> Parsed {
        let help = "a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`";
        let text = self.text();
        if self.at(SyntaxKind::Text) && is_name(text.trim_matches('"')) {
            let (span, bare) = (self.span(), text.trim_matches('"'));
            let message = format!("a name has no quotes: {}", quoted(bare));
            let diagnostic = SpannedDiagnostic::new(Code::Unexpected, span, message, help);
            self.report(diagnostic.fix(Edit::replace(span, bare)));
        } else if !self.at(SyntaxKind::Word) {
            return self.unexpected(what, help);
        } else if RESERVED.contains(&text) {
            if self.reported.insert(text) {
                let message = format!("{} is a word of the language and cannot be a name", quoted(text));
                let help = "choose another name, such as one with a prefix";
                self.find(Code::ReservedName, self.span(), message, help);
            }
            return Err(Stop);
        } else if !is_name(text) {
            return if self.reported.insert(text) { self.unexpected(what, help) } else { Err(Stop) };
        }
        self.node(kind, |p| {
            p.bump();
            Ok(())
        })
    }
}

/// Algorithms.
impl<'a> Parser<'a> {
    /// Whether the definition of an algorithm begins `ahead` tokens after the cursor. Its first word is not reserved.
    pub(super) fn algorithm_at(&self, ahead: usize) -> bool {
        let word = self.kind_at(ahead) == Some(SyntaxKind::Word) && self.line_start(ahead);
        let named = self.kind_at(ahead + 1) == Some(SyntaxKind::Word) && !self.line_start(ahead + 1);
        word && named && ALGORITHM_WORDS.contains(&self.text_at(ahead))
    }

    /// The word that begins an algorithm, if the next one is a misspelt form of it.
    pub(super) fn misspelt_algorithm(&self) -> Option<&'static str> {
        let word = meant(self.text(), self.source.get(self.span().end..)?)?;
        (word != self.text()).then_some(word)
    }

    /// Whether the text or the library has an algorithm of this name.
    pub(super) fn knows_algorithm(&self, name: &str) -> bool {
        self.algorithms.contains(name) || library::is_shipped(name)
    }

    /// The name of a known algorithm that `name` resembles.
    pub(super) fn similar_algorithm(&self, name: &str) -> Option<&'a str> {
        let shipped = library::shipped_names().map(|name| -> &'a str { name });
        nearest(name, self.algorithms.iter().copied().chain(shipped), &[])
    }

    /// Consumes the brace of an algorithm's body, and finds its end.
    pub(super) fn enter_body(&mut self) {
        self.bump();
        let body = self.significant.get(self.cursor).map_or(0, |at| self.tokens[*at].body);
        let rest = self.significant.get(self.cursor..).unwrap_or_default();
        let length = rest.iter().take_while(|at| body > 0 && self.tokens[**at].body == body).count();
        let last = self.cursor + length;
        // The brace that closes the body is the last token in it.
        let closes = |at: &usize| self.tokens[*at].kind == SyntaxKind::CloseBrace;
        let closed = length > 0 && self.significant.get(last - 1).is_some_and(closes);
        self.body_end = if closed { last - 1 } else { last };
    }

    /// Whether the body of the algorithm ends here.
    pub(super) fn at_body_end(&self) -> bool {
        self.cursor >= self.body_end
    }

    /// Whether the next token is the operator `text`.
    pub(super) fn at_operator_text(&self, text: &str) -> bool {
        self.at(SyntaxKind::Operator) && self.text() == text
    }
}

/// Whether `text` has the form of a name.
pub fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.starts_with(letter) && text.chars().all(part) && !text.ends_with('.') && !text.contains("..")
}
