//! Helpers by which an application tells the software NIC of weftline of what it sends: the deadline and the size of a
//! message, and the time of a datagram. No right is needed.
//!
//! ```no_run
//! use core::time::Duration;
//! use std::io::Write;
//! use weft_message::{Message, now, tell};
//!
//! let mut stream = std::net::TcpStream::connect("127.0.0.1:7000")?;
//! let answer = b"an answer that is due in 5 ms";
//! let due = now() + Duration::from_millis(5);
//! tell(&stream, Message { deadline: Some(due), bytes: Some(answer.len() as u64) })?;
//! stream.write_all(answer)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Where weftline does not run, or no algorithm of its policy reads it, [`tell`] returns [`Heard::ByNobody`], and everything else
//! is as without it. All times are those of the kernel's monotonic clock, from [`now`]. docs/applications.md is the guide; the C
//! header and the Python module in `sdk/` are the same.
//!
//! The crate stands alone, so that an application need not build the rest of weftline.

use core::time::Duration;
use nix::libc::{self, CLOCK_MONOTONIC, SOF_TXTIME_DEADLINE_MODE, sock_txtime};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};
use nix::{setsockopt_impl, sockopt_impl};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};

/// The level of the socket option, which no protocol has: "weft".
pub const LEVEL: i32 = 0x7765_6674;
/// The name of the option whose value is a message.
pub const OPTION_MESSAGE: i32 = 1;

/// The value of the option, as the kernel passes it on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Value {
    deadline_ns: u64,
    bytes: u64,
}

sockopt_impl!(
    /// The socket option.
    MessageOption,
    SetOnly,
    LEVEL,
    OPTION_MESSAGE,
    Value
);

/// A message that is about to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The time by which it is due.
    pub deadline: Option<Duration>,
    /// Its size; without one it lasts up to the next message.
    pub bytes: Option<u64>,
}

/// The answer to what was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A software NIC of this host reads it, if the packets leave through one of its ports.
    Yes,
    /// Nobody reads it.
    ByNobody,
}

/// The time now.
pub fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The nanoseconds of a time, as far as the kernel counts.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells that what is written next to a TCP or UDP socket is `message`.
///
/// # Errors
/// When the socket is closed or is none.
pub fn tell(socket: &impl AsFd, message: Message) -> io::Result<Heard> {
    let value = Value { deadline_ns: message.deadline.map_or(0, nanos), bytes: message.bytes.unwrap_or(0) };
    match setsockopt(socket, MessageOption, &value) {
        Ok(()) => Ok(Heard::Yes),
        Err(nix::Error::ENOPROTOOPT) => Ok(Heard::ByNobody),
        Err(error) => Err(error.into()),
    }
}

/// Lets the datagrams of a socket have times (`SO_TXTIME`).
///
/// # Errors
/// When the kernel refuses.
pub fn use_times(socket: &UdpSocket) -> io::Result<()> {
    let times = sock_txtime { clockid: CLOCK_MONOTONIC, flags: SOF_TXTIME_DEADLINE_MODE };
    Ok(setsockopt(socket, sockopt::TxTime, &times)?)
}

/// Sends a datagram of a connected socket that is to leave by `time`, or not before it, as the policy's algorithm reads it.
/// The socket must have [`use_times`].
///
/// # Errors
/// As those of [`UdpSocket::send`].
pub fn send_at(socket: &UdpSocket, data: &[u8], time: Duration) -> io::Result<usize> {
    let at = nanos(time);
    let asks = [ControlMessage::TxTime(&at)];
    let parts = [IoSlice::new(data)];
    Ok(sendmsg::<()>(socket.as_raw_fd(), &parts, &asks, MsgFlags::empty(), None)?)
}
