//! Descriptors that pass from one process to another over a UNIX socket (`SCM_RIGHTS`, unix(7)).
//!
//! A message is a length, its bytes, and at most [`DESCRIPTORS_MAX`] descriptors. The descriptors travel with the first
//! byte, so a reader has them when it has the length. A received descriptor is closed when its owner is dropped, and never
//! inherited by a program that the receiver starts.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The most descriptors of a message. The kernel takes 253 (`SCM_MAX_FD`, include/net/scm.h).
pub const DESCRIPTORS_MAX: usize = 200;
/// The longest message.
pub const MESSAGE_MAX: usize = 1 << 24;

/// Errors of passing descriptors.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The socket failed, or the other end closed it within a message.
    #[error("pass descriptors: {0}")]
    Io(#[from] std::io::Error),
    /// A message is longer than [`MESSAGE_MAX`], or has more than [`DESCRIPTORS_MAX`] descriptors.
    #[error(
        "pass descriptors: a message of {bytes} bytes with {descriptors} descriptors is more than {MESSAGE_MAX} bytes and {DESCRIPTORS_MAX}"
    )]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The number of its descriptors.
        descriptors: usize,
    },
}

impl From<Errno> for PassError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// A received message.
#[derive(Debug, Default)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends a message.
///
/// # Errors
/// When it is too large, or the socket fails.
pub fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), PassError> {
    if bytes.len() > MESSAGE_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(PassError::TooLarge { bytes: bytes.len(), descriptors: descriptors.len() });
    }
    let length = (bytes.len() as u32).to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = loop {
        match sendmsg(socket, &[IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut socket = socket;
    socket.write_all(&length[sent..])?;
    Ok(socket.write_all(bytes)?)
}

/// Receives a message; `None` when the other end has closed the socket between two messages.
///
/// # Errors
/// When the message is too large, or the socket fails.
pub fn receive(socket: &UnixStream) -> Result<Option<Message>, PassError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 4];
    let taken = loop {
        let into = &mut [IoSliceMut::new(&mut length)];
        match recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    if taken == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    let mut socket = socket;
    socket.read_exact(&mut length[taken..])?;
    let count = u32::from_be_bytes(length) as usize;
    if count > MESSAGE_MAX {
        return Err(PassError::TooLarge { bytes: count, descriptors: descriptors.len() });
    }
    let mut bytes = Vec::new();
    socket.take(count as u64).read_to_end(&mut bytes)?;
    if bytes.len() < count {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(Message { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn bytes_and_descriptors_arrive_together_and_in_order() {
        let (near, far) = UnixStream::pair().expect("pair");
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        send(&near, b"first", &[writer.as_fd()]).expect("send");
        send(&near, b"", &vec![reader.as_fd(); DESCRIPTORS_MAX]).expect("send");
        drop((near, writer));
        let first = receive(&far).expect("receive").expect("a message");
        assert_eq!((first.bytes.as_slice(), first.descriptors.len()), (&b"first"[..], 1));
        rustix::io::write(&first.descriptors[0], b"through").expect("write");
        drop(first);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through");
        assert_eq!(receive(&far).expect("receive").expect("a message").descriptors.len(), DESCRIPTORS_MAX);
        assert!(receive(&far).expect("receive").is_none());
    }

    #[test]
    fn a_message_that_is_too_large_or_cut_off_is_an_error() {
        let (near, far) = UnixStream::pair().expect("pair");
        let many = vec![near.as_fd(); DESCRIPTORS_MAX + 1];
        assert!(matches!(send(&near, b"", &many), Err(PassError::TooLarge { .. })));
        (&near).write_all(&u32::MAX.to_be_bytes()).expect("write");
        assert!(matches!(receive(&far), Err(PassError::TooLarge { .. })));
        (&near).write_all(&[0, 0, 0, 9, 1]).expect("write");
        drop(near);
        assert!(matches!(receive(&far), Err(PassError::Io(_))));
    }
}
