//! The state of the server: the phase of the connection and the open texts.

use crate::completion::completions;
use crate::diagnostics::{corrections, diagnostics, edits};
use crate::host::{Compiler, SourceHost, path};
use crate::hover::hover;
use crate::line_index::LineIndex;
use crate::rename::{renamable, rename};
use crate::symbols::Symbols;
use gen_lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionParams, CodeActionProvider, CompletionOptions,
    CompletionParams, Contents, DefinitionParams, DefinitionProvider, DidChangeTextDocumentParams,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, DocumentFormattingParams,
    DocumentFormattingProvider, DocumentSymbolParams, DocumentSymbolProvider, Hover, HoverParams,
    HoverProvider, InitializeResult, Location, MarkupContent, MarkupKind, PositionEncodingKind,
    PrepareRenameParams, PublishDiagnosticsParams, RenameOptions, RenameParams, RenameProvider,
    ServerCapabilities, ServerInfo, TextDocumentContentChangeEvent, TextDocumentPositionParams,
    TextDocumentSync, TextDocumentSyncKind, TextEdit, Uri,
};
use lsp_server::{ErrorCode, Message, Notification, Request, Response, ResponseError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use weft_policy::syntax::TEXT_MAX;
use weft_policy::{Source, parse, reformat};
use weft_text::{Span, printable};

/// The phase of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    New,
    Ready,
    /// `shutdown` was answered.
    Closing,
    /// `exit` has come.
    Ended,
    /// `exit` has come after `shutdown`.
    EndedInOrder,
}

/// The server.
pub(crate) struct Server<'a> {
    host: &'a SourceHost<'a>,
    phase: Phase,
    texts: BTreeMap<String, String>,
}

/// An answer that is an error.
type Refused = ResponseError;

fn refused(code: ErrorCode, message: impl ToString) -> Refused {
    ResponseError { code: code as i32, message: printable(&message.to_string()), data: None }
}

/// The answer `work` gives to the parameters of a request.
fn answer<P: DeserializeOwned, R: Serialize>(
    params: Value,
    work: impl FnOnce(P) -> Result<R, Refused>,
) -> Result<Value, Refused> {
    let params = serde_json::from_value(params).map_err(|error| refused(ErrorCode::InvalidParams, error))?;
    serde_json::to_value(work(params)?).map_err(|error| refused(ErrorCode::InternalError, error))
}

impl<'a> Server<'a> {
    /// A server before the first message.
    pub(crate) fn new(host: &'a SourceHost<'a>) -> Self {
        Self { host, phase: Phase::New, texts: BTreeMap::new() }
    }

    /// Whether the editor has sent `exit`.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::EndedInOrder)
    }

    /// Whether `shutdown` came before `exit`.
    pub(crate) fn was_asked_to_end(&self) -> bool {
        self.phase == Phase::EndedInOrder
    }

    /// The messages that answer `message`.
    pub(crate) fn take(&mut self, message: Message) -> Vec<Message> {
        match message {
            Message::Request(Request { id, method, params }) => {
                let response_result = self.request(&method, params);
                vec![Response { id, response_result }.into()]
            }
            Message::Notification(Notification { method, params }) => {
                self.notification(&method, params).map(Message::from).into_iter().collect()
            }
            // The server asks nothing.
            Message::Response(_) => Vec::new(),
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value, Refused> {
        match (self.phase, method) {
            (Phase::New, "initialize") => {
                self.phase = Phase::Ready;
                answer(params, |_: Value| Ok(initialized()))
            }
            (Phase::New, _) => Err(refused(ErrorCode::ServerNotInitialized, "`initialize` comes first")),
            (Phase::Ready, "shutdown") => {
                self.phase = Phase::Closing;
                Ok(Value::Null)
            }
            (Phase::Ready, _) => self.question(method, params),
            _ => Err(refused(ErrorCode::InvalidRequest, "the server is shutting down")),
        }
    }

    fn question(&self, method: &str, params: Value) -> Result<Value, Refused> {
        match method {
            "textDocument/hover" => {
                answer(params, |p: HoverParams| self.hover(&p.text_document_position_params))
            }
            "textDocument/completion" => answer(params, |p: CompletionParams| {
                let (text, offset) = self.at(&p.text_document_position_params)?;
                Ok(completions(text, offset))
            }),
            "textDocument/definition" => {
                answer(params, |p: DefinitionParams| self.definition(&p.text_document_position_params))
            }
            "textDocument/prepareRename" => answer(params, |p: PrepareRenameParams| {
                let (text, offset) = self.at(&p.text_document_position_params)?;
                let place =
                    renamable(text, offset).map_err(|denied| refused(ErrorCode::RequestFailed, denied))?;
                Ok(LineIndex::new(text).range(place.span))
            }),
            "textDocument/rename" => answer(params, |p: RenameParams| {
                let (text, offset) = self.at(&p.text_document_position_params)?;
                let path = path(p.text_document_position_params.text_document.uri.as_ref());
                let renamed = rename(Compiler::new(self.host, &path), text, offset, &p.new_name);
                let renamed = renamed.map_err(|denied| refused(ErrorCode::RequestFailed, denied))?;
                Ok(edits(&p.text_document_position_params.text_document.uri, renamed))
            }),
            "textDocument/codeAction" => answer(params, |p: CodeActionParams| {
                let uri = &p.text_document.uri;
                let path = path(uri.as_ref());
                Ok(corrections(Compiler::new(self.host, &path), uri, self.text(uri)?, p.range))
            }),
            "textDocument/formatting" => {
                answer(params, |p: DocumentFormattingParams| Ok(formatted(self.text(&p.text_document.uri)?)))
            }
            "textDocument/documentSymbol" => answer(params, |p: DocumentSymbolParams| {
                let text = self.text(&p.text_document.uri)?;
                let (tree, _) = parse(Source { name: "", text });
                Ok(Symbols::new(&tree).outline(&LineIndex::new(text)))
            }),
            "initialize" => Err(refused(ErrorCode::InvalidRequest, "`initialize` comes once")),
            _ => Err(refused(ErrorCode::MethodNotFound, format!("there is no method {method}"))),
        }
    }

    /// Keeps a text that was opened or changed, and publishes its diagnostics.
    fn notification(&mut self, method: &str, params: Value) -> Option<Notification> {
        match (self.phase, method) {
            (Phase::Closing, "exit") => self.phase = Phase::EndedInOrder,
            (_, "exit") => self.phase = Phase::Ended,
            (Phase::Ready, "textDocument/didOpen") => {
                let opened = serde_json::from_value::<DidOpenTextDocumentParams>(params).ok()?.text_document;
                return self.keep(opened.uri, opened.version, opened.text);
            }
            (Phase::Ready, "textDocument/didChange") => {
                let changed = serde_json::from_value::<DidChangeTextDocumentParams>(params).ok()?;
                let uri = changed.text_document.text_document_identifier.uri;
                let whole = changed.content_changes.into_iter().rev().find_map(|change| match change {
                    TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => {
                        Some(whole.text)
                    }
                    TextDocumentContentChangeEvent::TextDocumentContentChangePartial(_) => None,
                });
                return self.keep(uri, changed.text_document.version, whole?);
            }
            (Phase::Ready, "textDocument/didClose") => {
                let closed = serde_json::from_value::<DidCloseTextDocumentParams>(params).ok()?;
                self.texts.remove(closed.text_document.uri.as_ref());
                return Some(published(self.host, closed.text_document.uri, None, None));
            }
            _ => {}
        }
        None
    }

    fn keep(&mut self, uri: Uri, version: i32, text: String) -> Option<Notification> {
        let told = published(self.host, uri.clone(), Some(version), Some(&text));
        // The compiler refuses a longer text, and it is not kept.
        let text = if text.len() > TEXT_MAX { String::new() } else { text };
        self.texts.insert(uri.as_ref().to_owned(), text);
        Some(told)
    }

    fn text(&self, uri: &Uri) -> Result<&str, Refused> {
        let text = self.texts.get(uri.as_ref()).map(String::as_str);
        text.ok_or_else(|| refused(ErrorCode::InvalidParams, format!("{uri} is not open")))
    }

    /// The text, and the byte of a position in it.
    fn at(&self, place: &TextDocumentPositionParams) -> Result<(&str, usize), Refused> {
        let text = self.text(&place.text_document.uri)?;
        Ok((text, LineIndex::new(text).offset(place.position)))
    }

    fn hover(&self, place: &TextDocumentPositionParams) -> Result<Option<Hover>, Refused> {
        let (text, offset) = self.at(place)?;
        let path = path(place.text_document.uri.as_ref());
        Ok(hover(Compiler::new(self.host, &path), text, offset).map(|(value, span)| Hover {
            contents: Contents::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value }),
            range: Some(LineIndex::new(text).range(span)),
        }))
    }

    fn definition(&self, place: &TextDocumentPositionParams) -> Result<Option<Location>, Refused> {
        let (text, offset) = self.at(place)?;
        let symbols = Symbols::new(&parse(Source { name: "", text }).0);
        let found = symbols.at(offset).and_then(|place| symbols.find(place.scope, &place.name));
        let uri = place.text_document.uri.clone();
        Ok(found.map(|found| Location { uri, range: LineIndex::new(text).range(found.span) }))
    }
}

fn initialized() -> InitializeResult {
    let triggers = [" ", "{", ","].map(str::to_owned).to_vec();
    InitializeResult {
        capabilities: ServerCapabilities {
            position_encoding: Some(PositionEncodingKind::UTF16),
            text_document_sync: Some(TextDocumentSync::Kind(TextDocumentSyncKind::Full)),
            hover_provider: Some(HoverProvider::Bool(true)),
            definition_provider: Some(DefinitionProvider::Bool(true)),
            document_symbol_provider: Some(DocumentSymbolProvider::Bool(true)),
            document_formatting_provider: Some(DocumentFormattingProvider::Bool(true)),
            completion_provider: Some(CompletionOptions {
                trigger_characters: Some(triggers),
                ..CompletionOptions::default()
            }),
            rename_provider: Some(RenameProvider::RenameOptions(RenameOptions {
                prepare_provider: Some(true),
                ..RenameOptions::default()
            })),
            code_action_provider: Some(CodeActionProvider::CodeActionOptions(CodeActionOptions {
                code_action_kinds: Some(vec![CodeActionKind::QuickFix]),
                ..CodeActionOptions::default()
            })),
            ..ServerCapabilities::default()
        },
        server_info: Some(ServerInfo {
            name: "weft".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}

/// The diagnostics of a text, as the editor receives them; none for one that was closed.
fn published(host: &SourceHost<'_>, uri: Uri, version: Option<i32>, text: Option<&str>) -> Notification {
    let path = path(uri.as_ref());
    let compiler = Compiler::new(host, &path);
    let found = text.map_or_else(Vec::new, |text| diagnostics(compiler, text, &LineIndex::new(text)));
    let diagnostics = found.into_iter().map(|found| found.shown).collect();
    Notification::new(
        "textDocument/publishDiagnostics".to_owned(),
        PublishDiagnosticsParams { uri, version, diagnostics },
    )
}

/// The edit that gives a text its standard form; none for a text with syntax errors, which the diagnostics show.
fn formatted(text: &str) -> Vec<TextEdit> {
    match reformat(Source { name: "", text }) {
        Ok(new) if new != text => {
            vec![TextEdit { range: LineIndex::new(text).range(Span::new(0, text.len())), new_text: new }]
        }
        _ => Vec::new(),
    }
}
