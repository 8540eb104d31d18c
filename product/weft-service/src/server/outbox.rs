//! Bytes that wait to be sent.

use std::io::{self, Write};

/// Bytes that wait to be sent on a socket that does not block.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if self.is_empty() {
            (self.bytes, self.sent) = (bytes, 0);
        } else {
            self.bytes.extend(bytes);
        }
    }

    /// Whether everything was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.sent >= self.bytes.len()
    }

    /// Sends as much as the socket takes, and returns the number of bytes.
    ///
    /// # Errors
    /// When the socket fails.
    pub(super) fn send(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let before = self.sent;
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match socket.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let sent = self.sent - before;
        if self.is_empty() {
            *self = Self::default();
        }
        Ok(sent)
    }
}
