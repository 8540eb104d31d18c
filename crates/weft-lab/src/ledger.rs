//! The books of a software NIC: packets and bytes at every station, in = out + dropped + held.
//!
//! The sides of each equation are counted by different hands: what enters by the eBPF program, what leaves by the transmit
//! worker, what was dropped by the kernel's device counters, what is held by taking it out of the rings at the end. So an
//! equation that does not hold is seen.

use weft_nic::counters::Count;
use weft_nic::nic::Totals;
use weft_report::record::{Conservation, Drops, Ledger, Station};

/// Drops outside the NIC's own devices that the caller knows of: a qdisc on the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QdiscDrops {
    /// Packets.
    pub packets: u64,
}

fn ledger(entered: Count, left: Count, dropped: Drops, held: Count) -> Ledger {
    Ledger {
        in_packets: entered.packets.get(),
        in_bytes: entered.bytes.get(),
        out_packets: left.packets.get(),
        out_bytes: left.bytes.get(),
        dropped_packets: dropped.packets,
        dropped_bytes: dropped.bytes,
        held_packets: held.packets.get(),
        held_bytes: held.bytes.get(),
    }
}

fn drops(count: Count) -> Drops {
    Drops { packets: count.packets.get(), bytes: count.bytes.get() }
}

/// Devices count dropped packets and not their bytes; where they say that some were dropped, the bytes that are missing are
/// theirs. Where they say none, missing bytes stay missing.
fn dropped_on_the_way(packets: u64, entered: Count, left: Count) -> Drops {
    let missing = entered.minus(left).bytes.get();
    Drops { packets, bytes: if packets > 0 { missing } else { 0 } }
}

/// Closes the books.
pub fn conservation(totals: &Totals, qdisc: QdiscDrops) -> Conservation {
    let rung = totals.sum(|c| c.rung);
    let fetched = totals.sum(|c| c.fetched);
    let sent = totals.sum(|c| c.sent);
    let refused = totals.sum(|c| c.refused);
    let held = totals.sum(|c| c.held);
    let by_kernel = totals.drops.backlog + totals.drops.ring_full + qdisc.packets;
    let lost = dropped_on_the_way(by_kernel, rung, fetched);
    let on_wire = dropped_on_the_way(totals.uplink_dropped, totals.uplink_writes, totals.uplink_arrived);
    let station = |name: &str, ledger| Station { name: name.to_owned(), ledger };
    let none = Count::default();
    let stations = vec![
        station("descriptor rings", ledger(rung, fetched, lost, none)),
        station("engine and segmentation", ledger(fetched, sent, drops(refused), held)),
        station("uplink", ledger(totals.uplink_writes, totals.uplink_arrived, on_wire, none)),
        station("receive", {
            let passed = totals.reverse.minus(totals.reverse_refused);
            ledger(totals.reverse, passed, drops(totals.reverse_refused), none)
        }),
    ];
    let total_dropped =
        Drops { packets: lost.packets + refused.packets.get(), bytes: lost.bytes + refused.bytes.get() };
    let reasons = [
        ("lost between doorbell and ring (ring or backlog full)", lost),
        ("refused by the uplink", drops(refused)),
    ];
    Conservation {
        total: ledger(rung, sent, total_dropped, held),
        drops: reasons
            .into_iter()
            .filter(|(_, d)| d.packets > 0)
            .map(|(reason, d)| (reason.to_owned(), d))
            .collect(),
        stations,
    }
}
