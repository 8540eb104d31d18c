//! memcached's text protocol over UDP (doc/protocol.txt of memcached 1.6, "UDP protocol").

use core::fmt::Write as _;

/// Length of the header of each datagram: request number, sequence number, number of datagrams, reserved; 16 bits
/// each, in network order.
pub(super) const HEADER: usize = 8;
/// The largest datagram that memcached sends (`UDP_MAX_PAYLOAD_SIZE`, memcached.h).
const LARGEST_DATAGRAM: usize = 1400;
/// Bytes of a key, as memaslap's.
pub(super) const KEY: usize = 64;
/// The largest value whose answer is one datagram, and whose `set` is one frame of 1514 bytes: the answer adds
/// `VALUE key flags bytes\r\n` and `\r\nEND\r\n`.
pub(super) const LARGEST_VALUE: usize = LARGEST_DATAGRAM - HEADER - KEY - 24;

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Get,
    Set,
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// `VALUE`: the key's value, with its length in bytes.
    Value(usize),
    /// `END`: the key is missing.
    Miss,
    /// `STORED`.
    Stored,
    /// Anything else, such as `SERVER_ERROR`.
    Error,
}

/// Returns the key with a number.
fn key(number: u32) -> String {
    format!("weft-{number:0>width$}", width = KEY - 5)
}

/// Writes a request into `datagram`, as one datagram. The value of a `set` has `value` bytes.
pub(super) fn request(datagram: &mut Vec<u8>, id: u16, command: Command, number: u32, value: usize) {
    datagram.clear();
    datagram.extend_from_slice(&id.to_be_bytes());
    datagram.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
    let key = key(number);
    let mut line = String::with_capacity(KEY + 24);
    // Writing to a `String` cannot fail.
    let _ = match command {
        Command::Get => write!(line, "get {key}\r\n"),
        Command::Set => write!(line, "set {key} 0 0 {value}\r\n"),
    };
    datagram.extend_from_slice(line.as_bytes());
    if command == Command::Set {
        datagram.resize(datagram.len() + value, b'x');
        datagram.extend_from_slice(b"\r\n");
    }
}

/// Parses an answer of one datagram: its request's number, and its content. `None` for any other datagram.
pub(super) fn answer(datagram: &[u8]) -> Option<(u16, Answer)> {
    let (header, text) = datagram.split_first_chunk::<HEADER>()?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if (word(2), word(4)) != (0, 1) {
        return None;
    }
    let line = text.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let answer = match line.split(|byte| *byte == b' ').collect::<Vec<_>>()[..] {
        [b"STORED"] => Answer::Stored,
        [b"END"] => Answer::Miss,
        [b"VALUE", _key, _flags, bytes] => {
            let bytes = core::str::from_utf8(bytes).ok().and_then(|text| text.parse::<usize>().ok())?;
            // The line, the value, and the end.
            let expected = line.len() + 2 + bytes + 7;
            if text.len() == expected && text.ends_with(b"\r\nEND\r\n") {
                Answer::Value(bytes)
            } else {
                Answer::Error
            }
        }
        _ => Answer::Error,
    };
    Some((word(0), answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_the_protocol_says() {
        let mut datagram = Vec::new();
        request(&mut datagram, 0x1234, Command::Get, 7, 0);
        assert_eq!(datagram[..8], [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
        let text = core::str::from_utf8(&datagram[8..]).expect("text");
        assert_eq!(text.len(), 4 + KEY + 2);
        assert!(text.starts_with("get weft-000") && text.ends_with("7\r\n"), "{text}");
        request(&mut datagram, 1, Command::Set, 7, 3);
        let text = core::str::from_utf8(&datagram[8..]).expect("text");
        assert!(text.ends_with("7 0 0 3\r\nxxx\r\n"), "{text}");
    }

    #[test]
    fn answers() {
        let datagram = |text: &str| [&[0, 9, 0, 0, 0, 1, 0, 0], text.as_bytes()].concat();
        assert_eq!(answer(&datagram("STORED\r\n")), Some((9, Answer::Stored)));
        assert_eq!(answer(&datagram("END\r\n")), Some((9, Answer::Miss)));
        assert_eq!(answer(&datagram("VALUE k 0 3\r\nabc\r\nEND\r\n")), Some((9, Answer::Value(3))));
        assert_eq!(answer(&datagram("VALUE k 0 4\r\nabc\r\nEND\r\n")), Some((9, Answer::Error)));
        assert_eq!(answer(&datagram("SERVER_ERROR out of memory\r\n")), Some((9, Answer::Error)));
        assert_eq!(answer(&datagram("VALUE k 0 x\r\n")), None);
        assert_eq!(answer(&datagram("")), Some((9, Answer::Error)));
        assert_eq!(answer(b"short"), None);
        // The second of two datagrams.
        assert_eq!(answer(&[0, 9, 0, 1, 0, 2, 0, 0, b'E']), None);
    }
}
