//! Counters of a network namespace's IP and TCP, from `/proc/net/snmp` and `/proc/net/netstat`.

use std::collections::BTreeMap;

use crate::error::OsError;
use crate::netns::{NetNs, NetNsError};
use crate::tasks;

/// The files, of this thread's namespace: `/proc/net` is that of the process's first thread.
const FILES: [&str; 2] = ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"];

/// An error of reading counters.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// A file could not be read.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel lacks a counter.
    #[error("the kernel counts no {0}; is /proc mounted?")]
    Missing(&'static str),
}

/// Counters since the namespace was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetCounters {
    /// IP packets received, each of which may be several segments merged.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// TCP segments received.
    pub segments_in: u64,
    /// TCP segments sent, without those sent again.
    pub segments_out: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// TCP segments received before an earlier one.
    pub out_of_order: u64,
}

impl NetCounters {
    /// Reads the counters of `ns`.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or a counter is missing.
    pub fn read(ns: &NetNs) -> Result<Self, CounterError> {
        let mut texts = String::new();
        for file in FILES {
            let text = ns.run(|| std::fs::read_to_string(file))?;
            texts.push_str(&text.map_err(|e| OsError::new(format!("read {file}"), e))?);
        }
        Self::parse(&texts)
    }

    /// Reads the counters of each namespace in which a process runs, by its inode number. A namespace whose processes end meanwhile is
    /// left out.
    pub fn of_host() -> BTreeMap<u64, Self> {
        let mut all = BTreeMap::new();
        for pid in tasks::processes() {
            let Some(netns) = tasks::netns(pid).filter(|netns| !all.contains_key(netns)) else { continue };
            let file = |name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
            if let Ok(counters) = Self::parse(&(file("snmp") + &file("netstat"))) {
                all.insert(netns, counters);
            }
        }
        all
    }

    fn parse(texts: &str) -> Result<Self, CounterError> {
        let need = |group, name| counter(texts, group, name).ok_or(CounterError::Missing(name));
        Ok(Self {
            packets_in: need("Ip:", "InReceives")?,
            bytes_in: need("IpExt:", "InOctets")?,
            segments_in: need("Tcp:", "InSegs")?,
            segments_out: need("Tcp:", "OutSegs")?,
            retransmitted: need("Tcp:", "RetransSegs")?,
            out_of_order: need("TcpExt:", "TCPOFOQueue")?,
        })
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            packets_in: self.packets_in.saturating_sub(before.packets_in),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            segments_in: self.segments_in.saturating_sub(before.segments_in),
            segments_out: self.segments_out.saturating_sub(before.segments_out),
            retransmitted: self.retransmitted.saturating_sub(before.retransmitted),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
        }
    }

    /// The payload received by TCP over IPv4: the packets' bytes less one IP and TCP header each, with the timestamps option
    /// (RFC 7323, appendix A).
    pub fn payload_in(&self) -> u64 {
        const HEADERS: u64 = 52;
        self.bytes_in.saturating_sub(HEADERS * self.packets_in)
    }
}

/// Finds a counter: a line of names that begins with `group`, and a line of values after it.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let column = lines.next()?.split_whitespace().position(|one| one == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Ip: Forwarding InReceives\nIp: 1 34\nTcp: InSegs OutSegs RetransSegs\nTcp: 5 6 7\n\
                        TcpExt: TCPOFOQueue\nTcpExt: 8\nIpExt: InOctets\nIpExt: 3000\n";

    #[test]
    fn counters_stand_below_their_names() {
        let read = NetCounters::parse(TEXT).expect("counters");
        assert_eq!((read.packets_in, read.bytes_in), (34, 3000));
        assert_eq!(
            (read.segments_in, read.segments_out, read.retransmitted, read.out_of_order),
            (5, 6, 7, 8)
        );
        assert_eq!(read.payload_in(), 3000 - 34 * 52);
        assert_eq!(read.since(&read), NetCounters::default());
        let missing = NetCounters::parse("Ip: InReceives\nIp: 1\n").expect_err("no bytes");
        assert_eq!(missing.to_string(), "the kernel counts no InOctets; is /proc mounted?");
    }

    #[test]
    fn the_namespace_of_this_process_is_among_those_of_the_host() {
        let own = tasks::netns(std::process::id()).expect("a namespace");
        assert!(NetCounters::of_host().contains_key(&own));
    }

    #[test]
    fn this_namespace_has_counters() {
        if crate::testing::privileged("this_namespace_has_counters") {
            NetCounters::read(&NetNs::anonymous().expect("a namespace")).expect("counters");
        }
    }
}
