//! Measurement between two hosts: this one sends, the other receives, and each samples its own side.
//!
//! 1. [`server`] waits at the other host. It starts receiving applications when a client asks, samples while the client measures, and
//!    returns its side's figures. It serves one client at a time and opens no connections.
//! 2. [`client`] starts the sending applications, which talk to that host only, and joins both sides' figures (`join`) to the
//!    same document as a trial on one host has.
//! 3. [`protocol`] is what they say to each other, over one TCP connection (`framing`); `endpoint` measures one side.
//!
//! Both sides count the flows' bytes by their own kernel. Around each trial the counts must agree: the server has received no less
//! than was acknowledged before, and no more than was sent after it was asked.

pub mod client;
mod endpoint;
pub mod framing;
mod fuzz;
mod join;
pub mod protocol;
pub mod server;
mod server_connection;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::error::ProfileError;
use crate::journal::JournalError;
use framing::LineError;
pub use fuzz::fuzz_hosts;
use weft_host::sock_diag::SockDiagError;

/// The reason that a measurement between two hosts failed.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// A step at this host failed.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A level could not be set, or a device not be restored.
    #[error(transparent)]
    Device(#[from] JournalError),
    /// The sockets cannot be listed.
    #[error(transparent)]
    Sockets(#[from] SockDiagError),
    /// The kernel counts no bytes of connections.
    #[error("this kernel does not count the bytes of a TCP connection; Linux 4.19 or later does")]
    NoCounts,
    /// The host has no address.
    #[error("host {host}: {reason}")]
    Unknown {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// No server answers.
    #[error(
        "no server at {at}: {error}; start `weft profile server` there, and open its TCP ports from {port} on"
    )]
    NoServer {
        /// The address.
        at: SocketAddr,
        /// The reason.
        error: io::Error,
        /// Its first port.
        port: u16,
    },
    /// The server cannot listen.
    #[error("cannot listen at {at}: {error}")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// The peer said nothing, too much, or nonsense.
    #[error("{peer}: {error}")]
    Peer {
        /// The peer.
        peer: SocketAddr,
        /// The reason.
        error: LineError,
    },
    /// The peer answered another question.
    #[error("{peer}: answered `{found}` where `{wanted}` was asked")]
    Unexpected {
        /// The peer.
        peer: SocketAddr,
        /// The answer.
        found: &'static str,
        /// The answer that was due.
        wanted: &'static str,
    },
    /// The server does not carry a request out.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// The server.
        peer: SocketAddr,
        /// Its reason.
        why: String,
    },
    /// A request that cannot be carried out now.
    #[error("{0}")]
    Request(&'static str),
    /// The tables of categories differ.
    #[error(
        "the server has table of categories {theirs}, this host {ours}; use the same weft, and the same --categories, on both"
    )]
    Tables {
        /// The server's.
        theirs: String,
        /// This host's.
        ours: String,
    },
    /// The sides took samples by different events.
    #[error("samples were taken by {sender} here and by {receiver} there; use --clock cpu-clock")]
    Clocks {
        /// This side's.
        sender: &'static str,
        /// The server's.
        receiver: &'static str,
    },
    /// The flows do not use the device whose settings were changed.
    #[error(
        "device {device} has sent {sent} bytes while the flows sent {acked}: it is not on the way to the server; name the one that \
         `ip route get ADDRESS` shows"
    )]
    NotOnPath {
        /// The device.
        device: String,
        /// Its bytes.
        sent: u64,
        /// The flows' bytes.
        acked: u64,
    },
    /// The counts of both sides contradict each other.
    #[error(
        "the flows' counts disagree: {acked} bytes were acknowledged, the server received {received}, and {sent} were sent; does a \
         proxy stand between the hosts?"
    )]
    Counts {
        /// Acknowledged before the server was asked.
        acked: u64,
        /// Received, by the server.
        received: u64,
        /// Sent after it had answered.
        sent: u64,
    },
}

impl HostsError {
    /// Whether the caller had asked to stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Profile(ProfileError::Stopped) | Self::Peer { error: LineError::Stopped, .. })
    }
}

/// A host and a port, as the user names them: `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// The name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The reason that a text is no place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a host such as server1, server1:5200 or [2001:db8::1]:5200")]
pub struct PlaceError(String);

impl FromStr for HostPort {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PlaceError(text.to_owned());
        let number = |port: &str| port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(error);
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(error)?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(error)?) };
            host.parse::<std::net::Ipv6Addr>().map_err(|_| error())?;
            (host, port)
        } else {
            match text.split_once(':') {
                // An IPv6 address without brackets has no port.
                Some((_, rest)) if rest.contains(':') => (text, None),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let good = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if host.is_empty() || !host.chars().all(good) {
            return Err(error());
        }
        let port = port.map_or(Ok(protocol::PORT), number)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl HostPort {
    /// The addresses of the place, the resolver's first choice first.
    ///
    /// # Errors
    /// If the name has none.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, HostsError> {
        let unknown = |reason: String| HostsError::Unknown { host: self.host.clone(), reason };
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map_err(|error| unknown(error.to_string()))?.collect();
        if found.is_empty() { Err(unknown("it has no address".to_owned())) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let place = |text: &str| text.parse::<HostPort>().map(|place| (place.host, place.port));
        for (text, host, port) in [
            ("server1", "server1", 5200),
            ("server1.example:99", "server1.example", 99),
            ("192.0.2.1", "192.0.2.1", 5200),
            ("[2001:db8::1]:7", "2001:db8::1", 7),
            ("[2001:db8::1]", "2001:db8::1", 5200),
            ("2001:db8::1", "2001:db8::1", 5200),
        ] {
            assert_eq!(place(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in ["", ":1", "a:0", "a:x", "a:99999", "[a]:1", "[::1]x", "[::1", "a b", "a\u{1b}[2J"] {
            assert!(place(text).is_err(), "{text}");
        }
        let numbers = "192.0.2.1:7".parse::<HostPort>().expect("a place").addresses().expect("an address");
        assert_eq!(numbers, ["192.0.2.1:7".parse().expect("an address")]);
    }
}
