//! Ports on an interface whose wire is the test: frames are written to it, and counted where they arrive.

use crate::common::bench;
use crate::common::compiled;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;
use weft_host::bpf::Object;
use weft_host::testing::{PATIENCE, unique, until};
use weft_host::{Mac, NetNs, link, sysctl, tap};
use weft_nic::nic::{NicError, NicPlan, SoftwareNic};
use weft_nic::port::{Port, PortConfig, Receive, Uplink};
use weft_packet::vnet::{GsoType, NEEDS_CSUM, VnetHeader};

/// The hardware addresses of the peer and of a broadcast.
pub(crate) const PEER: Mac = Mac([2, 0, 0, 0, 9, 9]);
pub(crate) const BROADCAST: Mac = Mac([0xff; 6]);
/// The bytes of the Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// The bytes of the Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 54;

/// A packet as the counting program saw it: its length without the outer tag, the tag's VLAN and the packet's type.
pub(crate) type Arrival = (u32, u32, u32);

/// A namespace without IPv6, whose stack sends nothing by itself.
pub(crate) fn silent(role: &str) -> NetNs {
    let ns = NetNs::create(&unique(role)).expect("namespace");
    sysctl::disable_ipv6(&ns);
    ns
}

/// The program that counts arrivals, at the ingress of a device.
pub(crate) struct Counter(Object);

impl Counter {
    /// Compiles the program with the compiler of the crate's build, and attaches it.
    pub(crate) fn at(ns: &NetNs, device: &str) -> Self {
        let object = compiled::load("arrivals");
        let index = link::index(ns, device).expect("device");
        ns.run(|| object.attach_ingress("count_arrival", index)).expect("enter").expect("attach");
        Self(object)
    }

    /// The arrivals so far.
    pub(crate) fn read(&self) -> BTreeMap<Arrival, u64> {
        let mut seen = BTreeMap::new();
        self.0.table("arrivals").expect("map").retain(0, 1024, |key, count| {
            let word = |at: usize| key[at..].first_chunk().map(|b| u32::from_ne_bytes(*b)).expect("a word");
            let count = count.first_chunk().map(|b| u64::from_ne_bytes(*b)).expect("a count");
            seen.insert((word(0), word(4), word(8)), count);
            true
        });
        seen
    }

    /// Waits until `packets` have arrived, and a little longer for those that should not.
    pub(crate) fn wait(&self, packets: u64) -> BTreeMap<Arrival, u64> {
        let _ = until(PATIENCE, || self.read().values().sum::<u64>() >= packets);
        std::thread::sleep(Duration::from_millis(100));
        self.read()
    }
}

/// The namespaces, and the wire of the interface `up0`.
pub(crate) struct Wire {
    pub(crate) host: NetNs,
    pub(crate) nic: NetNs,
    pub(crate) app: NetNs,
    wire: OwnedFd,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let [host, nic, app] = ["host", "nic", "app"].map(silent);
        let wire = tap::create(&host, "up0", 1).expect("tap").pop().expect("a queue");
        link::set_up(&host, "up0").expect("up");
        link::wait_running(&host, "up0", PATIENCE).expect("running");
        Self { host, nic, app, wire }
    }

    /// Starts a NIC whose port `name` is in `app`.
    pub(crate) fn port(&self, app: &NetNs, name: &str, mac: Mac, receive: Receive) -> SoftwareNic {
        self.try_port(app, (&self.nic, name), mac, receive).expect("nic")
    }

    /// As [`port`](Self::port), with the uplink's device in the namespace `uplink`.
    pub(crate) fn try_port(
        &self,
        app: &NetNs,
        (uplink, name): (&NetNs, &str),
        mac: Mac,
        receive: Receive,
    ) -> Result<SoftwareNic, NicError> {
        let mut config = bench::config(1000);
        config.rings = 4;
        let plan = NicPlan::new(&bench::policy("root = fair of default"), config).expect("plan");
        let rings = plan.ring_count();
        let (nic, ring_packets) = (&self.nic, 100);
        let config = PortConfig { app, nic, name, mac, rings, ring_packets, single_backlog: true };
        let port = Port::create(&config).expect("port");
        let device = format!("{name}-up");
        let uplink = Uplink::on_interface((&self.host, "up0"), (uplink, &device), mac).expect("uplink");
        SoftwareNic::start(plan, port, uplink.with_receive(receive))
    }

    /// Lets a frame arrive at the interface.
    pub(crate) fn arrive(&self, frame: &[u8]) {
        self.arrive_as(&VnetHeader::default(), frame);
    }

    /// Lets a TCP super-packet of `length` bytes arrive, whole.
    pub(crate) fn arrive_merged(&self, to: Mac, length: usize) {
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            gso: GsoType::TcpV4,
            hdr_len: HEADERS as u16,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
            ..VnetHeader::default()
        };
        self.arrive_as(&header, &tcp(to, length));
    }

    fn arrive_as(&self, header: &VnetHeader, frame: &[u8]) {
        let bytes = [header.emit().as_slice(), frame].concat();
        assert_eq!(rustix::io::write(&self.wire, &bytes).expect("write"), bytes.len());
    }
}

/// A frame of `length` bytes of the type `ether_type` with the VLAN tags `tags`, which the length includes.
pub(crate) fn frame(to: Mac, tags: &[u16], ether_type: u16, length: usize) -> Vec<u8> {
    let mut frame = [to.0, PEER.0].concat();
    for tag in tags {
        frame.extend([[0x81, 0x00], tag.to_be_bytes()].concat());
    }
    frame.extend(ether_type.to_be_bytes());
    frame.resize(length, 0);
    frame
}

/// A TCP segment over IPv4.
fn tcp(to: Mac, length: usize) -> Vec<u8> {
    let mut bytes = ipv4(to, 6, length);
    // The offset of the payload, and the flag ACK.
    (bytes[ETHERNET + 32], bytes[ETHERNET + 33]) = (5 << 4, 0x10);
    bytes
}

/// An IPv4 packet of `length` bytes with its Ethernet header, and nothing behind its destination.
pub(crate) fn ipv4(to: Mac, protocol: u8, length: usize) -> Vec<u8> {
    let mut bytes = frame(to, &[], 0x0800, length);
    let ip = &mut bytes[ETHERNET..];
    (ip[0], ip[8], ip[9]) = (0x45, 64, protocol);
    ip[2..4].copy_from_slice(&((length - ETHERNET) as u16).to_be_bytes());
    ip[12..20].copy_from_slice(&[10, 97, 0, 2, 10, 97, 0, 1]);
    let sum: u32 = ip[..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}
