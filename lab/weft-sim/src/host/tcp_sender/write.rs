//! The write side: the send buffer and its queued skbs.

use super::TcpSender;
use crate::congestion::CongestionWindow;

/// Bytes that an application has not written yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unwritten {
    Bytes(u64),
    /// An unlimited number.
    Endless,
}

impl Unwritten {
    #[inline]
    const fn is_none(self) -> bool {
        matches!(self, Self::Bytes(0))
    }

    const fn add(&mut self, more: Self) {
        *self = match (*self, more) {
            (Self::Bytes(before), Self::Bytes(more)) => Self::Bytes(before.saturating_add(more)),
            _ => Self::Endless,
        };
    }

    #[inline]
    fn at_most(self, bytes: u64) -> u64 {
        match self {
            Self::Bytes(unwritten) => unwritten.min(bytes),
            Self::Endless => bytes,
        }
    }

    const fn take(&mut self, bytes: u64) {
        if let Self::Bytes(unwritten) = self {
            *unwritten -= bytes;
        }
    }
}

impl TcpSender {
    /// Adds bytes that the application wants to write. Returns whether to wake its sleeping thread.
    pub(crate) const fn give(&mut self, more: Unwritten) -> bool {
        self.unwritten.add(more);
        std::mem::replace(&mut self.blocked, false)
    }

    /// Returns the number of bytes in the send buffer.
    #[inline]
    const fn buffered(&self) -> u64 {
        self.written.saturating_sub(self.delivered_bytes)
    }

    /// Returns the size of the send buffer: autotuned to the window (`tcp_sndbuf_expand`: twice the window in packets of truesize
    /// 4352), at most the configured size.
    #[inline]
    fn send_buffer(&self) -> u64 {
        let most = self.parameters.send_buffer.0;
        most.min(2 * 4352 * u64::from(self.window.cwnd.max(CongestionWindow::INITIAL.cwnd)))
    }

    /// Returns the number of bytes that a thread may write now, at most `block`; `None` if it must wait.
    pub(crate) fn writable(&mut self, block: u64) -> Option<u64> {
        let room = self.send_buffer().saturating_sub(self.buffered());
        let bytes = self.unwritten.at_most(block).min(room);
        if bytes == 0 {
            self.blocked = true;
            return None;
        }
        Some(bytes)
    }

    /// Appends written bytes to the write queue, in skbs of at most the size goal (`tcp_sendmsg`).
    pub(crate) fn append(&mut self, mut bytes: u64) {
        self.unwritten.take(bytes);
        self.written += bytes;
        self.queued += bytes;
        if let Some(tail) = self.queue.back_mut() {
            let more = self.size_goal.saturating_sub(u64::from(*tail)).min(bytes);
            *tail += more as u32;
            bytes -= more;
        }
        while bytes > 0 {
            let skb = bytes.min(self.size_goal.max(1));
            self.queue.push_back(skb as u32);
            bytes -= skb;
        }
    }

    /// Whether the thread continues writing; otherwise it sleeps until there is more to write.
    #[inline]
    pub(crate) const fn writes_on(&mut self) -> bool {
        let more = !self.unwritten.is_none();
        if !more {
            self.blocked = true;
        }
        more
    }

    /// Whether to wake the writer that waits for buffer space: `sk_stream_write_space` does so when a third of the buffer is
    /// free.
    #[inline]
    pub(crate) fn wakes_writer(&mut self) -> bool {
        let waits = self.blocked && !self.unwritten.is_none();
        if !waits || 3 * self.buffered() > 2 * self.send_buffer() {
            return false;
        }
        self.blocked = false;
        true
    }

    /// Whether the writer waits for buffer space (`SOCK_NOSPACE`).
    #[inline]
    pub(super) const fn waits_for_space(&self) -> bool {
        self.blocked && !self.unwritten.is_none()
    }

    /// Whether the application will write more.
    #[inline]
    pub(super) const fn expects_more(&self) -> bool {
        !self.unwritten.is_none()
    }

    /// Whether all bytes of the application have arrived.
    #[inline]
    pub(crate) const fn is_done(&self) -> bool {
        self.unwritten.is_none() && self.buffered() == 0
    }

    /// Whether the buffer is empty.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.buffered() == 0
    }

    /// Discards unsent bytes and bytes to be retransmitted.
    pub(crate) fn abort(&mut self) {
        self.unwritten = Unwritten::Bytes(0);
        self.written -= self.queued + self.resend;
        self.queued = 0;
        self.resend = 0;
        self.queue.clear();
    }
}
