//! Messages of protocol buffers (the wire format of protobuf.dev/programming-guides/encoding), for writing.

/// A message being written.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

/// The wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

impl Message {
    /// Adds a field of the types `uint64`, `uint32`, `bool`, `enum`, or `int64` with a negative value as its two's complement.
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// Adds a field of the type `fixed64`.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a field of the type `string`.
    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.tag(field, LENGTH);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Adds a field that is a message, which `write` fills.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, LENGTH);
        let start = self.0.len();
        write(self);
        // The length precedes what it counts, and is known now.
        let (mut length, mut bytes, mut count) = ((self.0.len() - start) as u64, [0; 10], 0);
        while length >= 0x80 {
            bytes[count] = length as u8 | 0x80;
            length >>= 7;
            count += 1;
        }
        bytes[count] = length as u8;
        self.0.splice(start..start, bytes[..=count].iter().copied());
    }

    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Forgets the bytes, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    /// The examples of the format's description.
    #[test]
    fn published_examples() {
        let mut message = Message::default();
        message.number(1, 150);
        assert_eq!(message.bytes(), [0x08, 0x96, 0x01]);
        message.clear();
        message.text(2, "testing");
        assert_eq!(message.bytes(), [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        message.clear();
        message.message(3, |inner| inner.number(1, 150));
        assert_eq!(message.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        message.clear();
        message.number(1, (-2_i64) as u64);
        assert_eq!(message.bytes(), [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn a_long_message_has_a_long_length() {
        let mut message = Message::default();
        message.message(1, |inner| inner.text(2, &"x".repeat(300)));
        assert_eq!(message.bytes()[..6], [0x0a, 0xaf, 0x02, 0x12, 0xac, 0x02]);
        assert_eq!(message.bytes().len(), 306);
    }
}
