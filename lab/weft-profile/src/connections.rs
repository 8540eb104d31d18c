//! The TCP connections of a namespace, as the kernel lists them, and waits for them.

use core::net::IpAddr;
use core::time::Duration;

use weft_host::{NetNs, OsError, clock};
use weft_units::{Instant, Nanos};

use crate::error::ProfileError;

/// Time limit for servers to listen, and for flows to connect, also through a full queue.
pub(crate) const CONNECT_WAIT: Nanos = Nanos::from_secs(15);
/// States in `/proc/net/tcp`: `TCP_ESTABLISHED` and `TCP_LISTEN`.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// The connections of a namespace at one moment.
#[derive(Debug)]
pub(crate) struct Connections(String);

impl Connections {
    /// Reads those of the address family of `address`.
    pub(crate) fn read(ns: &NetNs, address: IpAddr) -> Result<Self, ProfileError> {
        // `/proc/net` is that of the process's first thread.
        let table = match address {
            IpAddr::V4(_) => "/proc/thread-self/net/tcp",
            IpAddr::V6(_) => "/proc/thread-self/net/tcp6",
        };
        let read = ns.run(|| std::fs::read_to_string(table))?;
        Ok(Self(read.map_err(|e| OsError::new("read the TCP connections of a namespace", e))?))
    }

    /// Whether a server listens at `port`.
    pub(crate) fn listens(&self, port: u16) -> bool {
        self.count(port, LISTEN) > 0
    }

    /// The number of established connections with this local port.
    pub(crate) fn established(&self, port: u16) -> u32 {
        self.count(port, ESTABLISHED)
    }

    fn count(&self, port: u16, state: &str) -> u32 {
        let port = format!(":{port:04X}");
        let matches = |line: &&str| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some(state)
        };
        u32::try_from(self.0.lines().filter(matches).count()).unwrap_or(u32::MAX)
    }
}

/// Waits until a server in `receiver` listens at `port` of `address`.
///
/// # Errors
/// If it does not in time, if `stop` holds, or if the connections cannot be read.
pub fn wait_until_listening(
    receiver: &NetNs,
    address: IpAddr,
    port: u16,
    stop: &dyn Fn() -> bool,
) -> Result<(), ProfileError> {
    let deadline = clock::now() + CONNECT_WAIT;
    while !Connections::read(receiver, address)?.listens(port) {
        pause(stop, deadline, "a server to listen")?;
    }
    Ok(())
}

/// Sleeps shortly, unless the caller asks to stop or the deadline has passed.
pub(crate) fn pause(
    stop: &dyn Fn() -> bool,
    deadline: Instant,
    what: &'static str,
) -> Result<(), ProfileError> {
    if stop() {
        return Err(ProfileError::Stopped);
    }
    if clock::now() > deadline {
        return Err(ProfileError::Late(what));
    }
    std::thread::sleep(Duration::from_millis(10));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_local_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
            0: 00000000:1451 00000000:0000 0A 00000000:00000000\n   \
            1: 0102610A:1451 0101610A:A001 01 00000000:00000000\n   \
            2: 0102610A:1451 0101610A:A002 01 00000000:00000000\n   \
            3: 0102610A:1452 0101610A:1451 01 00000000:00000000\n";
        let table = Connections(table.to_owned());
        assert!(table.listens(5201) && !table.listens(5202));
        assert_eq!((table.established(5201), table.established(5202)), (2, 1));
        assert_eq!(Connections(String::new()).established(5201), 0);
    }
}
