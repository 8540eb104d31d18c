//! Doorbells of the software NIC's port: one for a batch of packets, and one for each packet.
//!
//! The port's doorbell is a run of its eBPF program: it adds to words that the host shares with the NIC, and wakes a NIC that sleeps. It
//! runs once for an skb. So datagrams that one call sends as one skb (`UDP_SEGMENT`), which the kernel cuts behind the program, have
//! one doorbell; datagrams of a call each have one each. The kernel's run-time statistics count the time of the program.

use core::net::Ipv4Addr;
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::UdpSocket;
use std::time::Instant;
use weft_host::bpf_stats::BpfStats;
use weft_host::link;
use weft_nic::nic::{NicConfig, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::testbed::{PORT, RECEIVER, Testbed, WIRE};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, Source, compile};
use weft_report::rounds::Rounds;
use weft_units::{BitsPerSec, Nanos};

/// Packets of a batch: what Loom writes to its doorbell queue at once (section 4.2: 32 doorbells in a cache line).
pub(super) const BATCH: u32 = 32;
/// Bytes of a datagram: a batch fits into one skb.
const DATAGRAM: usize = 1024;
/// Batches of a run.
const BATCHES: u64 = 500;
/// A link that does not limit.
const LINK: BitsPerSec = BitsPerSec(10_000_000_000);
/// Packets that the ring holds: several batches.
const RING_PACKETS: u32 = 2000;
/// Batches between two waits for the NIC.
const BATCHES_AT_ONCE: u64 = 8;
/// Time for the NIC to send what it has.
const PATIENCE: Duration = Duration::from_secs(10);
/// The receiver's port, whose socket is never read.
const DISCARD: u16 = 9000;

/// Time of the doorbells for a packet, in nanoseconds, by run; and doorbells for a packet.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Rung {
    pub(super) nanos: Vec<f64>,
    pub(super) doorbells: Vec<f64>,
}

/// Both ways.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Doorbells {
    pub(super) per_batch: Rung,
    pub(super) per_packet: Rung,
}

/// The reason that this host cannot measure doorbells.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotMeasured(String);

/// Measures both, in turns; `None` if the caller asks to stop.
pub(super) fn measure(runs: u32, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<Doorbells>, NotMeasured> {
    in_turns(runs, stop).map_err(NotMeasured)
}

fn in_turns(runs: u32, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<Doorbells>, String> {
    let bed = Testbed::create("bell").map_err(said)?;
    let _statistics = BpfStats::enable().map_err(said)?;
    let source = Source { name: "doorbells", text: "class all = any\nroot = fair of all\n" };
    let policy = compile(source, &CompileOptions::default()).policy.ok_or("the policy has errors")?;
    let plan = NicPlan::new(&policy, config()).map_err(said)?;
    let (port, uplink) = bed.devices_with(plan.ring_count(), RING_PACKETS, true).map_err(said)?;
    let nic = SoftwareNic::start(plan, port, uplink).map_err(said)?;
    bed.connect().map_err(said)?;
    link::wait_running(&bed.sender, PORT, PATIENCE).map_err(said)?;
    link::wait_running(&bed.receiver, WIRE, PATIENCE).map_err(said)?;
    let _discard = bed.receiver.run(|| UdpSocket::bind((RECEIVER, DISCARD))).map_err(said)?.map_err(said)?;
    let socket = |size: Option<usize>| -> Result<UdpSocket, String> {
        let socket =
            bed.sender.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).map_err(said)?.map_err(said)?;
        socket.connect((RECEIVER, DISCARD)).map_err(said)?;
        if let Some(size) = size {
            setsockopt(&socket, sockopt::UdpGsoSegment, &(size as i32)).map_err(said)?;
        }
        Ok(socket)
    };
    let ways = [(socket(Some(DATAGRAM))?, true), (socket(None)?, false)];
    let rounds = Rounds::measure(runs + 1, &ways, stop, |turn| run(&nic, &turn.variant.0, turn.variant.1))?;
    if rounds.0.len() <= runs as usize {
        return Ok(None);
    }
    nic.stop(Nanos::from_secs(2)).map_err(said)?;
    let rung = |way| {
        // The first run makes the flows known, which costs more.
        let (nanos, doorbells) = rounds.of(way).skip(1).flatten().copied().unzip();
        Rung { nanos, doorbells }
    };
    Ok(Some(Doorbells { per_batch: rung(0), per_packet: rung(1) }))
}

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

fn config() -> NicConfig {
    NicConfig {
        mode: Mode::Loom,
        rate: LINK,
        link: weft_nic::link::LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::Whole,
        catch_up: Nanos::from_millis(50),
        window: Nanos::from_millis(50),
        cgroups: Vec::new(),
        flows: Vec::new(),
        rings: 4,
        departures: None,
    }
}

/// Sends all batches; returns nanoseconds and doorbells for a packet. `None` if the kernel counted nothing.
fn run(nic: &SoftwareNic, socket: &UdpSocket, batched: bool) -> Result<Option<(f64, f64)>, String> {
    let before = nic.totals().map_err(said)?;
    for number in 0..BATCHES {
        if batched {
            socket.send(&[0; DATAGRAM * BATCH as usize]).map_err(said)?;
        } else {
            for _ in 0..BATCH {
                socket.send(&[0; DATAGRAM]).map_err(said)?;
            }
        }
        if number % BATCHES_AT_ONCE == 0 {
            settle(nic)?;
        }
    }
    let after = settle(nic)?;
    let packets = |totals: &Totals| totals.sum(|class| class.posted).packets.get();
    let posted = packets(&after).saturating_sub(packets(&before)) as f64;
    let (runs, nanos) =
        (after.bpf.runs.saturating_sub(before.bpf.runs), after.bpf.nanos.saturating_sub(before.bpf.nanos));
    Ok((posted > 0.0 && nanos > 0).then_some((nanos as f64 / posted, runs as f64 / posted)))
}

/// Waits until the NIC has sent what was posted.
fn settle(nic: &SoftwareNic) -> Result<Totals, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let totals = nic.totals().map_err(said)?;
        let gone = totals.sum(|class| class.sent + class.refused).packets.get();
        if gone + totals.lost >= totals.sum(|class| class.posted).packets.get() {
            return Ok(totals);
        }
        if !nic.is_running() || Instant::now() > end {
            return Err("the software NIC did not send what was posted".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::testing::privileged;

    /// A law, whatever the machine's speed: a doorbell for a batch of datagrams, and one for each datagram.
    #[test]
    fn a_batch_has_one_doorbell_and_single_packets_have_one_each() {
        if !privileged("a_batch_has_one_doorbell_and_single_packets_have_one_each") {
            return;
        }
        assert_eq!(measure(1, &|| true), Ok(None), "a stop ends it");
        let seen = measure(1, &|| false).expect("measured").expect("not stopped");
        let [batched] = seen.per_batch.doorbells[..] else { panic!("{seen:?}") };
        let [single] = seen.per_packet.doorbells[..] else { panic!("{seen:?}") };
        // Nothing else sends at the port but, rarely, the resolution of an address.
        assert!((batched * f64::from(BATCH) - 1.0).abs() < 0.05, "{seen:?}");
        assert!((single - 1.0).abs() < 0.05, "{seen:?}");
        assert!(seen.per_batch.nanos[0] > 0.0, "{seen:?}");
    }
}
