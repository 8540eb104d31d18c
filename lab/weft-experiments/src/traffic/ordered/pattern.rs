//! Payload that encodes its place: byte `i` of a stream is `i` modulo a prime, so that a lost, repeated or misplaced
//! piece is detected.

/// A prime below 256, so that no power of two (buffer, segment) is a multiple of the pattern.
const PERIOD: usize = 251;
/// The longest piece.
pub(super) const PIECE: usize = 64 << 10;

static TABLE: [u8; PIECE + PERIOD] = table();

const fn table() -> [u8; PIECE + PERIOD] {
    let mut table = [0; PIECE + PERIOD];
    let mut i = 0;
    while i < table.len() {
        table[i] = (i % PERIOD) as u8;
        i += 1;
    }
    table
}

/// Returns the stream's bytes from `offset`, as many as asked for but at most [`PIECE`].
pub(super) fn piece(offset: u64, length: u64) -> &'static [u8] {
    let start = (offset % PERIOD as u64) as usize;
    let length = usize::try_from(length).unwrap_or(PIECE).min(PIECE);
    &TABLE[start..start + length]
}

/// Whether `bytes` are the stream's from `offset`.
pub(super) fn fits(offset: u64, bytes: &[u8]) -> bool {
    let mut at = offset;
    bytes.chunks(PIECE).all(|part| {
        let same = part == piece(at, part.len() as u64);
        at += part.len() as u64;
        same
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_its_place_modulo_the_period() {
        for (offset, length) in [(0, 10), (250, 3), (1_000_003, PIECE as u64), (u64::MAX - 7, 5)] {
            let naive: Vec<u8> = (0..length).map(|i| ((offset + i) % 251) as u8).collect();
            assert_eq!(piece(offset, length), naive);
            assert!(fits(offset, &naive));
            assert!(!fits(offset + 1, &naive));
        }
        assert_eq!(piece(3, u64::MAX).len(), PIECE);
        let two: Vec<u8> = (0..2 * PIECE).map(|i| ((i + 5) % 251) as u8).collect();
        assert!(fits(5, &two));
        let swapped: Vec<u8> = [&two[1448..2896], &two[..1448]].concat();
        assert!(!fits(5, &swapped));
    }
}
