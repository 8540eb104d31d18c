//! A sender driven alone: writes, acknowledgements, losses, timers.

use super::*;
use crate::congestion;
use crate::event::{Agenda, Event};
use crate::packet::{Ack, Body};
use weft_units::Nanos;

const STREAM: StreamId = StreamId(2);
const MSS: u32 = 1000;

fn sender() -> TcpSender {
    let parameters = SenderParameters {
        mss: MSS,
        whole_segments: false,
        gso: Bytes(65_536),
        small_queue: Some(SmallQueue { limit: Bytes(100_000), floor_segments: 2 }),
        send_buffer: Bytes(1_000_000),
        receive_window: Bytes(1_000_000),
        nagle: Nagle::On,
    };
    TcpSender::new(STREAM, congestion::build("reno"), parameters)
}

/// Writes `bytes` and sends everything allowed with empty queues below; returns the first packet and payload of each segment.
fn write_and_push(sender: &mut TcpSender, bytes: u64, now: Nanos, agenda: &mut Agenda) -> Vec<(u64, u32)> {
    sender.give(Unwritten::Bytes(bytes));
    if let Some(bytes) = sender.writable(bytes) {
        sender.append(bytes);
    }
    push(sender, now, agenda)
}

fn push(sender: &mut TcpSender, now: Nanos, agenda: &mut Agenda) -> Vec<(u64, u32)> {
    let (first, mut sent) = (sender.next_packet(), Vec::new());
    let stop = loop {
        match sender.next(0) {
            Next::Segment(payload) => {
                let outgoing = sender.take(payload, now, agenda);
                let Body::Data { first } = outgoing.body else { panic!("not data: {outgoing:?}") };
                sent.push((first, outgoing.payload));
            }
            Next::Stop(stop) => break stop,
        }
    };
    sender.pushed(first, stop, now);
    sent
}

fn ack(packets: u64, next: u64) -> Ack {
    Ack { next, packets, bytes: packets * u64::from(MSS), window: 1_000_000, ..Ack::default() }
}

#[test]
fn the_initial_window_is_sent_and_the_timer_set() {
    let (mut sender, mut agenda) = (sender(), Agenda::new());
    let sent = write_and_push(&mut sender, 50_000, Nanos(5), &mut agenda);
    assert_eq!(sent.iter().map(|(_, payload)| payload).sum::<u32>(), 10 * MSS);
    assert_eq!((sender.in_flight(), agenda.len()), (10, 1));
    assert!(matches!(agenda.pop(), Some((_, Event::Timer { stream: STREAM }))));
}

#[test]
fn an_acknowledgement_lets_twice_as_much_follow_in_slow_start() {
    let (mut sender, mut agenda) = (sender(), Agenda::new());
    write_and_push(&mut sender, 50_000, Nanos(5), &mut agenda);
    sender.on_ack(&ack(10, 10), Nanos(1_000_005));
    let payload =
        push(&mut sender, Nanos(1_000_005), &mut agenda).iter().map(|(_, bytes)| bytes).sum::<u32>();
    assert_eq!((payload, sender.smoothed_rtt()), (20 * MSS, Nanos(1_000_005)));
    assert!(!sender.is_done());
}

#[test]
fn what_is_lost_is_sent_again_under_new_numbers() {
    let (mut sender, mut agenda) = (sender(), Agenda::new());
    write_and_push(&mut sender, 10_000, Nanos(5), &mut agenda);
    // Two packets below the highest are missing.
    sender.on_ack(&ack(8, 10), Nanos(1_000_005));
    assert_eq!(sender.window.cwnd, 5);
    let again = push(&mut sender, Nanos(1_000_005), &mut agenda);
    assert_eq!((again, sender.retransmitted()), (vec![(10, 2 * MSS)], 2));
    sender.on_ack(&ack(10, 12), Nanos(2_000_005));
    assert!(sender.is_done());
}

#[test]
fn a_tail_loss_probe_comes_before_a_timeout() {
    let (mut sender, mut agenda) = (sender(), Agenda::new());
    write_and_push(&mut sender, 2000, Nanos(0), &mut agenda);
    let (at, _) = agenda.pop().expect("the timer");
    assert_eq!(sender.on_timer(at, &mut agenda), Some(Expired::TailLossProbe(0)));
    sender.take(0, at, &mut agenda);
    let (at, _) = agenda.pop().expect("the timer, once");
    assert!(agenda.is_empty());
    assert_eq!(sender.on_timer(at, &mut agenda), Some(Expired::Timeout));
    assert_eq!((sender.window.cwnd, sender.resend), (1, 2000));
}

#[test]
fn small_queues_hold_a_stream_back_until_something_is_freed() {
    let mut sender = sender();
    sender.give(Unwritten::Bytes(5000));
    sender.append(5000);
    assert!(!sender.segment_freed(Tasklet::Single), "it is not held back");
    assert_eq!(sender.next(100_001), Next::Stop(output::Stop::SmallQueue));
    assert!(sender.segment_freed(Tasklet::Single));
    assert!(!sender.segment_freed(Tasklet::Single), "it is in the tasklet already");
    sender.leave_tasklet();
    assert!(sender.segment_freed(Tasklet::Batched));
}

#[test]
fn a_writer_sleeps_in_a_full_buffer_and_wakes_when_a_third_is_free() {
    let (mut sender, mut agenda) = (sender(), Agenda::new());
    assert!(sender.give(Unwritten::Endless), "its thread slept");
    while let Some(bytes) = sender.writable(16_384) {
        sender.append(bytes);
    }
    assert!(!sender.wakes_writer());
    push(&mut sender, Nanos(0), &mut agenda);
    // The buffer grows with the window.
    sender.on_ack(&ack(10, 10), Nanos(1_000_000));
    assert!(sender.wakes_writer());
    assert!(!sender.wakes_writer(), "it is awake");
}

/// A device that cuts nothing gets one packet for the whole segment, which counts as its packets.
#[test]
fn a_whole_segment_is_one_packet_below_and_several_in_the_window() {
    let mut sender = sender();
    sender.parameters.whole_segments = true;
    sender.give(Unwritten::Bytes(5500));
    if let Some(bytes) = sender.writable(5500) {
        sender.append(bytes);
    }
    let Next::Segment(payload) = sender.next(0) else { panic!("something may be sent") };
    let outgoing = sender.take(payload, Nanos(0), &mut Agenda::new());
    assert_eq!((outgoing.payload, outgoing.packets()), (5500, 1));
    assert_eq!((sender.in_flight(), sender.next_packet()), (6, 6));
    assert_eq!([0, 1, 1000, 1001].map(|payload| sender.packets_of(payload)), [1, 1, 1, 2]);
}
