//! What is said about texts that people write: places, located errors and their drawing, quoting, suggestions.
//!
//! A reader says what is wrong as a [`ParseError`], which knows bytes only. [`ParseError::locate`] gives it file, line and
//! column: a [`LocatedError`], which is shown in two lines, or drawn with the line that it speaks of.
#![forbid(unsafe_code)]

mod draw;
mod error;
mod quote;
mod span;
mod suggest;

pub use draw::{Drawing, Excerpt, Level, Style};
pub use error::{LocatedError, ParseError};
pub use quote::{printable, quoted, steers};
pub use span::{LineIndex, Position, Span};
pub use suggest::{hint, hint_and_all, nearest};
