//! The kernel's token bucket filter (TBF) at a link's egress: a link of a known rate with one FIFO of a known number of bytes.
//!
//! The TBF makes that FIFO itself, a `bfifo` of `limit` bytes (`tbf_change` in `net/sched/sch_tbf.c`). It drops an arriving
//! packet that does not fit whole. A [`Reader`] keeps its socket open, so that the counters can be sampled every few
//! milliseconds.

use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::error::OsError;
use crate::link::{self, LinkError};
use crate::netlink::{Netlink, u32_at};
use crate::netns::{NetNs, NetNsError};
use crate::qdisc_counters::QdiscCounters;
use crate::tc::{self, Attributes, Place};

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const RTM_NEWQDISC: u16 = 36;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes with the rate itself and needs no rate table.
const LINKLAYER_ETHERNET: u8 = 1;
/// The kernel's older form of a bucket's depth, in ticks of 64 ns (`PSCHED_SHIFT`).
const NANOS_PER_TICK: u64 = 64;
const HANDLE: u32 = 1 << 16;

/// An error of a TBF operation.
#[derive(Debug, thiserror::Error)]
pub enum TbfError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The link does not exist.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel lacks the qdisc.
    #[error("this kernel has no tbf qdisc: neither built in nor loadable (CONFIG_NET_SCH_TBF)")]
    NoQdisc,
    /// The kernel lacks the qdisc to put into a TBF.
    #[error("this kernel has no {0} qdisc: neither built in nor loadable")]
    NoInner(String),
    /// The link has no TBF at its egress.
    #[error("link {0} has no tbf qdisc")]
    NotThere(String),
    /// The configuration is invalid.
    #[error("TBF: {0}")]
    Invalid(String),
}

/// A token bucket filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tbf {
    /// The rate of the link.
    pub rate: BitsPerSec,
    /// Bytes added to each packet for framing on the wire: 24 for Ethernet (preamble 8, checksum 4, gap 12). It counts
    /// towards the rate, not the queue.
    pub overhead: u16,
    /// The depth of the bucket, which may pass at once after a pause. At least the largest frame with its overhead.
    pub burst: Bytes,
    /// The length of the FIFO in bytes of frames.
    pub limit: Bytes,
}

/// Installs the TBF at the link's egress, which must have no other configured qdisc.
///
/// # Errors
/// If CAP_NET_ADMIN is missing, the kernel lacks TBF, or a value does not fit into the kernel's fields.
pub fn install(ns: &NetNs, link: &str, tbf: &Tbf) -> Result<(), TbfError> {
    let options = options(tbf)?;
    let root = Place { link_index: link::index(ns, link)?, parent: tc::ROOT, handle: HANDLE };
    tc::add_qdisc(&mut Netlink::open(ns)?, root, "tbf", Some(options)).map_err(|e| {
        if e.is(rustix::io::Errno::NOENT) {
            TbfError::NoQdisc
        } else {
            e.during(format!("put a TBF at link {link} of {ns}")).into()
        }
    })
}

/// Replaces the FIFO of the TBF by a qdisc of this kind, with the kernel's defaults: `sfq`, `fq_codel`.
///
/// # Errors
/// If the link has no TBF, or the kernel lacks the kind.
pub fn set_inner(ns: &NetNs, link: &str, kind: &str) -> Result<(), TbfError> {
    let place = Place { link_index: link::index(ns, link)?, parent: HANDLE | 1, handle: 2 * HANDLE };
    tc::add_qdisc(&mut Netlink::open(ns)?, place, kind, None).map_err(|e| {
        if e.is(rustix::io::Errno::NOENT) {
            TbfError::NoInner(kind.to_owned())
        } else {
            e.during(format!("put {kind} into the TBF at link {link} of {ns}")).into()
        }
    })
}

/// Changes the TBF at the link's egress. Its packets stay.
///
/// # Errors
/// If the link has no TBF, or a value does not fit into the kernel's fields.
pub fn change(ns: &NetNs, link: &str, tbf: &Tbf) -> Result<(), TbfError> {
    let options = options(tbf)?;
    let root = Place { link_index: link::index(ns, link)?, parent: tc::ROOT, handle: HANDLE };
    tc::change_qdisc(&mut Netlink::open(ns)?, root, "tbf", options)
        .map_err(|e| e.during(format!("change the TBF at link {link} of {ns}")).into())
}

/// Removes the TBF from the link's egress, with the packets in it.
///
/// # Errors
/// If the link has no TBF.
pub fn remove(ns: &NetNs, link: &str) -> Result<(), TbfError> {
    let root = Place { link_index: link::index(ns, link)?, parent: tc::ROOT, handle: HANDLE };
    tc::delete_qdisc(&mut Netlink::open(ns)?, root)
        .map_err(|e| e.during(format!("remove the TBF from link {link} of {ns}")).into())
}

/// `struct tc_tbf_qopt` (rate, peak rate, limit, depth in ticks, an unused field), and the newer attributes.
fn options(tbf: &Tbf) -> Result<Vec<u8>, TbfError> {
    let word = |what: &str, bytes: Bytes| {
        u32::try_from(bytes.0)
            .ok()
            .filter(|b| *b > 0)
            .ok_or_else(|| TbfError::Invalid(format!("the {what} must be 1 byte to 4 GB, not {bytes}")))
    };
    let (limit, burst) = (word("limit", tbf.limit)?, word("burst", tbf.burst)?);
    let rate = tbf.rate.0 / 8;
    if rate == 0 {
        return Err(TbfError::Invalid("the link needs a rate of at least 8 b/s".to_string()));
    }
    let mut parameters = [0; 36];
    parameters[1] = LINKLAYER_ETHERNET;
    parameters[2..4].copy_from_slice(&tbf.overhead.to_ne_bytes());
    parameters[8..12].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    parameters[24..28].copy_from_slice(&limit.to_ne_bytes());
    parameters[28..32].copy_from_slice(&ticks(tbf.rate.time_for(tbf.burst)).to_ne_bytes());
    Ok(Attributes::default()
        .with(TCA_TBF_PARMS, &parameters)
        .with(TCA_TBF_RATE64, &rate.to_ne_bytes())
        .with(TCA_TBF_BURST, &burst.to_ne_bytes())
        .bytes())
}

fn ticks(depth: Nanos) -> u32 {
    u32::try_from(depth.0 / NANOS_PER_TICK).unwrap_or(u32::MAX)
}

/// A reader for repeated samples of one link's TBF counters.
pub struct Reader {
    netlink: Netlink,
    link_index: u32,
    link: String,
}

impl Reader {
    /// A reader of the TBF at `link`.
    ///
    /// # Errors
    /// If the link does not exist, or a socket cannot be made.
    pub fn open(ns: &NetNs, link: &str) -> Result<Reader, TbfError> {
        let link_index = link::index(ns, link)?;
        Ok(Reader { netlink: Netlink::open(ns)?, link_index, link: format!("{link} of {ns}") })
    }

    /// The current counters.
    ///
    /// # Errors
    /// If the TBF no longer exists.
    pub fn read(&mut self) -> Result<QdiscCounters, TbfError> {
        let answers = tc::dump_qdiscs(&mut self.netlink, self.link_index)
            .map_err(|e| e.during(format!("read the qdisc of link {}", self.link)))?;
        // The kernel answers for all links of the namespace.
        let ours = |body: &[u8]| u32_at(body, 4) == self.link_index && u32_at(body, 8) == HANDLE;
        let found = answers.iter().find(|(kind, body)| *kind == RTM_NEWQDISC && ours(body));
        found.map(|(_, body)| QdiscCounters::parse(body)).ok_or_else(|| TbfError::NotThere(self.link.clone()))
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("link", &self.link).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TBF: Tbf =
        Tbf { rate: BitsPerSec(8_000_000), overhead: 24, burst: Bytes(2_000), limit: Bytes(10_000) };

    #[test]
    fn what_the_kernel_cannot_hold_is_refused() {
        let text = |tbf| options(&tbf).expect_err("refused").to_string();
        assert!(text(Tbf { rate: BitsPerSec(7), ..TBF }).contains("rate"));
        assert!(text(Tbf { limit: Bytes(0), ..TBF }).contains("limit"));
        assert!(text(Tbf { burst: Bytes(1 << 32), ..TBF }).contains("burst"));
        assert_eq!(options(&TBF).expect("options").len(), 40 + 12 + 8);
    }
}
