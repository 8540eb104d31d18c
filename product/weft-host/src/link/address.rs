//! Addresses, routes and neighbours.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};

use super::{Mac, Result, query::index_by};
use crate::netlink::{Netlink, attributes, u32_at};
use crate::netns::NetNs;

const RTM_NEWADDR: u16 = 20;
const IFADDRMSG_LEN: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Adds an address to the link; the network of `prefix_len` bits becomes reachable through it. An IPv6 address is usable at
/// once, without duplicate address detection.
pub fn add_address(ns: &NetNs, link: &str, address: IpAddr, prefix_len: u8) -> Result<()> {
    let mut netlink = Netlink::open(ns)?;
    let mut message = AddressMessage::default();
    message.header.family = address.into();
    message.header.prefix_len = prefix_len;
    message.header.index = index_by(&mut netlink, ns, link)?;
    if address.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    netlink
        .request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|e| e.during(format!("add address {address}/{prefix_len} to link {link} of {ns}")))?;
    Ok(())
}

/// The addresses of the link, with the lengths of their prefixes.
pub fn addresses(ns: &NetNs, link: &str) -> Result<Vec<(IpAddr, u8)>> {
    let mut netlink = Netlink::open(ns)?;
    let index = index_by(&mut netlink, ns, link)?;
    let answers = netlink
        .request(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)
        .map_err(|e| e.during(format!("list the addresses of link {link} of {ns}")))?;
    let of_link = answers.iter().filter(|(kind, body)| *kind == RTM_NEWADDR && u32_at(body, 4) == index);
    Ok(of_link.filter_map(|(_, body)| parse(body)).collect())
}

/// Reads a `struct ifaddrmsg` and its attributes. `IFA_LOCAL` is the address of IPv4, `IFA_ADDRESS` that of IPv6.
fn parse(body: &[u8]) -> Option<(IpAddr, u8)> {
    let (mut local, mut address) = (None, None);
    for (kind, value) in attributes(body.get(IFADDRMSG_LEN..)?) {
        match kind {
            IFA_LOCAL => local = ip(value),
            IFA_ADDRESS => address = ip(value),
            _ => {}
        }
    }
    Some((local.or(address)?, *body.get(1)?))
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// A route to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The network's address; unspecified with length 0 for the default route.
    pub destination: IpAddr,
    /// The length of the network's prefix in bits.
    pub prefix_len: u8,
    /// The link to send through; `None` to derive it from the gateway.
    pub link: Option<&'a str>,
    /// The next hop; `None` for a directly reachable network.
    pub gateway: Option<IpAddr>,
}

/// Adds a route to the main table.
pub fn add_route(ns: &NetNs, route: &Route<'_>) -> Result<()> {
    let mut netlink = Netlink::open(ns)?;
    let mut message = RouteMessage::default();
    message.header.address_family = route.destination.into();
    message.header.destination_prefix_length = route.prefix_len;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = if route.gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
    message.header.kind = RouteType::Unicast;
    message.attributes.push(RouteAttribute::Destination(route.destination.into()));
    if let Some(gateway) = route.gateway {
        message.attributes.push(RouteAttribute::Gateway(gateway.into()));
    }
    if let Some(link) = route.link {
        message.attributes.push(RouteAttribute::Oif(index_by(&mut netlink, ns, link)?));
    }
    netlink
        .request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|e| e.during(format!("add route to {}/{} in {ns}", route.destination, route.prefix_len)))?;
    Ok(())
}

/// Adds a permanent neighbour, so that ARP and neighbour discovery never run for it and a measured path is free of
/// resolution traffic. Replaces an existing entry.
pub fn add_neighbor(ns: &NetNs, link: &str, address: IpAddr, mac: Mac) -> Result<()> {
    let mut netlink = Netlink::open(ns)?;
    let mut message = NeighbourMessage::default();
    message.header.family = address.into();
    message.header.ifindex = index_by(&mut netlink, ns, link)?;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(address.into()),
        NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
    ];
    netlink
        .request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
        .map_err(|e| e.during(format!("add neighbour {address} at {mac} to link {link} of {ns}")))?;
    Ok(())
}
