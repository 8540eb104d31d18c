//! Pairs of virtual Ethernet links.

use core::net::IpAddr;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage};

use super::{Mac, Result, add_address, add_neighbor, check_name, get_mac, refused_new, set_up};
use crate::netlink::Netlink;
use crate::netns::NetNs;

/// Options for a veth pair; `None` leaves a value to the kernel. All but the addresses apply to both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VethOptions {
    /// The hardware addresses of the first and of the second end.
    pub macs: [Option<Mac>; 2],
    /// The largest packet in bytes.
    pub mtu: Option<u32>,
    /// The largest segment that the stack passes to the link for segmentation, in bytes.
    pub gso_max_size: Option<u32>,
    /// The length of the transmit queue in packets.
    pub txqueuelen: Option<u32>,
    /// The number of transmit and of receive queues.
    pub queues: Option<u32>,
}

/// Makes a veth pair with one end in each of the two given namespaces. Both ends are down.
pub fn create_veth(a: (&NetNs, &str), b: (&NetNs, &str), options: &VethOptions) -> Result<()> {
    check_name(a.1)?;
    check_name(b.1)?;
    let mut peer = end(b.1, options.macs[1], options);
    peer.attributes.push(LinkAttribute::NetNsFd(b.0.fd().as_raw_fd()));
    let mut message = end(a.1, options.macs[0], options);
    message.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
    ]));
    let names = format!("{} with peer {} in {}", a.1, b.1, b.0);
    Netlink::open(a.0)?
        .request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|e| refused_new(e, a.0, &names, "veth", "CONFIG_VETH"))?;
    Ok(())
}

/// An end of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathEnd<'a> {
    /// Its namespace.
    pub ns: &'a NetNs,
    /// The name of the link.
    pub link: &'a str,
    /// Its address.
    pub address: IpAddr,
}

/// Makes a path: a veth pair whose ends are up, have addresses in a network of `prefix_len` bits, and know each other's hardware
/// address, so that no neighbour discovery crosses it.
///
/// # Errors
/// If the kernel refuses a link, an address or a neighbour.
pub fn create_path(ends: [PathEnd<'_>; 2], prefix_len: u8, options: &VethOptions) -> Result<()> {
    let [a, b] = ends;
    create_veth((a.ns, a.link), (b.ns, b.link), options)?;
    for one in ends {
        add_address(one.ns, one.link, one.address, prefix_len)?;
        set_up(one.ns, one.link)?;
    }
    for (one, other) in [(a, b), (b, a)] {
        // An Ethernet device has one.
        if let Some(mac) = get_mac(other.ns, other.link)? {
            add_neighbor(one.ns, one.link, other.address, mac)?;
        }
    }
    Ok(())
}

fn end(name: &str, mac: Option<Mac>, options: &VethOptions) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_string()));
    message.attributes.extend(
        [
            mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())),
            options.mtu.map(LinkAttribute::Mtu),
            options.gso_max_size.map(LinkAttribute::GsoMaxSize),
            options.txqueuelen.map(LinkAttribute::TxQueueLen),
            options.queues.map(LinkAttribute::NumTxQueues),
            options.queues.map(LinkAttribute::NumRxQueues),
        ]
        .into_iter()
        .flatten(),
    );
    message
}
