//! The counters of a qdisc or of a class of one, as the kernel reports them.

use weft_units::{Bytes, Packets};

use crate::netlink::{attributes, u32_at, u64_at};

const TCMSG_LEN: usize = 20;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// The counters since the qdisc or class was made, and its current backlog. The kernel's counters of packets have 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscCounters {
    /// Bytes sent.
    pub bytes: Bytes,
    /// Packets sent.
    pub packets: Packets,
    /// Packets dropped.
    pub dropped: Packets,
    /// Bytes waiting.
    pub backlog: Bytes,
    /// Packets waiting.
    pub waiting: Packets,
}

impl QdiscCounters {
    /// Reads an answer: a `struct tcmsg` and its attributes (`gnet_stats_basic` and `gnet_stats_queue`,
    /// include/uapi/linux/gen_stats.h). Zeros where they are missing.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let mut counters = Self::default();
        let all = attributes(body.get(TCMSG_LEN..).unwrap_or_default()).find(|(kind, _)| *kind == TCA_STATS2);
        for (kind, value) in all.into_iter().flat_map(|(_, nested)| attributes(nested)) {
            match kind {
                TCA_STATS_BASIC => {
                    counters.bytes = Bytes(u64_at(value, 0));
                    counters.packets = Packets(u32_at(value, 8).into());
                }
                TCA_STATS_QUEUE => {
                    counters.waiting = Packets(u32_at(value, 0).into());
                    counters.backlog = Bytes(u32_at(value, 4).into());
                    counters.dropped = Packets(u32_at(value, 8).into());
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

    #[test]
    fn an_answer_without_counters_is_empty() {
        assert_eq!(QdiscCounters::parse(&[]), QdiscCounters::default());
        assert_eq!(QdiscCounters::parse(&[0; 19]), QdiscCounters::default());
    }
}
