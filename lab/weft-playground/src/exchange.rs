//! The functions of the WebAssembly module: a buffer for the question, a buffer for the answer.
//!
//! The page requests room, writes a question there, runs it, and reads the answer:
//!
//! ```text
//! at = weft_question(length)      room for the question, or 0 if it is too long
//! length = weft_run()             the answer's length
//! at = weft_answer()              where it begins
//! ```
//!
//! Both buffers stay until the next call, and the answer is at most a few hundred kilobytes. A generator of glue would add its own
//! types and a build step to these four functions.
#![allow(unsafe_code, reason = "exported names, which only the linker could confuse")]

use crate::bounds::TEXT_MAX;
use crate::question::run;
use crate::start::start;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest question: both texts, each byte as an escape.
const QUESTION_MAX: usize = 2 * 6 * TEXT_MAX + 1024;

#[derive(Debug)]
struct Exchange {
    question: Vec<u8>,
    answer: Vec<u8>,
}

static EXCHANGE: Mutex<Exchange> = Mutex::new(Exchange { question: Vec::new(), answer: Vec::new() });

fn exchange() -> MutexGuard<'static, Exchange> {
    EXCHANGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes room for a question of `length` bytes. Returns where it begins, or null if it is too long.
// SAFETY: no other function of the workspace has this name.
#[unsafe(no_mangle)]
pub extern "C" fn weft_question(length: usize) -> *mut u8 {
    if length > QUESTION_MAX {
        return core::ptr::null_mut();
    }
    let mut exchange = exchange();
    exchange.question = vec![b' '; length];
    exchange.question.as_mut_ptr()
}

/// Answers the question. Returns the length of the answer.
// SAFETY: no other function of the workspace has this name.
#[unsafe(no_mangle)]
pub extern "C" fn weft_run() -> usize {
    let mut exchange = exchange();
    let question = String::from_utf8_lossy(&exchange.question);
    exchange.answer = run(&question).into_bytes();
    exchange.question = Vec::new();
    exchange.answer.len()
}

/// Makes [`start`] the answer. Returns its length.
// SAFETY: no other function of the workspace has this name.
#[unsafe(no_mangle)]
pub extern "C" fn weft_start() -> usize {
    let mut exchange = exchange();
    exchange.answer = start().into_bytes();
    exchange.answer.len()
}

/// Returns where the answer begins.
// SAFETY: no other function of the workspace has this name.
#[unsafe(no_mangle)]
pub extern "C" fn weft_answer() -> *const u8 {
    exchange().answer.as_ptr()
}
