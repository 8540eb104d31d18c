//! The Internet checksum (RFC 1071).

/// A ones' complement sum before folding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds a 16-bit word.
    pub(super) const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Subtracts a 16-bit word by adding its complement (RFC 1624).
    pub(super) const fn minus(self, word: u16) -> Self {
        self.word(!word)
    }

    /// Adds bytes that begin at an even offset of the summed data.
    ///
    /// Adds four bytes at a time: ones' complement addition may use any width and be folded at the end (RFC 1071, 2(C)). 64 bits
    /// overflow after 2^32 additions, far beyond a packet.
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_be_bytes(*word));
        }
        let (pairs, last) = rest.as_chunks::<2>();
        for pair in pairs {
            self.0 += u64::from(u16::from_be_bytes(*pair));
        }
        if let [byte] = last {
            self.0 += u64::from(*byte) << 8;
        }
        self
    }

    /// Returns the sum folded to 16 bits, not complemented: the content of an open checksum's field.
    pub(super) const fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Returns the checksum: the complement of the folded sum.
    pub(super) const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Returns the checksum for a transport header. In UDP, 0 means "no checksum", so 0xffff replaces it (RFC 768; the kernel
    /// does so for every protocol, `CSUM_MANGLED_0`).
    pub(super) const fn checksum_not_zero(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            sum => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).folded(), 0xddf2);
        assert_eq!(
            Sum::default().bytes(&bytes[..7]).folded(),
            0xdcfb,
            "an odd byte is padded with zero behind it"
        );
    }

    #[test]
    fn a_ones_complement_difference() {
        let whole = Sum::default().word(0x1234).word(0xfffe);
        assert_eq!(whole.minus(0xfffe).folded(), 0x1234);
        assert_eq!(Sum::default().checksum(), 0xffff);
        assert_eq!(Sum::default().word(0xffff).checksum_not_zero(), 0xffff);
    }
}
