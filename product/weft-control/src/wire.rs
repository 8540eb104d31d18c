//! Messages of varlink as bytes: JSON objects, each followed by a NUL byte.

use crate::error::ControlError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest message, in bytes, without its NUL. JSON may write a character of a policy in six bytes, so policies of up
/// to 2 MiB always fit.
pub const MESSAGE_MAX: usize = 16 << 20;

/// The longest message of a caller who may only read, in bytes.
pub const READER_MESSAGE_MAX: usize = 1 << 20;

/// A message longer than its sender may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of this user has at most {most} bytes")]
pub struct TooLarge {
    /// The most bytes.
    pub most: usize,
}

/// A call, as a client sends it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The interface and the method, joined by a dot.
    pub method: String,
    /// The parameters; absent, null and empty mean the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// Whether the client requests no answer.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub oneway: Option<bool>,
    /// Whether the client accepts more than one answer.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub more: Option<bool>,
    /// Whether the client requests another protocol on the connection.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub upgrade: Option<bool>,
}

fn is_unset(flag: &Option<bool>) -> bool {
    *flag != Some(true)
}

/// The number of answers that the client expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallMode {
    /// One answer.
    Once,
    /// Any number of answers.
    More,
    /// None.
    Oneway,
}

/// Whether another answer to the same call follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continues {
    /// Another answer follows.
    Yes,
    /// This answer is the last.
    No,
}

/// An answer, as a server sends it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WireAnswer {
    /// The parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Whether another answer follows.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub continues: Option<bool>,
    /// The name of the error, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The message of a reply with `parameters`.
pub fn reply<T: Serialize>(parameters: &T, continues: Continues) -> Vec<u8> {
    let parameters = serde_json::to_value(parameters).ok();
    message(&WireAnswer { parameters, continues: (continues == Continues::Yes).then_some(true), error: None })
}

/// The message of an error.
pub fn error(error: &ControlError) -> Vec<u8> {
    let (name, parameters) = error.to_wire();
    message(&WireAnswer { parameters: Some(parameters), continues: None, error: Some(name) })
}

/// `value` as a message, with its NUL. The types of this crate always serialize.
pub fn message<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec());
    bytes.push(0);
    bytes
}

/// The bytes received on a connection, divided into messages.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The most bytes of a message.
    most: usize,
    bytes: Vec<u8>,
    /// The first byte of the next message.
    start: usize,
    /// The first byte that was not searched for a NUL.
    searched: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self::of(MESSAGE_MAX)
    }
}

impl Frames {
    /// No bytes yet, of messages of at most `most` bytes.
    pub fn of(most: usize) -> Self {
        Self { most, bytes: Vec::new(), start: 0, searched: 0 }
    }

    /// Adds received bytes. The caller takes complete messages with [`take`](Self::take) before it adds more, so that the
    /// memory is bounded by a message and a reading.
    ///
    /// # Errors
    /// When the message under way is longer than it may be.
    pub fn push(&mut self, received: &[u8]) -> Result<(), TooLarge> {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(received);
        // Only the new bytes are searched: a long message comes in many readings.
        let pending = received.iter().rev().position(|b| *b == 0).unwrap_or(self.bytes.len());
        if pending > self.most { Err(TooLarge { most: self.most }) } else { Ok(()) }
    }

    /// Takes the next complete message, without its NUL.
    ///
    /// # Errors
    /// When it is longer than it may be.
    pub fn take(&mut self) -> Option<Result<Vec<u8>, TooLarge>> {
        let found = self.bytes.get(self.searched..)?.iter().position(|b| *b == 0);
        let Some(offset) = found else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + offset;
        let frame = self.bytes.get(self.start..end)?.to_vec();
        (self.start, self.searched) = (end + 1, end + 1);
        Some(if frame.len() > self.most { Err(TooLarge { most: self.most }) } else { Ok(frame) })
    }

    /// The bytes held.
    pub fn held(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Releases the memory of messages that were taken.
    pub fn release(&mut self) {
        if self.held() == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(frames: &mut Frames) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| frames.take()).map(|frame| frame.expect("short")).collect()
    }

    #[test]
    fn messages_are_divided_wherever_the_bytes_are() {
        let bytes = b"{}\0{\"a\":1}\0\0{";
        for size in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for chunk in bytes.chunks(size) {
                frames.push(chunk).expect("short");
                found.extend(all(&mut frames));
            }
            assert_eq!(found, [b"{}".to_vec(), b"{\"a\":1}".to_vec(), Vec::new()], "{size}");
            assert_eq!(frames.held(), 1);
        }
    }

    #[test]
    fn a_message_has_a_most_length() {
        let mut frames = Frames::default();
        frames.push(&vec![b'x'; MESSAGE_MAX]).expect("just fits");
        assert_eq!(frames.take(), None);
        frames.push(b"\0").expect("its end");
        assert_eq!(frames.take().map(|f| f.expect("fits").len()), Some(MESSAGE_MAX));
        frames.release();
        assert_eq!(frames.held(), 0);
        assert_eq!(frames.push(&vec![b'x'; MESSAGE_MAX + 1]), Err(TooLarge { most: MESSAGE_MAX }));
        let mut frames = Frames::default();
        let mut whole = vec![b'x'; MESSAGE_MAX + 1];
        whole.push(0);
        frames.push(&whole).expect("complete");
        assert_eq!(frames.take(), Some(Err(TooLarge { most: MESSAGE_MAX })));
    }

    #[test]
    fn flags_that_are_not_set_are_not_sent() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        assert_eq!(text(reply(&serde_json::json!({}), Continues::No)), "{\"parameters\":{}}\0");
        assert_eq!(
            text(reply(&serde_json::json!({"a": 1}), Continues::Yes)),
            "{\"parameters\":{\"a\":1},\"continues\":true}\0"
        );
    }
}
