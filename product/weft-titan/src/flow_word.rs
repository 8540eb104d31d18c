//! The state word of a flow, shared by all cores: `state` of `struct weft_titan_flow` in `bpf/titan.h`, which has the
//! rules of its changes.
//!
//! `tests/loom_table.rs` compiles this file with its model of the protocol.

/// Bits 0..27: segments outstanding.
pub const OUT: u64 = (1 << 28) - 1;
/// The first bit of the queue, which has 8 bits.
pub const QUEUE_AT: u32 = 28;
/// The first bit of the weight, which has 16 bits.
pub const WEIGHT_AT: u32 = 36;
/// Flag: no packet of the flow has been assigned yet.
pub const NEW: u64 = 1 << 52;
/// Flag: packets of the flow were left to the device's choice and may be outstanding.
pub const PASSING: u64 = 1 << 53;
/// Flag: the entry is being reassigned to another flow.
pub const TAKEN: u64 = 1 << 54;
/// All flags. With any of them set, segments do not count.
pub const FLAGS: u64 = NEW | PASSING | TAKEN;
/// The increment when a flow ends or is passed, so that a compare and swap from an older word fails.
pub const ENDED: u64 = 1 << 55;

/// The number of outstanding segments.
pub fn out(word: u64) -> u64 {
    word & OUT
}

/// The queue in which the flow counts, or counted when it ended.
pub fn queue(word: u64) -> u64 {
    word >> QUEUE_AT & 0xff
}

/// The weight that the flow counts with, or counted with when it ended.
pub fn weight(word: u64) -> u64 {
    word >> WEIGHT_AT & 0xffff
}

/// Whether the flow counts in its queue.
pub fn is_active(word: u64) -> bool {
    out(word) > 0 && word & FLAGS == 0
}

/// A queue and a weight, as the bits of a word.
pub fn place(queue: u64, weight: u64) -> u64 {
    (queue & 0xff) << QUEUE_AT | (weight & 0xffff) << WEIGHT_AT
}

/// The successor of `word` when no segment is outstanding.
pub fn ended(word: u64) -> u64 {
    (word & !OUT).wrapping_add(ENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_bits() {
        let word = 45 | place(255, 65_535);
        assert_eq!((out(word), queue(word), weight(word), is_active(word)), (45, 255, 65_535, true));
        assert!([NEW, PASSING, TAKEN].iter().all(|flag| !is_active(word | flag)));
        let mut after = word;
        for _ in 0..512 {
            after = ended(after | 7);
            assert_eq!((out(after), queue(after), weight(after)), (0, 255, 65_535));
        }
        assert_eq!(after, word & !OUT, "the count of endings goes round and touches nothing else");
    }

    #[test]
    fn the_programs_have_the_same_bits() {
        let header = include_str!("../../../bpf/titan.h");
        let bit = |word: u64| word.trailing_zeros();
        for line in [
            format!("WEFT_FLOW_OUT ((1ull << {}) - 1)", OUT.count_ones()),
            format!("WEFT_FLOW_QUEUE {QUEUE_AT} "),
            format!("WEFT_FLOW_WEIGHT {WEIGHT_AT}\n"),
            format!("WEFT_FLOW_NEW (1ull << {})", bit(NEW)),
            format!("WEFT_FLOW_PASSING (1ull << {})", bit(PASSING)),
            format!("WEFT_FLOW_TAKEN (1ull << {})", bit(TAKEN)),
            format!("WEFT_FLOW_ENDED (1ull << {})", bit(ENDED)),
        ] {
            assert!(header.contains(&format!("#define {line}")), "{line}");
        }
    }
}
