//! The sockets of a namespace: their flows and owners, through `NETLINK_SOCK_DIAG` as in `ss`.
//!
//! [`SockDiag::list`] returns all TCP and UDP sockets; calling it again shows new ones. [`Closings`] reports closed sockets. The
//! processor that handles a flow is not in the kernel's answer: only the socket's owner can read it
//! (`SO_INCOMING_CPU`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket as NetlinkSocket, protocols};
use rustix::io::Errno;
use weft_units::{FlowKey, Protocol};

use crate::error::OsError;
use crate::netlink::{Netlink, attributes, exchange, u16_at, u32_at, u64_at};
use crate::netns::{NetNs, NetNsError};

/// `include/uapi/linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `SKNLGRP_INET_TCP_DESTROY`, `_INET_UDP_`, `_INET6_TCP_`, `_INET6_UDP_`.
const DESTROY_GROUPS: [u32; 4] = [1, 2, 3, 4];

/// `struct inet_diag_req_v2` and `struct inet_diag_msg` of `include/uapi/linux/inet_diag.h`.
const REQUEST_LEN: usize = 56;
const MESSAGE_LEN: usize = 72;
/// Attributes of an answer.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_PROTOCOL: u16 = 10;
const INET_DIAG_SKV6ONLY: u16 = 11;
const INET_DIAG_MARK: u16 = 15;
const INET_DIAG_CGROUP_ID: u16 = 21;

const AF_INET: u8 = libc::AF_INET as u8;
const AF_INET6: u8 = libc::AF_INET6 as u8;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const HEADER_LEN: usize = 16;

/// An error of a socket query.
#[derive(Debug, thiserror::Error)]
pub enum SockDiagError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
}

/// The result of a socket query.
pub type Result<T> = std::result::Result<T, SockDiagError>;

/// The state of a socket: `include/net/tcp_states.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// TCP: connected. UDP: has a remote address.
    Established,
    /// TCP: listening.
    Listen,
    /// TCP: closed. UDP: has no remote address.
    Close,
    /// TCP: the connection is closed and its addresses are reserved for a while; it has no owner.
    TimeWait,
    /// Another state of TCP by the kernel's number: a connection being opened or closed.
    Other(u8),
}

/// A snapshot of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The local address and port. The address is unspecified if the socket accepts packets to any.
    pub local: SocketAddr,
    /// The remote address and port, if it has one.
    pub remote: Option<SocketAddr>,
    /// Its state.
    pub state: State,
    /// The number of the link that it is bound to; `None` if it is not bound.
    pub link: Option<u32>,
    /// The user that it belongs to.
    pub uid: u32,
    /// The inode, as shown in `/proc/PID/fd`; 0 if it has no owner.
    pub inode: u32,
    /// A number that is unique among all sockets until the next boot.
    pub cookie: u64,
    /// The cgroup (v2) in which it was made, by inode; `None` before Linux 5.7 and for sockets without an owner.
    pub cgroup: Option<u64>,
    /// Its mark (`SO_MARK`), visible with CAP_NET_ADMIN only.
    pub mark: Option<u32>,
    /// Whether an IPv6 socket excludes IPv4. If not, and without a remote address, it receives both.
    pub v6_only: bool,
}

impl Socket {
    /// The flow of packets that the socket receives, from its remote to its local address. `None` without a remote address. IPv4 on
    /// an IPv6 socket is reported as IPv4.
    pub fn received_flow(&self) -> Option<FlowKey> {
        let remote = self.remote?;
        Some(FlowKey {
            src: remote.ip().to_canonical(),
            dst: self.local.ip().to_canonical(),
            sport: remote.port(),
            dport: self.local.port(),
            protocol: self.protocol,
        })
    }
}

/// Counts of a TCP connection since it was opened, from `struct tcp_info` of `include/uapi/linux/tcp.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Bytes sent that the other end has acknowledged; the opening counts as one.
    pub acked: u64,
    /// Bytes received, each once.
    pub received: u64,
    /// Bytes sent, each once, whether acknowledged or not.
    pub sent: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments sent again.
    pub retransmitted: u64,
}

impl TcpCounts {
    /// The counts in a `struct tcp_info`; `None` before Linux 4.19, which counts fewer.
    fn parse(info: &[u8]) -> Option<Self> {
        const RETRANSMITTED: usize = 100;
        const ACKED: usize = 120;
        const RECEIVED: usize = 128;
        const SEGMENTS: [usize; 2] = [136, 140];
        const SENT: usize = 200;
        const SENT_AGAIN: usize = 208;
        const END: usize = 216;
        info.get(..END)?;
        Some(Self {
            acked: u64_at(info, ACKED),
            received: u64_at(info, RECEIVED),
            sent: u64_at(info, SENT).saturating_sub(u64_at(info, SENT_AGAIN)),
            segments_in: u32_at(info, SEGMENTS[1]).into(),
            segments_out: u32_at(info, SEGMENTS[0]).into(),
            retransmitted: u32_at(info, RETRANSMITTED).into(),
        })
    }

    /// Adds the counts of another connection.
    pub fn add(&mut self, other: &Self) {
        self.acked += other.acked;
        self.received += other.received;
        self.sent += other.sent;
        self.segments_in += other.segments_in;
        self.segments_out += other.segments_out;
        self.retransmitted += other.retransmitted;
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            acked: self.acked.saturating_sub(before.acked),
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            segments_in: self.segments_in.saturating_sub(before.segments_in),
            segments_out: self.segments_out.saturating_sub(before.segments_out),
            retransmitted: self.retransmitted.saturating_sub(before.retransmitted),
        }
    }
}

/// A connection for queries of one namespace's sockets.
pub struct SockDiag {
    socket: NetlinkSocket,
    sequence: u32,
    ns: String,
}

impl SockDiag {
    /// Opens a netlink socket in the namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered or a socket cannot be made.
    pub fn open(ns: &NetNs) -> Result<SockDiag> {
        let socket = ns
            .run(|| Netlink::socket(protocols::NETLINK_SOCK_DIAG))?
            .map_err(|e| OsError::new(format!("open a socket diagnosis socket in namespace {ns}"), e))?;
        Ok(SockDiag { socket, sequence: 0, ns: ns.to_string() })
    }

    /// All TCP and UDP sockets over IPv4 and IPv6, by protocol, local and remote address. Sockets opened or closed during the call may
    /// be missing or included.
    ///
    /// # Errors
    /// The kernel's refusal; ENOENT if it was built without socket diagnosis.
    pub fn list(&mut self) -> Result<Vec<Socket>> {
        let mut sockets = Vec::new();
        for protocol in [Protocol::TCP, Protocol::UDP] {
            for family in [AF_INET, AF_INET6] {
                sockets.extend(self.dump(protocol, family)?);
            }
        }
        sockets.sort_by_key(|socket| (socket.protocol, socket.local, socket.remote, socket.cookie));
        Ok(sockets)
    }

    /// All TCP sockets, each with its counts; those that listen or are closed have none.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn tcp(&mut self) -> Result<Vec<(Socket, Option<TcpCounts>)>> {
        let mut sockets = Vec::new();
        for family in [AF_INET, AF_INET6] {
            for body in self.answers(Protocol::TCP, family, 1 << (INET_DIAG_INFO - 1))? {
                let info = attributes(body.get(MESSAGE_LEN..).unwrap_or_default())
                    .find_map(|(kind, value)| (kind == INET_DIAG_INFO).then(|| TcpCounts::parse(value)));
                sockets.extend(parse(&body, Protocol::TCP).map(|socket| (socket, info.flatten())));
            }
        }
        Ok(sockets)
    }

    fn dump(&mut self, protocol: Protocol, family: u8) -> Result<Vec<Socket>> {
        let answers = self.answers(protocol, family, 0)?;
        Ok(answers.iter().filter_map(|body| parse(body, protocol)).collect())
    }

    /// The answers to a dump, each a `struct inet_diag_msg` with the attributes that `extensions` requests.
    fn answers(&mut self, protocol: Protocol, family: u8, extensions: u8) -> Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let message = request((family, protocol), extensions, self.sequence);
        let answers = exchange(&self.socket, &message, self.sequence).map_err(|refusal| {
            let missing = refusal.is(Errno::NOENT) || refusal.is(Errno::PROTONOSUPPORT);
            let error = refusal.during(format!("list the sockets of protocol {} in {}", protocol.0, self.ns));
            if missing {
                error.remedy("load the kernel's socket diagnosis: modprobe -a inet_diag tcp_diag udp_diag")
            } else {
                error
            }
        })?;
        let of_sockets = answers.into_iter().filter(|(kind, _)| *kind == SOCK_DIAG_BY_FAMILY);
        Ok(of_sockets.map(|(_, body)| body).collect())
    }
}

/// The closed sockets since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// The closed sockets, in order. Protocol, addresses and cookie are known; the owner is not.
    pub sockets: Vec<Socket>,
    /// Whether notices were lost because there were too many; if so, list the sockets again.
    pub missed: bool,
}

/// A subscription to notices of closed sockets.
pub struct Closings {
    socket: NetlinkSocket,
    ns: String,
}

impl Closings {
    /// Subscribes in the namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered; EPERM without CAP_NET_ADMIN.
    pub fn open(ns: &NetNs) -> Result<Closings> {
        let open = || {
            let mut socket = NetlinkSocket::new(protocols::NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            for group in DESTROY_GROUPS {
                socket.add_membership(group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = ns.run(open)?.map_err(|e: io::Error| {
            OsError::new(format!("listen for closed sockets in namespace {ns}"), e).needs("CAP_NET_ADMIN")
        })?;
        Ok(Closings { socket, ns: ns.to_string() })
    }

    /// The closed sockets since the last call. Does not wait. The kernel sends notices with a short delay.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn read(&mut self) -> Result<Closed> {
        let mut closed = Closed::default();
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, _)) => closed.sockets.extend(parse_closed(&datagram)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(closed),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The socket's buffer was full (netlink_overrun).
                Err(e) if Errno::from_io_error(&e) == Some(Errno::NOBUFS) => closed.missed = true,
                Err(e) => {
                    return Err(OsError::new(format!("listen for closed sockets in {}", self.ns), e).into());
                }
            }
        }
    }

    /// The descriptor, which is readable when notices are pending.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A dump of all sockets of a protocol and family, in every state.
fn request((family, protocol): (u8, Protocol), extensions: u8, sequence: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_LEN + REQUEST_LEN);
    message.extend_from_slice(&((HEADER_LEN + REQUEST_LEN) as u32).to_ne_bytes());
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(&[family, protocol.0, extensions, 0]);
    message.extend_from_slice(&u32::MAX.to_ne_bytes());
    message.resize(HEADER_LEN + REQUEST_LEN, 0);
    message
}

/// The sockets in a notice: consecutive netlink messages.
fn parse_closed(datagram: &[u8]) -> Vec<Socket> {
    let mut sockets = Vec::new();
    let mut rest = datagram;
    while rest.len() >= HEADER_LEN {
        let length = u32_at(rest, 0) as usize;
        let Some(message) = rest.get(..length).filter(|message| message.len() >= HEADER_LEN) else { break };
        if u16_at(message, 4) == SOCK_DIAG_BY_FAMILY {
            sockets.extend(parse(&message[HEADER_LEN..], Protocol(0)));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    sockets
}

/// Reads a `struct inet_diag_msg` with its attributes; `None` if it is too short or of another family. `protocol` is
/// the requested one, which an attribute may correct.
fn parse(body: &[u8], protocol: Protocol) -> Option<Socket> {
    let (message, tail) = body.split_at_checked(MESSAGE_LEN)?;
    let family = message[0];
    let local = address(family, &message[8..24], port(message, 4))?;
    let remote = address(family, &message[24..40], port(message, 6))?;
    let mut socket = Socket {
        protocol,
        local,
        remote: (remote.port() != 0 || !remote.ip().is_unspecified()).then_some(remote),
        state: state(message[1]),
        link: Some(u32_at(message, 40)).filter(|link| *link != 0),
        cookie: u64::from(u32_at(message, 48)) << 32 | u64::from(u32_at(message, 44)),
        uid: u32_at(message, 64),
        inode: u32_at(message, 68),
        cgroup: None,
        mark: None,
        v6_only: false,
    };
    for (kind, value) in attributes(tail) {
        match kind {
            INET_DIAG_PROTOCOL => socket.protocol = Protocol(*value.first()?),
            INET_DIAG_SKV6ONLY => socket.v6_only = value.first() == Some(&1),
            INET_DIAG_MARK => socket.mark = Some(u32_at(value, 0)),
            INET_DIAG_CGROUP_ID => socket.cgroup = Some(u64_at(value, 0)),
            _ => {}
        }
    }
    Some(socket)
}

fn port(message: &[u8], at: usize) -> u16 {
    u16::from_be(u16_at(message, at))
}

/// The address in a 16-byte field, of which IPv4 uses four.
fn address(family: u8, bytes: &[u8], port: u16) -> Option<SocketAddr> {
    let ip = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
        AF_INET6 => IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn state(number: u8) -> State {
    match number {
        1 => State::Established,
        6 => State::TimeWait,
        7 => State::Close,
        10 => State::Listen,
        other => State::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A notice about one UDP socket over IPv4, as `ss -E` receives it.
    fn notice() -> Vec<u8> {
        let mut message = vec![0; HEADER_LEN + MESSAGE_LEN];
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message[16..18].copy_from_slice(&[AF_INET, 7]);
        message[20..24].copy_from_slice(&[0x14, 0xe9, 0, 53]);
        message[24..28].copy_from_slice(&[127, 0, 0, 1]);
        message[40..44].copy_from_slice(&[127, 0, 0, 2]);
        message[60..64].copy_from_slice(&9_u32.to_ne_bytes());
        message.extend_from_slice(&5_u16.to_ne_bytes());
        message.extend_from_slice(&INET_DIAG_PROTOCOL.to_ne_bytes());
        message.extend_from_slice(&[17, 0, 0, 0]);
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }

    #[test]
    fn a_notice_is_read() {
        let sockets = parse_closed(&[notice(), notice()].concat());
        assert_eq!(sockets.len(), 2);
        let socket = &sockets[1];
        assert_eq!((socket.protocol, socket.state, socket.cookie), (Protocol::UDP, State::Close, 9));
        assert_eq!(socket.local.to_string(), "127.0.0.1:5353");
        assert_eq!(socket.remote.map(|remote| remote.to_string()), Some("127.0.0.2:53".to_string()));
    }

    #[test]
    fn cut_and_changed_notices_are_no_panic() {
        let whole = [notice(), notice()].concat();
        for end in 0..whole.len() {
            assert!(parse_closed(&whole[..end]).len() <= 1, "{end}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                assert!(parse_closed(&changed).len() <= 2);
            }
        }
    }
}
