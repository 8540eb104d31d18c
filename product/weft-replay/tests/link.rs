//! The link against closed forms, with trivially correct schedulers.

use std::collections::VecDeque;
use weft_replay::link::{Framing, LinkDequeue, Scheduler, SentPacket, VirtualLink};
use weft_units::{BitsPerSec, Bytes, FlowId, LaneId, Nanos, Packets, Weight};

/// One queue per flow. The first backlogged queue sends (`Priority`), or queues take turns (`Turns`); `gap` is kept after every
/// packet.
struct Simple {
    queues: Vec<VecDeque<(Bytes, u64)>>,
    turns: bool,
    turn: usize,
    gap: Nanos,
    allowed: Nanos,
}

impl Simple {
    fn new(flows: usize, turns: bool, gap: Nanos) -> Self {
        Self { queues: vec![VecDeque::new(); flows], turns, turn: 0, gap, allowed: Nanos::ZERO }
    }
}

impl Scheduler for Simple {
    type Refused = ();

    fn reason((): &()) -> &'static str {
        "unknown flow"
    }

    fn add_flow(&mut self, _: LaneId, _: Weight) -> Result<FlowId, ()> {
        self.queues.push(VecDeque::new());
        Ok(FlowId::from_index(self.queues.len() - 1))
    }

    fn enqueue(&mut self, flow: FlowId, len: Bytes, handle: u64, _: Nanos) -> Result<(), ()> {
        self.queues.get_mut(flow.index()).ok_or(())?.push_back((len, handle));
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos) -> LinkDequeue {
        let count = self.queues.len();
        let from = if self.turns { self.turn } else { 0 };
        let Some(i) = (0..count).map(|i| (from + i) % count).find(|i| !self.queues[*i].is_empty()) else {
            return LinkDequeue::Empty;
        };
        if now < self.allowed {
            return LinkDequeue::Wait(self.allowed);
        }
        self.allowed = now + self.gap;
        self.turn = (i + 1) % count;
        let (len, handle) = self.queues[i].pop_front().expect("not empty");
        LinkDequeue::Packet {
            flow: FlowId::from_index(i),
            lane: LaneId::from_index(i),
            len,
            handle,
            marked: false,
        }
    }

    fn held(&self) -> Packets {
        Packets(self.queues.iter().map(|q| q.len() as u64).sum())
    }
}

/// Runs `(time, flow, length)` arrivals to the end; handles number them.
fn run(scheduler: Simple, rate: u64, framing: Framing, arrivals: &[(u64, u32, u64)]) -> Vec<SentPacket> {
    let mut link = VirtualLink::new(scheduler, BitsPerSec(rate), framing).expect("a rate");
    let mut departures = Vec::new();
    for (handle, &(at, flow, len)) in arrivals.iter().enumerate() {
        let packet = (FlowId(flow), Bytes(len), handle as u64);
        link.arrive(Nanos(at), packet, |fate| departures.extend(fate.sent())).expect("room");
    }
    link.drain(|fate| departures.extend(fate.sent()));
    assert_eq!(link.scheduler().held(), Packets::ZERO);
    assert_eq!(departures.len(), arrivals.len());
    for pair in departures.windows(2) {
        assert!(pair[0].end <= pair[1].start, "one packet at a time");
    }
    departures
}

#[test]
fn back_to_back_at_the_rate() {
    // 1538 bytes on the wire at 10 Gb/s: 1230.4 ns each, 1 000 000 of them in 1.2304 s.
    let arrivals: Vec<_> = (0..100_000).map(|_| (0, 0, 1514)).collect();
    let departures = run(Simple::new(1, false, Nanos::ZERO), 10_000_000_000, Framing::ETHERNET, &arrivals);
    for (k, departure) in departures.iter().enumerate() {
        assert_eq!(departure.end, Nanos((k as u64 + 1) * 12_304 / 10), "rounding never adds up");
        assert_eq!(departure.handle, k as u64);
    }
}

/// At 3 Gb/s a byte takes 2 2/3 ns; no fraction is carried over a pause.
#[test]
fn a_pause_forgets_the_fraction() {
    let arrivals = [(0, 0, 1), (100, 0, 1), (200, 0, 1), (200, 0, 1)];
    let departures = run(Simple::new(1, false, Nanos::ZERO), 3_000_000_000, Framing::NONE, &arrivals);
    let ends: Vec<_> = departures.iter().map(|d| d.end.0).collect();
    assert_eq!(ends, [2, 102, 202, 205]);
}

#[test]
fn short_frames_are_padded() {
    let departures = run(Simple::new(1, false, Nanos::ZERO), 1_000_000_000, Framing::ETHERNET, &[(0, 0, 42)]);
    assert_eq!(departures[0].end, Nanos(84 * 8));
    assert_eq!(departures[0].len, Bytes(42));
}

#[test]
fn an_idle_link_starts_with_the_arrival() {
    // At 8 Gb/s a byte takes a nanosecond.
    let arrivals = [(100, 0, 10), (105, 0, 10), (500, 0, 10)];
    let departures = run(Simple::new(1, false, Nanos::ZERO), 8_000_000_000, Framing::NONE, &arrivals);
    let times: Vec<_> = departures.iter().map(|d| (d.start.0, d.end.0)).collect();
    assert_eq!(times, [(100, 110), (110, 120), (500, 510)]);
}

#[test]
fn equal_classes_alternate() {
    let arrivals: Vec<_> = (0..20).map(|i| (0, u32::from(i >= 10), 100)).collect();
    let departures = run(Simple::new(2, true, Nanos::ZERO), 8_000_000_000, Framing::NONE, &arrivals);
    let flows: Vec<_> = departures.iter().map(|d| d.flow.0).collect();
    assert_eq!(flows, [0, 1].repeat(10));
}

#[test]
fn a_decision_sees_every_arrival_up_to_its_time() {
    // The packets of the low and the high flow arrive together: the high one is sent first, although it was offered later.
    let arrivals = [(10, 1, 100), (10, 0, 100), (110, 1, 100), (110, 0, 100)];
    let departures = run(Simple::new(2, false, Nanos::ZERO), 8_000_000_000, Framing::NONE, &arrivals);
    let handles: Vec<_> = departures.iter().map(|d| d.handle).collect();
    assert_eq!(handles, [1, 3, 0, 2]);
}

#[test]
fn a_rate_limit_spaces_packets() {
    let arrivals = [(0, 0, 10), (0, 0, 10), (0, 0, 10), (5000, 0, 10)];
    let departures = run(Simple::new(1, false, Nanos(1000)), 8_000_000_000, Framing::NONE, &arrivals);
    let starts: Vec<_> = departures.iter().map(|d| d.start.0).collect();
    assert_eq!(starts, [0, 1000, 2000, 5000]);
}

#[test]
fn times_that_go_back_count_as_now() {
    let arrivals = [(100, 0, 10), (50, 0, 10)];
    let departures = run(Simple::new(1, false, Nanos::ZERO), 8_000_000_000, Framing::NONE, &arrivals);
    assert_eq!(departures[1].start, Nanos(110));
}

#[test]
fn a_scheduler_that_never_waits_long_enough_makes_progress() {
    struct Stubborn(u32);
    impl Scheduler for Stubborn {
        type Refused = ();

        fn reason((): &()) -> &'static str {
            "unknown flow"
        }
        fn add_flow(&mut self, _: LaneId, _: Weight) -> Result<FlowId, ()> {
            Err(())
        }
        fn enqueue(&mut self, _: FlowId, _: Bytes, _: u64, _: Nanos) -> Result<(), ()> {
            Ok(())
        }
        fn dequeue(&mut self, _: Nanos) -> LinkDequeue {
            self.0 += 1;
            if self.0 > 1000 { LinkDequeue::Empty } else { LinkDequeue::Wait(Nanos::ZERO) }
        }
        fn held(&self) -> Packets {
            Packets::ZERO
        }
    }
    let mut link = VirtualLink::new(Stubborn(0), BitsPerSec(1), Framing::NONE).expect("a rate");
    link.arrive(Nanos(0), (FlowId(0), Bytes(1), 0), |_| ()).expect("room");
    link.drain(|_| ());
    assert_eq!(link.scheduler().0, 1001);
}

#[test]
fn a_rate_of_zero_is_refused() {
    assert!(VirtualLink::new(Simple::new(1, false, Nanos::ZERO), BitsPerSec::ZERO, Framing::NONE).is_none());
}
