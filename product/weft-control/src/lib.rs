//! The control socket of `weft daemon`: the varlink protocol (<https://varlink.org>), and the interface `io.weft`.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | messages as bytes: JSON objects that end with NUL, bounded |
//! | [`interface`] | the methods of `io.weft`: requests and replies |
//! | [`tenants`] | the files and the state of tenants in them |
//! | [`error`] | the errors of `io.weft` and of `org.varlink.service` |
//! | [`receive`] | the server's side: from a message to a request or an answer |
//! | [`client`] | the client's side, blocking |
//!
//! These rules hold:
//!
//! - The server's side is a function of bytes. It reads no socket and no clock, so a fuzzer can run it ([`fuzz_control`]).
//! - A message has at most [`wire::MESSAGE_MAX`] bytes, and [`wire::READER_MESSAGE_MAX`] of a user who may only read. A longer one ends its
//!   connection.
//! - A call without `oneway` has exactly one last answer, a call with `oneway` none.
//! - No bytes cause a panic.
//!
//! Rare branches: an invalid message is answered once, with the reason, and its connection then ends. The daemon counts
//! neither, since the peer is on the same host and has the answer.
#![forbid(unsafe_code)]

pub mod client;
pub mod error;
mod fuzz;
pub mod interface;
pub mod receive;
pub mod tenants;
pub mod wire;

pub use client::{Client, ClientError};
pub use error::ControlError;
pub use fuzz::fuzz_control;
pub use interface::Request;

/// The default path of the control socket.
pub const SOCKET: &str = "/run/weft/io.weft";
/// The name of the interface.
pub const INTERFACE: &str = "io.weft";
/// The definition of the interface, as `GetInterfaceDescription` returns it.
pub const DEFINITION: &str = include_str!("io.weft.varlink");
/// The definition of the interface that every varlink service has.
pub const SERVICE_DEFINITION: &str = include_str!("org.varlink.service.varlink");
