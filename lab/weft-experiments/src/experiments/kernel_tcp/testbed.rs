//! Sender, router and receiver, each a network namespace of this run. The bottleneck is at the router's egress to the
//! receiver.

use super::{Bottleneck, KernelTcpError, wire};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use weft_host::link::{self, PathEnd, Route, VethOptions};
use weft_host::tc::{Tbf, TcDevice, TcObject};
use weft_host::{NetNs, RunId, sysctl};
use weft_packet::ethernet;
use weft_units::{Nanos, Packets};

/// The receiver's address.
pub(super) const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 2, 1));
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 1, 1));
/// The router's addresses on the sender's and on the receiver's side.
const ROUTER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 97, 1, 2)), IpAddr::V4(Ipv4Addr::new(10, 97, 2, 2))];
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const PREFIX: u8 = 24;
/// The links, each named after its own namespace and the one at its other end.
const SENDER_LINK: &str = "snd-rtr";
const ROUTER_IN: &str = "rtr-snd";
const ROUTER_OUT: &str = "rtr-rcv";
const RECEIVER_LINK: &str = "rcv-rtr";
/// The bucket's depth, as time at the rate: 1 ms, as HTB has here, so that a late kernel timer loses no link time.
const BURST: Nanos = Nanos::from_millis(1);
const LINK_WAIT: Duration = Duration::from_secs(10);

/// The three namespaces; they are removed with all their content when the value is dropped.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) sender: NetNs,
    router: NetNs,
    pub(super) receiver: NetNs,
}

impl Path {
    /// Makes namespaces, links and bottleneck.
    pub(super) fn create(bottleneck: &Bottleneck) -> Result<Self, KernelTcpError> {
        let make = |part: &str| NetNs::create(&RunId::current().name(&format!("ktcp{part}")));
        let path = Self { sender: make("snd")?, router: make("rtr")?, receiver: make("rcv")? };
        for ns in [&path.sender, &path.router, &path.receiver] {
            sysctl::disable_ipv6(ns);
        }
        require_congestion_control(&path.sender, &bottleneck.congestion_control)?;
        sysctl::set(&path.router, "net.ipv4.ip_forward", "1")?;
        path.connect(bottleneck.mtu)?;
        // The queue must hold packets, so TCP must not hand over segments that are cut later.
        link::set_gso_max_segs(&path.sender, SENDER_LINK, 1)?;
        let wire_frame = wire(bottleneck.mtu);
        let burst = bottleneck.rate.bytes_in(BURST).max(wire_frame + wire_frame);
        // The kernel counts the frame header itself; preamble, checksum and gap remain.
        let tbf = Tbf {
            rate: bottleneck.rate,
            overhead: ethernet::AROUND.get() as u16,
            burst,
            limit: bottleneck.queue,
        };
        TcDevice::open(&path.router, ROUTER_OUT)?.add(&TcObject::tbf(tbf))?;
        Ok(path)
    }

    fn connect(&self, mtu: u32) -> Result<(), KernelTcpError> {
        let (sender, router, receiver) = (&self.sender, &self.router, &self.receiver);
        let end = |ns, link, address| PathEnd { ns, link, address };
        let paths = [
            [end(sender, SENDER_LINK, SENDER), end(router, ROUTER_IN, ROUTER[0])],
            [end(router, ROUTER_OUT, ROUTER[1]), end(receiver, RECEIVER_LINK, RECEIVER)],
        ];
        for ends in paths {
            link::create_path(ends, PREFIX, &VethOptions { mtu: Some(mtu), ..VethOptions::default() })?;
        }
        for end in paths.as_flattened() {
            link::wait_running(end.ns, end.link, LINK_WAIT)?;
        }
        for (ns, gateway) in [(sender, ROUTER[0]), (receiver, ROUTER[1])] {
            let route = Route { destination: ANY, prefix_len: 0, link: None, gateway: Some(gateway) };
            link::add_route(ns, &route)?;
        }
        Ok(())
    }

    /// Opens a reader of the bottleneck's counters.
    pub(super) fn reader(&self) -> Result<TcDevice, KernelTcpError> {
        Ok(TcDevice::open(&self.router, ROUTER_OUT)?)
    }

    /// Returns the packets that the router received from the sender, and those that the sender's link dropped.
    pub(super) fn offered(&self) -> Result<(Packets, Packets), KernelTcpError> {
        let offered = link::stats(&self.router, ROUTER_IN)?.rx_packets;
        Ok((offered, link::stats(&self.sender, SENDER_LINK)?.tx_dropped))
    }
}

/// Fails unless this kernel has the congestion control. iperf3 sets it per socket: a namespace's default may only be
/// one that the host allows to all users (`tcp_set_default_congestion_control`), and that setting belongs to the
/// host.
fn require_congestion_control(ns: &NetNs, wanted: &str) -> Result<(), KernelTcpError> {
    let available = sysctl::get(ns, "net.ipv4.tcp_available_congestion_control")?;
    if available.split_whitespace().any(|one| one == wanted) {
        return Ok(());
    }
    Err(KernelTcpError::CongestionControl { wanted: wanted.to_owned(), available })
}
