//! Rare events of whole runs: drops behind the qdiscs, as observers see them, and the senders' timers.

use weft_sim::outcome::RunOutcome;
use weft_sim::run::{simulate, simulate_observed};
use weft_sim::scenario::{Scenario, read};
use weft_sim::trace::{Observer, PacketEvent, PacketEventKind};
use weft_units::{Bytes, Counted, Nanos, Packets};

fn scenario(text: &str) -> Scenario {
    let text = format!("warm_up = \"0s\"\n{text}");
    read(&text, "drops.toml", &mut |_| Ok(String::new())).unwrap_or_else(|error| panic!("{error}"))
}

/// The sum of the packets dropped behind the qdiscs, and the latest of them.
#[derive(Default)]
struct Dropped {
    sum: Counted,
    latest: Nanos,
}

impl Observer for Dropped {
    fn packet(&mut self, event: &PacketEvent) {
        // Drops of qdiscs have a queue, and are segments.
        if event.kind == PacketEventKind::Dropped && event.queue.is_none() {
            self.sum.packets += Packets(1);
            self.sum.bytes += event.len;
            self.latest = self.latest.max(event.at);
        }
    }
}

/// Returns what stages behind the qdiscs dropped. The network's balance includes its switch ports.
fn counted(outcome: &RunOutcome) -> Counted {
    let mut sum = Counted::ZERO;
    for stage in &outcome.balances {
        if stage.name == "network" || stage.name.ends_with(" receive rings") {
            sum.packets += stage.balance.dropped().packets;
            sum.bytes += stage.balance.dropped().bytes;
        }
    }
    sum
}

#[test]
fn observers_are_told_of_each_packet_that_a_stage_behind_the_qdiscs_drops() {
    for (place, text) in [
        ("link", "duration = \"15ms\"\n[network]\nloss = 0.01\n[[flows]]\ncount = 4\n[[probes]]\n"),
        (
            "switch",
            "duration = \"15ms\"\nhosts = 5\n[network]\ntopology = \"star\"\n[network.switch]\nbuffer = \"60KB\"\n\
             [[flows]]\nto = 4\n[[flows]]\nfrom = 1\nto = 4\n[[flows]]\nfrom = 2\nto = 4\n",
        ),
        (
            "receive ring",
            "duration = \"15ms\"\n[host.nic]\nreceive_ring = 4\n[[flows]]\ncount = 8\n[[probes]]\n",
        ),
    ] {
        let scenario = scenario(text);
        let (outcome, dropped) = simulate_observed(&scenario, 1, Dropped::default()).expect("runs");
        assert!(dropped.sum.packets > Packets(3), "{place}: {:?}", dropped.sum);
        assert_eq!(dropped.sum, counted(&outcome), "{place}");
        assert!(dropped.latest <= scenario.duration, "{place}: {}", dropped.latest);
        assert_eq!(outcome, simulate(&scenario, 1).expect("runs"), "{place}: observation changes nothing");
    }
}

#[test]
fn timeouts_and_tail_loss_probes_are_counted() {
    let run = |text: &str| simulate(&scenario(text), 1).expect("runs");
    let clean = run("duration = \"300ms\"\n[[flows]]\ncount = 2\n");
    assert_eq!((clean.counters.retransmission_timeouts, clean.counters.tail_loss_probes), (0, 0));
    // Requests are short, so that nothing behind a lost packet reveals the loss: the probe does, or the timeout.
    let lossy = run(
        "duration = \"3s\"\n[network]\nloss = 0.2\n[[flows]]\ncount = 8\ntraffic = \"request-response\"\n",
    );
    let counters = &lossy.counters;
    assert!(counters.tail_loss_probes > 10, "{counters:?}");
    assert!(counters.retransmission_timeouts > 10, "{counters:?}");
    assert!(lossy.flows.iter().map(|flow| flow.received).sum::<Bytes>() > Bytes(0));
}
