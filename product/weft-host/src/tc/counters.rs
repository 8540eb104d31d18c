//! The counters of a qdisc or of a class, as the kernel reports them.

use weft_units::{Bytes, Counted, Packets};

use crate::netlink::{attributes, u32_at, u64_at};

/// `linux/gen_stats.h`.
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

/// The counters since the qdisc or class was made, and its current backlog. The kernel reports bytes in 64 bits, the backlog, drops and
/// the other events in 32 bits; packets sent in 64 bits once they exceed 32 (Linux 5.5 and later).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscCounters {
    /// Packets sent, with their bytes.
    pub sent: Counted,
    /// Packets dropped.
    pub dropped: Packets,
    /// Times that a limit held a packet back: a shaper's rate, a full queue.
    pub overlimits: u64,
    /// Times that the device took a packet and gave it back.
    pub requeues: u64,
    /// Packets waiting (`qlen`), with their bytes.
    pub backlog: Counted,
}

impl QdiscCounters {
    /// Reads the attributes below `TCA_STATS2`: `gnet_stats_basic` and `gnet_stats_queue`. Zeros where they are missing.
    pub(super) fn parse(stats: &[u8]) -> Self {
        let mut counters = Self::default();
        for (kind, value) in attributes(stats) {
            match kind {
                TCA_STATS_BASIC => counters.sent = Counted::new(u32_at(value, 8).into(), u64_at(value, 0)),
                TCA_STATS_PKT64 => counters.sent.packets = Packets(u64_at(value, 0)),
                TCA_STATS_QUEUE => {
                    let field = |number: usize| u64::from(u32_at(value, 4 * number));
                    counters.backlog = Counted { packets: Packets(field(0)), bytes: Bytes(field(1)) };
                    counters.dropped = Packets(field(2));
                    (counters.requeues, counters.overlimits) = (field(3), field(4));
                }
                _ => {}
            }
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Attributes;

    #[test]
    fn fields_stand_where_the_header_puts_them() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let basic = [&7_000_000_000_u64.to_ne_bytes()[..], &words(&[5])].concat();
        let stats = Attributes::default()
            .with(TCA_STATS_BASIC, &basic)
            .with(TCA_STATS_PKT64, &(1_u64 << 33).to_ne_bytes())
            .with(TCA_STATS_QUEUE, &words(&[1, 2, 3, 4, 5]));
        let expected = QdiscCounters {
            sent: Counted::new(1 << 33, 7_000_000_000),
            dropped: Packets(3),
            overlimits: 5,
            requeues: 4,
            backlog: Counted::new(1, 2),
        };
        assert_eq!(QdiscCounters::parse(&stats.bytes()), expected);
        assert_eq!(QdiscCounters::parse(&[]), QdiscCounters::default());
    }
}
