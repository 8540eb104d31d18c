//! A wire that can be held: the uplink then takes no packet, and the NIC fetches none, however long a test takes.
//!
//! The uplink is a macvtap on one end of a veth. On the other end is a macvtap too, whose packets stay charged to the
//! uplink until the test reads them. With a send buffer of one byte, a single unread packet fills the uplink. The worker then
//! waits with a second packet, and fetches no other.

use crate::common::assigned::PAYLOAD;
use nix::sys::socket::{self, AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use weft_host::NetNs;
use weft_host::link::{self, Mac, VethOptions};
use weft_host::macvtap::{self, MacvtapMode};
use weft_host::testing::wait_for;
use weft_nic::nic::SoftwareNic;
use weft_nic::port::Uplink;
use weft_nic::testbed::{PORT, Testbed, WIRE};
use weft_sched::queues::{DEFAULT_CREDIT, Service};
use weft_units::Packets;

/// The service order that keeps a blocked worker with its packet: by round robin it would fetch from the next queue.
pub(crate) const STAYS: Service = Service::Deficit { credit: DEFAULT_CREDIT };
/// The send buffer of a wire that is not held: two super-packets.
const ROOM: u32 = 128 << 10;
/// A frame without an address of IP, which queue assignment leaves alone and which is held under no flow: the
/// Ethernet type is for experiments (IEEE 802, 0x88b5).
const FILLER: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[0], frame[5]) = (0x02, 0x02);
    (frame[6], frame[11]) = (0x02, 0x01);
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame
};

/// A wire that is held, since this number of packets had been fetched.
#[derive(Debug)]
#[must_use = "releasing the wire checks that it was held"]
pub(crate) struct Held {
    fetched: Packets,
}

/// The packets that the NIC has fetched from its rings.
fn fetched(nic: &SoftwareNic) -> Packets {
    nic.totals().expect("totals").sum(|class| class.fetched).packets
}

/// The far end of the wire.
#[derive(Debug)]
pub(crate) struct HeldWire {
    end: OwnedFd,
    sender: NetNs,
}

impl HeldWire {
    /// Creates a wire in the receiver, and the uplink on it.
    pub(crate) fn create(bed: &Testbed) -> (Self, Uplink) {
        let ns = &bed.receiver;
        link::create_veth((ns, "near0"), (ns, WIRE), &VethOptions::default()).expect("veth");
        macvtap::create(ns, WIRE, "end0", MacvtapMode::Passthru, 1, 1000, None).expect("macvtap");
        let end = macvtap::open_queues(ns, "end0", 1).expect("queues").pop().expect("one");
        for name in ["near0", WIRE, "end0"] {
            link::set_up(ns, name).expect("up");
        }
        let uplink = Uplink::on_interface((ns, "near0"), (ns, "uplink0"), Mac::local(3)).expect("uplink");
        (Self { end, sender: bed.sender.handle().expect("namespace") }, uplink)
    }

    /// Sends a filler through the NIC.
    fn fill(&self) {
        let port = || {
            let mut all =
                nix::ifaddrs::getifaddrs().expect("interfaces").filter(|one| one.interface_name == PORT);
            let address = all.find_map(|one| one.address?.as_link_addr().copied()).expect("the port");
            let (family, flags) = (AddressFamily::Packet, SockFlag::empty());
            (socket::socket(family, SockType::Raw, flags, None).expect("packet socket"), address)
        };
        let (raw, port): (OwnedFd, LinkAddr) = self.sender.run(port).expect("namespace");
        let sent = socket::sendto(raw.as_raw_fd(), &FILLER, &port, MsgFlags::empty());
        assert_eq!(sent, Ok(FILLER.len()));
    }

    /// Holds the wire: from here on no packet is fetched from a ring. All earlier packets have been read.
    pub(crate) fn hold(&self, nic: &SoftwareNic) -> Held {
        let totals = || nic.totals().expect("totals");
        let before = totals();
        macvtap::set_send_buffer(nic.uplink_fd().as_fd(), 1).expect("send buffer");
        self.fill();
        wait_for("a packet on the wire", || totals().uplink_writes.packets > before.uplink_writes.packets);
        self.fill();
        wait_for("a packet without room", || totals().uplink_failed.packets > before.uplink_failed.packets);
        Held { fetched: fetched(nic) }
    }

    /// Lets packets pass again, as they are read. Checks that none was fetched before.
    pub(crate) fn release(&self, nic: &SoftwareNic, held: Held) {
        assert_eq!(fetched(nic), held.fetched, "packets fetched from a NIC whose wire was held");
        macvtap::set_send_buffer(nic.uplink_fd().as_fd(), ROOM).expect("send buffer");
    }

    /// Reads until `count` datagrams have arrived, or none for ten seconds. Returns their number.
    pub(crate) fn delivered(&self, count: usize) -> usize {
        let mut buffer = [0; 2 * PAYLOAD];
        let mut datagrams = 0;
        let patience = rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 };
        while datagrams < count {
            let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
            if poll(&mut fds, Some(&patience)) == Ok(0) {
                break;
            }
            if let Ok(length) = rustix::io::read(&self.end, &mut buffer) {
                datagrams += usize::from(length > PAYLOAD);
            }
        }
        datagrams
    }
}
