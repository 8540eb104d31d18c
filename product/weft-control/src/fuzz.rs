//! The fuzz target: the properties that must hold for any bytes on a connection.

use crate::interface::Request;
use crate::receive::{Received, receive};
use crate::wire::{self, Call, Frames, MESSAGE_MAX, WireAnswer};

/// Feeds `data` to the server's side as received on one connection, in pieces whose size is the first byte. Panics when a
/// message is longer than allowed, differs with the size of the pieces, or is answered by something else than one message
/// with either parameters or an error, or when a request does not return from its own bytes.
pub fn fuzz_control(data: &[u8]) {
    let size = data.first().copied().map_or(1, |byte| usize::from(byte).max(1));
    let frames = divided(data, size);
    assert_eq!(frames, divided(data, usize::MAX), "the messages differ with the size of the pieces");
    for frame in frames {
        assert!(frame.len() <= MESSAGE_MAX && !frame.contains(&0));
        match receive(&frame) {
            Received::Request { request, .. } => returns(&request),
            Received::Answer(answer) | Received::Close(answer) => is_an_answer(&answer),
            Received::Silent => {}
        }
    }
}

/// The messages of `data`, received in pieces of `size`.
fn divided(data: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in data.chunks(size) {
        if frames.push(piece).is_err() {
            break;
        }
        found.extend(std::iter::from_fn(|| frames.take()).flatten());
        frames.release();
    }
    found
}

/// Asserts that a request is the same after it was sent again.
fn returns(request: &Request) {
    let bytes = wire::message(&request.to_call());
    let call: Call = serde_json::from_slice(&bytes[..bytes.len() - 1]).expect("a call");
    let name = call.method.strip_prefix("io.weft.").expect("the interface");
    assert_eq!(Request::read(name, call.parameters.unwrap_or_default()).as_ref(), Ok(request));
}

/// Asserts that bytes are one message with either parameters or an error.
fn is_an_answer(bytes: &[u8]) {
    let (last, body) = bytes.split_last().expect("a NUL");
    assert!(*last == 0 && !body.contains(&0), "one message");
    let answer: WireAnswer = serde_json::from_slice(body).expect("an answer");
    assert!(answer.parameters.is_some() && answer.continues.is_none(), "{answer:?}");
}
