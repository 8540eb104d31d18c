//! Diagnostics of texts that people write: spans, located errors and their drawing, quoting, suggestions, differences.
//!
//! A reader reports an error as a [`ParseError`], which has a span of bytes. [`ParseError::locate`] adds file, line and
//! column. The resulting [`LocatedError`] is printed in two lines, or drawn with an excerpt of the text.
#![forbid(unsafe_code)]

mod diff;
mod draw;
mod error;
mod quote;
mod span;
mod suggest;
#[cfg(feature = "toml")]
pub mod toml;

pub use diff::unified;
pub use draw::{Drawing, Excerpt, Level, Style};
pub use error::{LocatedError, ParseError};
pub use quote::{printable, quoted, steers};
pub use span::{LineIndex, Position, Span};
pub use suggest::{hint, hint_and_all, nearest};
