//! TAPs that hold senders back (Linux 7.3), read by hand. Run in an emulated machine by `make test-kernels`; other kernels
//! must say that they cannot.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use weft_host::link::{self, LinkStats, Mac, Numbered};
use weft_host::tap::{self, Carrier, FullRing, TapError, TapOptions, UdpSegments, VNET_HEADER_LEN};
use weft_host::tc::{QdiscCounters, TcDevice, TcObject};
use weft_host::testing::{PATIENCE, until};
use weft_host::{NetNs, sysctl, testing};
use weft_units::Packets;

/// The packets of a ring.
const SLOTS: u32 = 8;
/// The packets of the FIFO above a ring.
const FIFO: u32 = 200;
/// The silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_secs(1);

/// A TAP that no process reads unless a test does.
struct Bench {
    ns: NetNs,
    rings: Vec<OwnedFd>,
    link: Numbered,
    qdisc: TcDevice,
}

/// A packet that was read: the segmentation type and size of its header, and the length of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packet {
    segmentation: u8,
    segment: u16,
    bytes: usize,
}

impl Bench {
    /// `None` where TAPs cannot hold senders back, or without rights.
    fn start(test: &str, queues: u32) -> Option<Self> {
        if !testing::privileged(test) {
            return None;
        }
        if let Err(error) = tap::require_backpressure() {
            println!("{test}: skipped: {error}");
            return None;
        }
        let ns = NetNs::anonymous().expect("namespace");
        let _ = sysctl::set(&ns, "net.ipv6.conf.default.disable_ipv6", "1");
        let options = TapOptions { queues, full_ring: FullRing::HoldsBack, udp_segments: UdpSegments::Whole };
        let rings = tap::create_with(&ns, "t0", &options).expect("TAP");
        link::set_txqueuelen(&ns, "t0", SLOTS).expect("slots");
        let link = Numbered::named(&ns, "t0").expect("link");
        let mut qdisc = TcDevice::of(&link).expect("device");
        qdisc.install(TcObject::fifo_of_each_queue(queues as u16, Packets(FIFO.into()))).expect("qdiscs");
        link.set_up().expect("up");
        link.wait_running(PATIENCE).expect("running");
        link::add_address(&ns, "t0", "10.88.0.1".parse().expect("address"), 24).expect("address");
        link::add_neighbor(&ns, "t0", "10.88.0.2".parse().expect("address"), Mac::local(9))
            .expect("neighbour");
        Some(Self { ns, rings, link, qdisc })
    }

    /// A socket that does not wait.
    fn socket(&self) -> UdpSocket {
        let any: SocketAddr = "0.0.0.0:0".parse().expect("address");
        let socket = self.ns.run(|| UdpSocket::bind(any)).expect("ns").expect("socket");
        socket.connect("10.88.0.2:7000").expect("connect");
        socket.set_nonblocking(true).expect("non-blocking");
        socket
    }

    /// Sends numbered packets of 1000 bytes until `most` are sent or the socket has no room; returns their number.
    fn send(&self, socket: &UdpSocket, first: u32, most: u32) -> u32 {
        let packet = |number: u32| [&number.to_ne_bytes()[..], &[7; 996]].concat();
        (0..most).take_while(|n| socket.send(&packet(first + n)).is_ok()).count() as u32
    }

    /// Reads packet after packet from ring `ring` until `most` are read or none arrives for a while; returns their numbers.
    fn numbers(&self, ring: usize, most: usize) -> Vec<u32> {
        let mut buffer = [0; 2000];
        let mut all = Vec::new();
        while all.len() < most
            && let Some(length) = self.read(ring, &mut buffer)
        {
            assert_eq!(length, VNET_HEADER_LEN + 14 + 20 + 8 + 1000);
            let at = VNET_HEADER_LEN + 42;
            all.push(buffer[at..].first_chunk().map(|b| u32::from_ne_bytes(*b)).expect("a number"));
        }
        all
    }

    /// Reads a packet; `None` if none arrives for a while.
    fn read(&self, ring: usize, buffer: &mut [u8]) -> Option<usize> {
        let mut length = None;
        let _ = until(SILENCE, || match rustix::io::read(&self.rings[ring], &mut *buffer) {
            Ok(bytes) => {
                length = Some(bytes);
                true
            }
            Err(rustix::io::Errno::AGAIN) => false,
            Err(other) => panic!("read: {other}"),
        });
        length
    }

    fn counters(&mut self) -> QdiscCounters {
        self.qdisc.root().expect("read").expect("a qdisc").counters
    }

    fn waiting(&mut self) -> u64 {
        self.counters().backlog.packets.get()
    }

    fn no_drops(&mut self) {
        let stats: LinkStats = self.link.show().expect("link").stats;
        let QdiscCounters { dropped, .. } = self.counters();
        assert_eq!((stats.tx_dropped.get(), stats.tx_errors.get(), dropped.get()), (0, 0, 0));
    }
}

#[test]
fn a_kernel_that_cannot_says_so_in_a_line() {
    let Err(error) = tap::require_backpressure() else { return };
    if matches!(error, TapError::NoTun | TapError::Os(_)) {
        return;
    }
    let text = error.to_string();
    assert!(text.contains("IFF_BACKPRESSURE, Linux 7.3 or later") && !text.contains('\n'), "{text}");
    if !testing::privileged("a_kernel_that_cannot_says_so_in_a_line") {
        return;
    }
    let ns = NetNs::anonymous().expect("namespace");
    let options = TapOptions { queues: 1, full_ring: FullRing::HoldsBack, udp_segments: UdpSegments::Cut };
    let refused = tap::create_with(&ns, "t0", &options).expect_err("refused").to_string();
    assert_eq!(refused, text);
    assert!(!link::exists(&ns, "t0").expect("look"), "nothing remains");
}

#[test]
fn a_packet_is_charged_until_it_enters_the_ring() {
    let Some(mut bench) = Bench::start("a_packet_is_charged_until_it_enters_the_ring", 1) else { return };
    let socket = bench.socket();
    let sent = bench.send(&socket, 0, 1000);
    // The kernel's default buffer is 208 KB; a packet of 1000 bytes charges about 2 KB.
    assert!(sent > SLOTS + 20 && sent < FIFO, "{sent} fit into the socket's buffer");
    assert_eq!(bench.waiting(), u64::from(sent - SLOTS));
    let more = bench.send(&socket, sent, 1000);
    assert_eq!(more, 0, "the buffer is still full");
    assert_eq!(bench.numbers(0, 20), (0..20).collect::<Vec<_>>());
    let more = bench.send(&socket, sent, 1000);
    assert!((1..=20 + SLOTS).contains(&more), "{more} after 20 were read");
    assert_eq!(bench.numbers(0, 1000), (20..sent + more).collect::<Vec<_>>());
    assert!(bench.send(&socket, 0, 5) == 5, "an empty port takes packets again");
    bench.no_drops();
}

#[test]
fn half_a_ring_read_lets_its_queue_continue() {
    let Some(mut bench) = Bench::start("half_a_ring_read_lets_its_queue_continue", 1) else { return };
    let socket = bench.socket();
    assert_eq!(bench.send(&socket, 0, 40), 40);
    assert_eq!(bench.waiting(), 32);
    assert_eq!(bench.numbers(0, 3), [0, 1, 2]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(bench.waiting(), 32, "three of eight are less than half");
    assert_eq!(bench.numbers(0, 1), [3]);
    testing::wait_for("four have entered the ring", || bench.waiting() == 28);
    assert_eq!(bench.numbers(0, 40), (4..40).collect::<Vec<_>>());
    bench.no_drops();
}

#[test]
fn a_udp_super_packet_is_read_whole() {
    let Some(mut bench) = Bench::start("a_udp_super_packet_is_read_whole", 1) else { return };
    let socket = bench.socket();
    setsockopt(&socket, sockopt::UdpGsoSegment, &1000).expect("UDP_SEGMENT");
    assert_eq!(socket.send(&[7; 20_500]).expect("send"), 20_500);
    let mut buffer = vec![0; 65_536];
    let length = bench.read(0, &mut buffer).expect("a packet");
    let packet = Packet {
        segmentation: buffer[1],
        segment: u16::from_ne_bytes([buffer[4], buffer[5]]),
        bytes: length - VNET_HEADER_LEN,
    };
    // VIRTIO_NET_HDR_GSO_UDP_L4 is 5.
    assert_eq!(packet, Packet { segmentation: 5, segment: 1000, bytes: 42 + 20_500 });
    assert_eq!(bench.read(0, &mut buffer), None);
    bench.no_drops();
}

#[test]
fn a_ring_without_a_reader_loses_nothing_and_stops_no_other() {
    let Some(mut bench) = Bench::start("a_ring_without_a_reader_loses_nothing_and_stops_no_other", 2) else {
        return;
    };
    // Two sockets whose flows have different rings by the kernel's own choice.
    let mut of_ring: [Option<UdpSocket>; 2] = [None, None];
    while of_ring.iter().any(Option::is_none) {
        let socket = bench.socket();
        assert_eq!(bench.send(&socket, 0, 1), 1);
        let (mut buffer, mut found) = ([0; 2000], None);
        testing::wait_for("a packet in one of the rings", || {
            found = bench.rings.iter().position(|ring| rustix::io::read(ring, &mut buffer).is_ok());
            found.is_some()
        });
        of_ring[found.expect("a ring")] = Some(socket);
    }
    let [stopped, read] = of_ring.map(|socket| socket.expect("a socket"));
    let count = bench.send(&stopped, 0, 60);
    assert_eq!(count, 60);
    for first in (0..200).step_by(20) {
        assert_eq!(bench.send(&read, first, 20), 20);
        assert_eq!(bench.numbers(1, 20), (first..first + 20).collect::<Vec<_>>());
    }
    assert_eq!(bench.waiting(), u64::from(count - SLOTS));
    assert_eq!(bench.numbers(0, 100), (0..count).collect::<Vec<_>>());
    bench.no_drops();
}

#[test]
fn there_may_be_256_queues_and_a_lost_carrier_returns() {
    let Some(mut bench) = Bench::start("there_may_be_256_queues_and_a_lost_carrier_returns", 256) else {
        return;
    };
    assert_eq!((bench.rings.len(), bench.link.show().expect("link").tx_queues), (256, 256));
    tap::set_carrier(bench.rings[0].as_fd(), Carrier::Off).expect("off");
    assert!(!bench.link.show().expect("link").running);
    tap::set_carrier(bench.rings[0].as_fd(), Carrier::On).expect("on");
    bench.link.wait_running(PATIENCE).expect("running");
    let socket = bench.socket();
    assert_eq!(bench.send(&socket, 0, 10), 10);
    let mut buffer = [0; 2000];
    let mut found = 0;
    testing::wait_for("ten packets in the rings", || {
        found += bench.rings.iter().filter(|ring| rustix::io::read(ring, &mut buffer).is_ok()).count();
        found >= 10
    });
    assert_eq!(found, 10);
    bench.no_drops();
}
