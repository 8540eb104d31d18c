//! The module behind the page of the playground: compiler, interpreter and engine as one function of texts.
//!
//! [`run`] takes a question as JSON, a policy and arrivals, and returns an answer as JSON: the diagnostics with their fixes, the
//! drawing, the price, and each packet's departure and ranks. `answer` has the form, `docs/schemas` its schema.
//!
//! - `question` reads the texts, within `bounds`.
//! - `observe` runs the arrivals on the engine and records the orders before each turn.
//! - `pifo` runs them in the order that a PIFO would have, where that can be said.
//! - `start` is what the page needs once: the words of the language and the samples.
//! - `exchange` is the same for WebAssembly: two buffers and four functions, without generated glue.
//!
//! These rules hold:
//!
//! - No question makes it panic, and each is answered within bounds: [`TEXT_MAX`], [`PACKETS_MAX`], [`TURNS_MAX`], [`TIME_MAX`].
//! - Nothing here schedules: order and times are those of `weft policy test`.
#![deny(unsafe_code)]

mod answer;
mod bounds;
mod exchange;
mod fuzz;
mod observe;
mod pifo;
mod question;
mod start;

pub use answer::{
    Fault, Head, Packet, PlaygroundAnswer, ShownDeparture, ShownOutcome, ShownPlace, ShownTurn,
};
pub use bounds::{CLASSES_DRAWN_MAX, HEADS_MAX, PACKETS_MAX, TEXT_MAX, TIME_MAX, TURNS_MAX};
pub use exchange::{weft_answer, weft_question, weft_run, weft_start};
pub use fuzz::fuzz_playground;
pub use question::{Question, answer, run};
pub use start::{PolicySample, SAMPLES, start};
