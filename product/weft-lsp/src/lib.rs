//! The language server of policies: diagnostics, corrections, hover, completion, rename and formatting in an editor, by the Language Server
//! Protocol.
//!
//! 1. `wire` reads messages from the editor and bounds them.
//! 2. `server` keeps the open texts, sends each request to the module that answers it, and checks what may come before and after a message.
//! 3. `diagnostics`, `hover`, `completion`, `rename` and `symbols` answer from the text alone, by the compiler that the command uses.
//! 4. `host` calls the compiler, with the files of tenants that the caller reads for it.
//! 5. `line_index` turns bytes into the protocol's positions, which count UTF-16 code units.
//!
//! These rules hold:
//!
//! - No message causes a panic. What is no message of the protocol ends [`serve`] with an error of one line.
//! - One thread answers in the order of the questions, so an answer always belongs to the text that the editor had.
//! - A proposed edit compiles: a rename that would make a good policy a refused one is denied with the reason.
//!
//! The server needs no clock and no thread, and opens no file itself, so lsp-server serves with its messages and not with its connections.
#![forbid(unsafe_code)]

mod completion;
mod diagnostics;
mod host;
mod hover;
mod line_index;
mod rename;
mod server;
mod symbols;
mod wire;

pub use host::SourceHost;
use server::Server;
use std::io::{BufRead, Write};

/// The reason that the server cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The header of a message cannot be read.
    #[error("a message of the editor has no `Content-Length: N` header that can be read")]
    Header,
    /// A message is longer than any that a policy can need.
    #[error("a message of the editor has more than {} bytes", wire::MESSAGE_MAX)]
    TooLong,
    /// The content of a message is not JSON-RPC.
    #[error("a message of the editor is not JSON-RPC: {0}")]
    Content(#[from] serde_json::Error),
    /// The connection ended within a message.
    #[error("the connection to the editor ended within a message")]
    Unfinished,
    /// The connection ended before the notification `exit`.
    #[error("the connection to the editor ended without `shutdown` and `exit`")]
    Abandoned,
    /// Standard input or output failed.
    #[error("the connection to the editor failed: {0}")]
    Connection(#[from] std::io::Error),
}

/// Answers the messages on `input` until the editor sends `exit`.
pub fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    host: &SourceHost<'_>,
) -> Result<(), ServeError> {
    let mut server = Server::new(host);
    while let Some(message) = wire::read(&mut input)? {
        for answer in server.take(message) {
            answer.write(&mut output)?;
        }
        if server.has_ended() {
            return if server.was_asked_to_end() { Ok(()) } else { Err(ServeError::Abandoned) };
        }
    }
    Err(ServeError::Abandoned)
}
