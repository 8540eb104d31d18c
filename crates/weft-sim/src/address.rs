//! Addresses and ports of simulated packets, as captures show them and policies test them.

use crate::ids::{HostId, StreamId};
use core::net::Ipv4Addr;

/// Networks for documentation, the first three bytes of each (RFC 5737).
const NETWORKS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];
/// Hosts in each, without its own address and the broadcast address.
const HOSTS_PER_NETWORK: u32 = 254;
/// Ports that no service has (RFC 6335, section 6).
const FIRST_PORT: u32 = 49_152;
const PORTS: u32 = 16_384;

/// The address of a host; none beyond the 762 that the networks have room for.
pub(crate) fn of_host(host: HostId) -> Option<Ipv4Addr> {
    let [a, b, c] = *NETWORKS.get((host.0 / HOSTS_PER_NETWORK) as usize)?;
    Some(Ipv4Addr::new(a, b, c, (host.0 % HOSTS_PER_NETWORK + 1) as u8))
}

/// Source and destination port of a flow's data.
pub(crate) const fn ports(stream: StreamId) -> (u16, u16) {
    ((FIRST_PORT + stream.0 % PORTS) as u16, (FIRST_PORT + stream.0 / PORTS % PORTS) as u16)
}
