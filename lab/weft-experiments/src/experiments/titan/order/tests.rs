//! The check against a slow and obvious one, on handwritten frames.

use super::*;
use core::net::{IpAddr, Ipv4Addr};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;
use weft_host::tap::{self, VNET_HEADER_LEN};
use weft_host::testing::{privileged, unique};
use weft_units::Protocol;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The relevant fields of a packet.
#[derive(Clone, Copy, Debug)]
struct Frame {
    flow: u16,
    tcp: bool,
    flags: u8,
    id: u16,
    payload: u16,
    /// Segment size of a super-packet; 0 for a single packet.
    segment: u16,
}

impl Frame {
    fn udp(flow: u16, id: u16) -> Self {
        Self { flow, tcp: false, flags: 0, id, payload: 8, segment: 0 }
    }

    fn tcp(flow: u16, flags: u8, id: u16, payload: u16) -> Self {
        Self { flow, tcp: true, flags, id, payload, segment: 0 }
    }

    fn segments(&self) -> u64 {
        if self.segment == 0 { 1 } else { u64::from(self.payload.div_ceil(self.segment)) }
    }

    fn key(&self) -> FlowKey {
        FlowKey {
            src: IpAddr::V4(Ipv4Addr::new(10, 95, 0, 1)),
            dst: IpAddr::V4(Ipv4Addr::new(10, 95, 0, 2)),
            sport: self.flow,
            dport: 9,
            protocol: if self.tcp { Protocol::TCP } else { Protocol::UDP },
        }
    }

    /// Returns the frame with its virtio header (virtio specification 1.2, section 5.1.6).
    fn bytes(&self) -> Vec<u8> {
        let header = if self.tcp { 20u16 } else { 8 };
        let mut bytes = vec![0; VNET_HEADER_LEN];
        if self.segment > 0 {
            // Checksum needed from 34 on, at 16; TCP over IPv4; header of 54 bytes.
            bytes[..10].copy_from_slice(&[
                1,
                1,
                54,
                0,
                self.segment as u8,
                (self.segment >> 8) as u8,
                34,
                0,
                16,
                0,
            ]);
        }
        bytes.extend([0x02, 0, 0, 0, 0, 9, 0x02, 0, 0, 0, 0, 8, 8, 0]);
        let total = (20 + header + self.payload).to_be_bytes();
        let id = self.id.to_be_bytes();
        let protocol = if self.tcp { 6 } else { 17 };
        bytes.extend([0x45, 0, total[0], total[1], id[0], id[1], 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend([10, 95, 0, 1, 10, 95, 0, 2]);
        bytes.extend(self.flow.to_be_bytes());
        bytes.extend([0, 9]);
        if self.tcp {
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 1, 0, 0, 0, 0, 0]);
        } else {
            bytes.extend((header + self.payload).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.resize(bytes.len() + usize::from(self.payload), 0xaa);
        bytes
    }
}

/// A TAP with a check at its ingress.
struct Wire {
    queue: OwnedFd,
    second: OwnedFd,
    check: OrderCheck,
    _ns: NetNs,
}

impl Wire {
    fn create(flows: u64) -> Self {
        let ns = NetNs::create(&unique("ord")).expect("namespace");
        let mut queues = tap::create(&ns, "wire", 2).expect("TAP").into_iter();
        let queue = queues.next().expect("first queue");
        let second = queues.next().expect("second queue");
        link::set_up(&ns, "wire").expect("up");
        let check = OrderCheck::attach_bounded(&ns, "wire", Hook::Ingress, flows).expect("check");
        Self { queue, second, check, _ns: ns }
    }

    fn send(&self, frames: &[Frame]) {
        for frame in frames {
            let bytes = frame.bytes();
            assert_eq!(rustix::io::write(&self.queue, &bytes), Ok(bytes.len()), "{frame:?}");
        }
    }

    /// Returns the counts once all `frames` have arrived.
    fn counts(&self, packets: u64) -> OrderCounts {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let counts = self.check.counts();
            if counts.packets.get() + counts.unnumbered + counts.beyond.get() >= packets
                || Instant::now() > deadline
            {
                return counts;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Late packets by definition: an earlier packet of the flow has a higher number. Numbers do not wrap here.
fn late_by_definition(frames: &[Frame]) -> Vec<Frame> {
    let late = |(i, frame): (usize, &Frame)| {
        let before = frames[..i].iter().filter(|other| other.flow == frame.flow);
        before.map(|other| other.id).max().is_some_and(|highest| highest > frame.id).then_some(*frame)
    };
    frames.iter().enumerate().filter_map(late).collect()
}

#[test]
fn exactly_the_packets_that_were_overtaken_are_late() {
    if !privileged("exactly_the_packets_that_were_overtaken_are_late") {
        return;
    }
    let mut random = Pcg64Mcg::new(7);
    for round in 0..8 {
        let mut next: BTreeMap<u16, u16> = BTreeMap::new();
        let mut frames: Vec<Frame> = (0..400)
            .map(|_| {
                let flow = 1 + (random.next_u32() % 5) as u16;
                let id = next.entry(flow).or_insert(100 * flow);
                *id += 1;
                Frame::udp(flow, *id)
            })
            .collect();
        // Round 0 is in order.
        for _ in 0..round * 10 {
            let from = (random.next_u32() % 400) as usize;
            let to = (from + (random.next_u32() % 12) as usize).min(399);
            let frame = frames.remove(from);
            frames.insert(to, frame);
        }
        let wire = Wire::create(FLOWS);
        wire.send(&frames);
        let counts = wire.counts(400);
        let expected = late_by_definition(&frames);
        assert_eq!((counts.packets.get(), counts.flows), (400, 5), "{counts:?}");
        assert_eq!(counts.late.get() + counts.at_once.get(), expected.len() as u64, "{counts:?}");
        assert_eq!(expected.is_empty(), round == 0);
        if counts.at_once.get() == 0 {
            let seen: Vec<_> = wire.check.late().iter().map(|late| (late.flow, late.seen)).collect();
            let expected: Vec<_> = expected.iter().take(EXAMPLES).map(|f| (f.key(), f.id)).collect();
            assert_eq!(seen, expected);
        }
    }
}

#[test]
fn numbers_wrap_and_super_packets_take_several() {
    if !privileged("numbers_wrap_and_super_packets_take_several") {
        return;
    }
    let wire = Wire::create(FLOWS);
    let large = |id| Frame { segment: 100, ..Frame::tcp(5, ACK, id, 1050) };
    let frames = [
        Frame::tcp(5, SYN, 65_520, 0),
        large(65_521),                  // 65521 to 65531
        Frame::tcp(5, ACK, 65_532, 10), // the next
        large(65_533),                  // to 7
        Frame::tcp(5, ACK, 9, 10),      // 8 is missing
        Frame::tcp(5, ACK, 0, 0),       // of no socket
        Frame::tcp(5, ACK, 8, 10),      // late
        large(65_533),                  // late, 11 segments
    ];
    assert_eq!(frames[1].segments(), 11);
    wire.send(&frames);
    let counts = wire.counts(38);
    assert_eq!((counts.packets.get(), counts.unnumbered, counts.gaps), (37, 1, 1), "{counts:?}");
    assert_eq!((counts.late.get(), counts.flows), (12, 1), "{counts:?}");
    let late = wire.check.late();
    assert_eq!(
        late.iter().map(|l| (l.seen, l.expected, l.segments)).collect::<Vec<_>>(),
        [(8, 10, 1), (65_533, 10, 11)]
    );
    assert!(late[0].at >= late[0].overtaken_at && late[0].overtaken_at > weft_units::Instant::ZERO);
}

#[test]
fn a_connection_begins_a_series_of_its_own() {
    if !privileged("a_connection_begins_a_series_of_its_own") {
        return;
    }
    let wire = Wire::create(2);
    let (first, second) = (Frame::tcp(1, SYN, 900, 0), Frame::tcp(1, SYN, 3, 0));
    // The server's side: its SYN-ACK has no number.
    let accepted =
        [Frame::tcp(2, SYN | ACK, 0, 0), Frame::tcp(2, ACK, 40_000, 5), Frame::tcp(2, ACK, 39_999, 5)];
    wire.send(&[first, Frame::tcp(1, ACK, 901, 5), Frame::tcp(1, RST | ACK, 902, 0), second]);
    wire.send(&accepted);
    // The table is full for a third flow.
    wire.send(&[Frame::tcp(3, SYN, 1, 0), Frame::tcp(3, ACK, 2, 1)]);
    let counts = wire.counts(9);
    assert_eq!((counts.packets.get(), counts.late.get(), counts.flows), (6, 1, 3), "{counts:?}");
    assert_eq!((counts.unnumbered, counts.beyond.get(), counts.gaps), (1, 2, 0), "{counts:?}");
    // Flow 1 is open again: it is not removed until it closes.
    assert_eq!(wire.check.forget_closed(Duration::ZERO), 0);
    wire.send(&[Frame::tcp(1, RST, 4, 0)]);
    wire.counts(10);
    assert_eq!(wire.check.forget_closed(Duration::from_secs(100)), 0);
    assert_eq!(wire.check.forget_closed(Duration::ZERO), 1);
    wire.send(&[Frame::tcp(3, ACK, 3, 1), Frame::tcp(3, ACK, 2, 1)]);
    let counts = wire.counts(12);
    assert_eq!((counts.packets.get(), counts.late.get(), counts.flows), (9, 2, 4), "{counts:?}");
}

/// Sends packets of one flow through both queues, from a core each. `by_turns`: each only after the previous one has
/// arrived.
fn from_two_cores(wire: &Wire, frames: u16, by_turns: bool) {
    use core::sync::atomic::AtomicU16;
    let turn = AtomicU16::new(1);
    std::thread::scope(|scope| {
        for (parity, queue) in [(1, &wire.queue), (0, &wire.second)] {
            let turn = &turn;
            scope.spawn(move || {
                let cores = crate::traffic::ordered::cores();
                crate::traffic::ordered::move_to(cores[usize::from(parity) % cores.len()]);
                for id in (1..=frames).filter(|id| id % 2 == parity) {
                    while by_turns && turn.load(Ordering::Acquire) != id {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                    let bytes = Frame::udp(7, id).bytes();
                    assert_eq!(rustix::io::write(queue, &bytes), Ok(bytes.len()));
                    turn.store(id + 1, Ordering::Release);
                }
            });
        }
    });
}

#[test]
fn two_cores_by_turns_are_in_order_and_at_once_nothing_is_lost() {
    if !privileged("two_cores_by_turns_are_in_order_and_at_once_nothing_is_lost") {
        return;
    }
    let frames = 20_000;
    let wire = Wire::create(FLOWS);
    from_two_cores(&wire, frames, true);
    let counts = wire.counts(u64::from(frames));
    assert_eq!(counts.packets.get(), u64::from(frames), "{counts:?}");
    assert_eq!((counts.late.get(), counts.at_once.get(), counts.gaps), (0, 0, 0), "{counts:?}");
    // Concurrently: any order is possible, but each skipped number arrives later, as late or at once.
    let wire = Wire::create(FLOWS);
    from_two_cores(&wire, frames, false);
    let counts = wire.counts(u64::from(frames));
    println!("{counts:?}");
    assert_eq!((counts.packets.get(), counts.flows), (u64::from(frames), 1), "{counts:?}");
    let behind = counts.late.get() + counts.at_once.get();
    assert!(behind >= counts.gaps, "{counts:?}");
}
