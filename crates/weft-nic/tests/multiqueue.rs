//! The NIC as a plain multiqueue NIC, between real TCP/IP stacks.

#[path = "common/bench.rs"]
mod bench;
#[path = "common/streams.rs"]
mod streams;

use bench::conserved;
use core::sync::atomic::Ordering;
use std::time::Duration;
use streams::Streams;
use weft_nic::departures::{Departure, DepartureLog};
use weft_nic::multiqueue::{Multiqueue, start};
use weft_nic::nic::{SoftwareNic, Totals};
use weft_nic::testbed::Testbed;
use weft_sched::queues::{Inner, Service};
use weft_units::{BitsPerSec, Bytes, FlowId, Nanos, QueueId};

/// Stops the NIC and checks its books and those of the log.
fn finish(nic: SoftwareNic) -> (Totals, DepartureLog) {
    let (totals, log) = nic.stop_with_log(Nanos::from_secs(1)).expect("stop");
    conserved(&totals);
    let wire = totals.sum(|c| c.wire);
    assert_eq!(log.wire(), wire.bytes, "the log has every byte");
    let segments: u64 = log.departures.iter().map(|d| u64::from(d.segments)).sum();
    assert_eq!(segments, wire.packets.get());
    let ordered = |pair: &[Departure]| pair[0].end <= pair[1].start && pair[0].start < pair[0].end;
    assert!(log.departures.windows(2).all(ordered), "one after the other");
    (totals, log)
}

/// Bytes by flow of the departures between two times.
fn by_flow(log: &DepartureLog, from: Nanos, to: Nanos) -> Vec<u64> {
    let mut bytes = vec![0; log.flows.len()];
    for d in log.departures.iter().filter(|d| d.start >= from && d.end < to) {
        bytes[d.flow.index()] += d.wire().get();
    }
    bytes
}

/// The queue of a flow, which it never leaves.
fn queue_of(log: &DepartureLog, flow: FlowId) -> QueueId {
    let mut queues = log.departures.iter().filter(|d| d.flow == flow).map(|d| d.queue);
    let first = queues.next().expect("it has sent");
    assert!(queues.all(|queue| queue == first), "{flow} stays in its queue");
    first
}

#[test]
fn tcp_flows_keep_the_books_and_their_queues() {
    if !weft_host::testing::privileged("tcp_flows_keep_the_books_and_their_queues") {
        return;
    }
    for (role, inner, service) in [
        ("mqf", Inner::Fifo, Service::RoundRobin),
        ("mqs", Inner::Fair, Service::Deficit { credit: Bytes(3072) }),
    ] {
        let bed = Testbed::create(role).expect("testbed");
        let wanted = Multiqueue {
            inner,
            service,
            departures: Some(10_000),
            ..Multiqueue::new(BitsPerSec(500_000_000))
        };
        let nic = start(&bed, &wanted).expect("nic");
        let mut streams = Streams::open(&bed, 12);
        std::thread::sleep(Duration::from_millis(600));
        let received = streams.close();
        assert!(received.iter().all(|bytes| *bytes > 0), "{received:?}");
        let page = nic.queue_page();
        let held: u32 = page.held.iter().map(|h| h.load(Ordering::SeqCst)).sum();
        assert_eq!(held, 0, "whole packets are never held");
        let (totals, log) = finish(nic);
        assert_eq!((totals.strays, totals.staleness.count), (0, 0));
        for (key, received) in streams.keys().iter().zip(&received) {
            let flow = log.flow(key).expect("logged");
            queue_of(&log, flow);
            let sent: u64 = log.departures.iter().filter(|d| d.flow == flow).map(|d| d.wire().get()).sum();
            assert!(sent > *received, "headers and all: {sent} for {received}");
        }
        let most = log.departures.iter().map(|d| d.segments).max().expect("departures");
        assert!(most > 10, "super-packets go whole: at most {most} segments");
    }
}
