//! Addresses and ports of simulated packets, for captures and policies.

use crate::ids::{HostId, StreamId};
use core::net::Ipv4Addr;

/// Networks for documentation, by their first three bytes (RFC 5737).
const NETWORKS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];
/// Number of hosts per network, without the network and broadcast addresses.
const HOSTS_PER_NETWORK: u32 = 254;
/// The first port of the range without assigned services (RFC 6335, section 6).
const FIRST_PORT: u32 = 49_152;
const PORTS: u32 = 16_384;

/// Returns the address of a host; `None` beyond the 762 addresses of the networks.
pub(crate) fn of_host(host: HostId) -> Option<Ipv4Addr> {
    let [a, b, c] = *NETWORKS.get((host.0 / HOSTS_PER_NETWORK) as usize)?;
    Some(Ipv4Addr::new(a, b, c, (host.0 % HOSTS_PER_NETWORK + 1) as u8))
}

/// Returns the source and destination port of a flow's data.
pub(crate) const fn ports(stream: StreamId) -> (u16, u16) {
    ((FIRST_PORT + stream.0 % PORTS) as u16, (FIRST_PORT + stream.0 / PORTS % PORTS) as u16)
}
