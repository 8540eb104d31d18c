//! A small blocking netlink client: sends a request and collects the answers up to the acknowledgement.
//!
//! Requests are built with `netlink-packet-route`. Answers are read attribute by attribute ([`attributes`]), so that an
//! unknown attribute of a newer kernel cannot make an answer unreadable.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols};

use crate::error::OsError;
use crate::netns::{NetNs, NetNsError};

const HEADER_LEN: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// A refusal: the error number, and the kernel's explanation if it gave one.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: io::Error,
    pub(crate) says: Option<String>,
}

impl Refusal {
    /// Adds the action that failed. Netlink requires CAP_NET_ADMIN.
    pub(crate) fn during(self, action: impl Into<String>) -> OsError {
        OsError::new(action, self.error).detail(self.says).needs("CAP_NET_ADMIN")
    }

    pub(crate) fn is(&self, errno: rustix::io::Errno) -> bool {
        self.error.raw_os_error() == Some(errno.raw_os_error())
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal { error, says: None }
    }
}

/// An answer: its message type and the bytes after the netlink header.
pub(crate) type Answer = (u16, Vec<u8>);

/// A routing netlink socket in one namespace.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the namespace.
    pub(crate) fn open(ns: &NetNs) -> Result<Netlink, NetNsError> {
        let socket = ns
            .run(|| Netlink::socket(protocols::NETLINK_ROUTE))?
            .map_err(|e| OsError::new(format!("open a netlink socket in namespace {ns}"), e))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Opens a socket for a netlink protocol in the namespace of the calling thread.
    pub(crate) fn socket(protocol: isize) -> io::Result<Socket> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        Ok(socket)
    }

    /// Sends one request with `flags` and waits for its acknowledgement.
    pub(crate) fn request(&mut self, body: RouteNetlinkMessage, flags: u16) -> Result<Vec<Answer>, Refusal> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        if flags & NLM_F_DUMP != NLM_F_DUMP {
            header.flags |= NLM_F_ACK;
        }
        self.sequence += 1;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(body));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        exchange(&self.socket, &bytes, self.sequence)
    }
}

/// Sends a complete message and collects the answers with its sequence number.
pub(crate) fn exchange(socket: &Socket, message: &[u8], sequence: u32) -> Result<Vec<Answer>, Refusal> {
    socket.send(message, 0)?;
    let mut answers = Vec::new();
    loop {
        let datagram = match socket.recv_from_full() {
            Ok((datagram, _)) => datagram,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.into()),
        };
        let mut rest = datagram.as_slice();
        while rest.len() >= HEADER_LEN {
            let length = u32_at(rest, 0) as usize;
            if length < HEADER_LEN || length > rest.len() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "netlink message cut short").into());
            }
            let (one, flags) = (&rest[..length], u16_at(rest, 6));
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            if u32_at(one, 8) != sequence {
                continue;
            }
            match u16_at(one, 4) {
                NLMSG_ERROR => return acknowledged(&one[HEADER_LEN..], flags).map(|()| answers),
                // A dump that fails midway ends with its error number (netlink_dump_done).
                NLMSG_DONE => return acknowledged(&one[HEADER_LEN..], 0).map(|()| answers),
                kind => answers.push((kind, one[HEADER_LEN..].to_vec())),
            }
        }
    }
}

/// Reads an acknowledgement: error number, the request's header, then attributes if the flag is set.
fn acknowledged(body: &[u8], flags: u16) -> Result<(), Refusal> {
    let code = i32::from_ne_bytes(body.get(..4).and_then(|b| b.try_into().ok()).unwrap_or_default());
    if code == 0 {
        return Ok(());
    }
    let tail = body.get(4 + HEADER_LEN..).filter(|_| flags & NLM_F_ACK_TLVS != 0).unwrap_or_default();
    let says = attributes(tail).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG).map(|(_, text)| c_string(text));
    Err(Refusal { error: io::Error::from_raw_os_error(code.abs()), says })
}

/// The attributes in `bytes`, as (type, value). Stops at the first malformed one.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|nla| {
        let kind = nla.kind();
        (kind, &nla.into_inner()[4..][..nla.value_length()])
    })
}

/// Consecutive attributes, each padded to four bytes.
#[derive(Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The text of an attribute up to its terminating zero.
pub(crate) fn c_string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A native-endian u16 at `at`, zero if the buffer is too short.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).unwrap_or_default())
}

/// A native-endian u32 at `at`, zero if the buffer is too short.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default())
}

/// A native-endian u64 at `at`, zero if the buffer is too short.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).unwrap_or_default())
}
