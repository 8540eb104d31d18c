//! A FIFO for each transmit queue of a multiqueue link: `mq` at the root, and a `pfifo` of known length for each queue.
//!
//! The kernel's own choice below `mq` (`net.core.default_qdisc`) does not suit a link whose queues stop: `pfifo_fast` takes its
//! length from the link's txqueuelen, and `fq_codel` drops packets that wait for long. Install the qdiscs while the link is down: each
//! change of a link that is up stops all its queues for a moment.

use std::fmt;

use crate::error::OsError;
use crate::link::{LinkError, Numbered};
use crate::netlink::Netlink;
use crate::netns::NetNsError;
use crate::qdisc_counters::QdiscCounters;
use crate::tc::{self, Place};

const RTM_NEWQDISC: u16 = 36;
/// The handle of `mq`; its class of queue `q` is `HANDLE + q + 1`.
const HANDLE: u32 = 1 << 16;

/// An error of an operation on these qdiscs.
#[derive(Debug, thiserror::Error)]
pub enum MqError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The link does not exist.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The link has no qdisc at its root any more.
    #[error("link {0} has no qdisc")]
    NotThere(String),
}

/// Installs `mq` with a `pfifo` of `limit` packets for each of the first `queues` queues of `link`.
///
/// # Errors
/// If the link does not exist or has one queue only, or CAP_NET_ADMIN is missing.
pub fn install(link: &Numbered, queues: u32, limit: u32) -> Result<(), MqError> {
    let mut netlink = Netlink::open(link.namespace())?;
    let link_index = link.index();
    let mut add = |parent, handle, kind: &str, options: Option<Vec<u8>>| {
        tc::add_qdisc(&mut netlink, Place { link_index, parent, handle }, kind, options).map_err(|e| {
            e.during(format!("put qdisc {kind} at link {} of {}", link.first_name(), link.namespace()))
        })
    };
    add(tc::ROOT, HANDLE, "mq", None)?;
    for queue in 0..queues {
        // The option is a bare struct tc_fifo_qopt, without attributes inside.
        add(HANDLE + queue + 1, (queue + 2) << 16, "pfifo", Some(limit.to_ne_bytes().to_vec()))?;
    }
    Ok(())
}

/// A reader of the counters of a link's root qdisc, which for `mq` are those of all queues.
pub struct Reader {
    netlink: Netlink,
    link_index: u32,
    link: String,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("link", &self.link).finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader for `link`.
    ///
    /// # Errors
    /// If a socket cannot be made.
    pub fn open(link: &Numbered) -> Result<Self, MqError> {
        let text = format!("{} of {}", link.first_name(), link.namespace());
        Ok(Self { netlink: Netlink::open(link.namespace())?, link_index: link.index(), link: text })
    }

    /// The current counters.
    ///
    /// # Errors
    /// If the link no longer exists, or has no qdisc.
    pub fn read(&mut self) -> Result<QdiscCounters, MqError> {
        let place = Place { link_index: self.link_index, parent: tc::ROOT, handle: 0 };
        let answers = tc::get_qdisc(&mut self.netlink, place)
            .map_err(|e| e.during(format!("read the qdisc of link {}", self.link)))?;
        let found = answers.iter().find(|(kind, _)| *kind == RTM_NEWQDISC);
        found.map(|(_, body)| QdiscCounters::parse(body)).ok_or_else(|| MqError::NotThere(self.link.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{self, VethOptions};
    use crate::netlink::u32_at;
    use crate::netns::NetNs;
    use crate::testing;

    #[test]
    fn each_queue_gets_a_fifo_of_its_own_and_the_root_counts_for_all() {
        if !testing::privileged("each_queue_gets_a_fifo_of_its_own_and_the_root_counts_for_all") {
            return;
        }
        let ns = NetNs::anonymous().expect("namespace");
        let options = VethOptions { queues: Some(4), ..Default::default() };
        link::create_veth((&ns, "q0"), (&ns, "q1"), &options).expect("veth");
        let link = Numbered::named(&ns, "q0").expect("link");
        install(&link, 4, 7).expect("install");
        let mut netlink = Netlink::open(&ns).expect("netlink");
        let dump = tc::dump_qdiscs(&mut netlink, link.index()).expect("dump");
        let fifos = dump.iter().filter(|(_, body)| {
            u32_at(body, 4) == link.index() && body.windows(6).any(|bytes| bytes == b"pfifo\0")
        });
        assert_eq!(fifos.count(), 4);
        let mut reader = Reader::open(&link).expect("reader");
        assert_eq!(reader.read().expect("counters"), QdiscCounters::default());
        link.delete().expect("delete");
        assert!(reader.read().is_err());
    }
}
