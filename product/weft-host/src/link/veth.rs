//! Pairs of virtual Ethernet links.

use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage};

use super::{Mac, Result, check_name, refused_new};
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
