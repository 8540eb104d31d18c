//! Sockets that several cores send from at once: increments and decrements of the counts are equal, including flows
//! that Titan passes.

use crate::common::assigned::{Assigned, Flow, get, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use weft_host::testing::privileged;
use weft_nic::multiqueue::Multiqueue;
use weft_titan::settings::Settings;
use weft_units::BitsPerSec;

/// Two threads, each on its own core (or the same if there is one), that send from all `flows` as fast as they can
/// while `middle` runs.
fn blast(flows: &[Flow], middle: impl FnOnce()) {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let stop = &stop;
            scope.spawn(move || {
                pin(thread % cores);
                for round in thread.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    flows[round % flows.len()].send(1);
                    // Occasionally all packets of a flow leave, so that it may start anew.
                    if round % 512 == 0 {
                        std::thread::sleep(Duration::from_micros(500));
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        middle();
    });
}

/// A guard that stops the senders when it is dropped, even after a failure, since the scope waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A flow with few waiting packets, so that its last packet leaves soon.
fn flow(assigned: &Assigned) -> Flow {
    let flow = assigned.flow();
    setsockopt(&flow.socket, sockopt::SndBuf, &(64 << 10)).expect("buffer");
    flow
}

/// Titan is attached in the middle of the traffic and detached again, repeatedly; after each round all counts are
/// exact.
fn comes_while_two_cores_send(role: &str, sockets: usize, settings: &Settings, rounds: usize) {
    let _alone = weft_host::testing::alone();
    // As much as two cores send, so that flows alternate between busy and idle.
    let wanted = Multiqueue { ring_packets: 8000, ..Multiqueue::new(BitsPerSec(300_000_000)) };
    let mut assigned = Assigned::without(role, &wanted);
    let flows: Vec<Flow> = (0..sockets).map(|_| flow(&assigned)).collect();
    let (mut left_alone, mut counted) = (0, 0);
    for _ in 0..rounds {
        blast(&flows, || {
            std::thread::sleep(Duration::from_millis(20));
            assigned.attach(settings);
            std::thread::sleep(Duration::from_millis(300));
        });
        assigned.settled();
        let totals = assigned.titan().totals();
        left_alone += get(&totals.passed) + get(&totals.beyond);
        counted += assigned.titan().page().activations();
        assigned.detach();
    }
    assert!(left_alone > 0, "no packet was left alone");
    println!("{role}: {left_alone} packets left alone, {counted} activations");
    assigned.finish();
}

#[test]
fn one_socket_under_way_that_two_cores_send_from() {
    if !privileged("one_socket_under_way_that_two_cores_send_from") {
        return;
    }
    comes_while_two_cores_send("tco", 1, &Settings::default(), 6);
}

#[test]
fn one_socket_and_room_for_one_flow() {
    if !privileged("one_socket_and_room_for_one_flow") {
        return;
    }
    comes_while_two_cores_send("tcr", 1, &Settings { most_flows: 1, ..Settings::default() }, 4);
}

#[test]
fn four_sockets_and_room_for_one_flow() {
    if !privileged("four_sockets_and_room_for_one_flow") {
        return;
    }
    comes_while_two_cores_send("tcf", 4, &Settings { most_flows: 1, ..Settings::default() }, 4);
}

#[test]
fn six_sockets_and_room_for_all() {
    if !privileged("six_sockets_and_room_for_all") {
        return;
    }
    comes_while_two_cores_send("tcs", 6, &Settings::default(), 6);
}
