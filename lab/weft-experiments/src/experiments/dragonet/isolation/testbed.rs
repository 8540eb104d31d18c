//! Addresses of the isolation experiment: clients in the testbed's sender, the server in its receiver.

use super::Class;
use core::net::{IpAddr, Ipv4Addr};
use weft_host::link;
use weft_nic::testbed::{Testbed, TestbedError};

/// The server's address.
pub(super) use weft_nic::testbed::RECEIVER as SERVER;
/// The server's UDP port: the one registered for memcached.
pub(super) const SERVER_PORT: u16 = 11_211;
/// The first source port of a client, as in Dragonet's `data_collection.sh`.
pub(super) const CLIENT_PORT: u16 = 8000;
/// The most clients of a class, newcomer included.
pub(super) const MOST_CLIENTS: u32 = 250;
/// Prefix length of the testbed's network.
const PREFIX: u8 = 16;

/// Returns the address of client `number` (from 0) of a class: each client has its own, as a machine would.
pub(super) fn address(class: Class, number: u32) -> IpAddr {
    let network = match class {
        Class::HighPriority => 2,
        Class::BestEffort => 3,
    };
    let host = number.min(MOST_CLIENTS) as u8 + 1;
    IpAddr::V4(Ipv4Addr::new(10, 99, network, host))
}

/// Adds the clients' addresses to the sender, and static neighbours on both sides, so that no ARP crosses the NIC.
/// Must be called after [`Testbed::connect`].
pub(super) fn add_clients(
    testbed: &Testbed,
    wire: &str,
    host: &str,
    clients: impl Iterator<Item = IpAddr>,
) -> Result<(), TestbedError> {
    let mac = link::get_mac(&testbed.sender, wire)?;
    for client in clients {
        link::add_address(&testbed.sender, wire, client, PREFIX)?;
        if let Some(mac) = mac {
            link::add_neighbor(&testbed.receiver, host, client, mac)?;
        }
    }
    Ok(())
}
