//! Payload that the receiver's TCP has taken in, per connection, by the kernel's count.
//!
//! iperf3's own counts are of blocks that it read. A receiver that was not scheduled for 30 ms at the edge of the steady
//! part reads the payload of before within it: 1.3 % of three seconds. The kernel counts a segment when it arrives.

use super::KernelTcpError;
use std::collections::BTreeMap;
use weft_host::sock_diag::{SockDiag, State};
use weft_host::{NetNs, clock};
use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// The ports of a connection: the receiver's and the sender's.
pub(super) type Ports = (u16, u16);

/// A reading of all connections.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// The middle of the reading.
    at: Instant,
    /// Bytes since each connection was opened, each byte once and in order (`tcpi_bytes_received`).
    bytes: BTreeMap<Ports, Bytes>,
}

impl Received {
    /// Reads the counts of the established connections in the receiver's namespace.
    pub(super) fn read(diag: &mut SockDiag) -> Result<Self, KernelTcpError> {
        let before = clock::now();
        let sockets = diag.tcp()?;
        let at = before + Nanos(clock::now().saturating_since(before).get() / 2);
        let bytes = sockets
            .into_iter()
            .filter(|(socket, _)| socket.state == State::Established)
            .filter_map(|(socket, counts)| {
                Some(((socket.local.port(), socket.remote?.port()), Bytes(counts?.received)))
            })
            .collect();
        Ok(Self { at, bytes })
    }

    /// Opens a reader in the receiver's namespace.
    pub(super) fn reader(receiver: &NetNs) -> Result<SockDiag, KernelTcpError> {
        Ok(SockDiag::open(receiver)?)
    }

    /// Returns the payload rate of each of these connections since `before`; `None` for one that is not in both
    /// readings.
    pub(super) fn rates(&self, before: &Self, connections: &[Ports]) -> Option<Vec<BitsPerSec>> {
        let span = self.at.saturating_since(before.at);
        let rate = |ports: &Ports| {
            let bytes = self.bytes.get(ports)?.saturating_sub(*before.bytes.get(ports)?);
            Some(BitsPerSec::from_bytes_over(bytes, span))
        };
        connections.iter().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_the_bytes_between_two_readings() {
        let reading = |ms, bytes: [(u16, u64); 2]| Received {
            at: Instant::from_millis(ms),
            bytes: bytes.map(|(port, bytes)| ((5201, port), Bytes(bytes))).into(),
        };
        let (first, last) = (reading(500, [(7, 1000), (9, 50)]), reading(2500, [(7, 251_000), (9, 50)]));
        let rates = last.rates(&first, &[(5201, 9), (5201, 7)]);
        assert_eq!(rates, Some(vec![BitsPerSec(0), BitsPerSec(1_000_000)]));
        assert_eq!(last.rates(&first, &[(5201, 7), (5201, 8)]), None, "a connection that was never read");
    }
}
