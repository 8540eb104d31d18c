//! The kernel's hierarchical token bucket (HTB) at a link's egress: the peer in comparisons, and a way to enforce a policy
//! without the software NIC.
//!
//! The tree has one bucket with the whole rate, a class for each share, and a FIFO in each class. A packet's class is chosen
//! elsewhere: its `skb->priority` (SO_PRIORITY, or an eBPF program) is the [class id](class_id).

use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

use crate::error::OsError;
use crate::link::{self, LinkError};
use crate::netlink::{Netlink, Refusal, u32_at};
use crate::netns::{NetNs, NetNsError};
use crate::qdisc_counters::QdiscCounters;
use crate::tc::{self, Attributes, Place};

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const RTM_NEWTCLASS: u16 = 40;
/// The version of the interface, `TC_HTB_PROTOVER`.
const HTB_VERSION: u32 = 3;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes with the rate itself and needs no rate table.
const LINKLAYER_ETHERNET: u8 = 1;
/// The kernel counts bucket depths in ticks of 64 ns (`PSCHED_SHIFT`).
const NANOS_PER_TICK: u64 = 64;
const MAJOR: u32 = 1 << 16;
const INNER: u16 = 0xffff;
/// A bucket holds at least one Ethernet packet.
const MIN_BURST: Bytes = Bytes(1600);

/// An error of an HTB operation.
#[derive(Debug, thiserror::Error)]
pub enum HtbError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The link does not exist.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel lacks a qdisc.
    #[error("this kernel has no {0} qdisc: neither built in nor loadable")]
    NoQdisc(&'static str),
    /// The configuration is invalid.
    #[error("HTB: {0}")]
    Invalid(String),
}

/// A complete HTB configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Htb {
    /// The rate of the link.
    pub rate: BitsPerSec,
    /// Bytes added to each packet for framing on the wire: 24 for Ethernet (preamble 8, checksum 4, gap 12). The kernel adds
    /// it once for each packet at the qdisc, and therefore once for an uncut segment. With segmentation offload, lower `rate` by
    /// 1514/1538 instead.
    pub overhead: u16,
    /// The minor number of the class for packets that name none.
    pub default_class: u16,
    /// The classes.
    pub classes: Vec<HtbClass>,
}

/// A class of an [`Htb`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Its minor number, 1 to 65534.
    pub minor: u16,
    /// Its guaranteed rate.
    pub rate: BitsPerSec,
    /// Its maximum rate, which it can use when others leave capacity.
    pub ceil: BitsPerSec,
    /// Its share of spare capacity: bytes per round.
    pub quantum: Bytes,
    /// The order in which spare capacity is offered, lowest first; 0 to 7.
    pub priority: u32,
    /// The length of its FIFO.
    pub limit: Packets,
}

/// The counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// The minor number of the class.
    pub minor: u16,
    /// Bytes sent.
    pub bytes: Bytes,
    /// Packets sent.
    pub packets: Packets,
    /// Packets dropped because its FIFO was full.
    pub dropped: Packets,
    /// Bytes waiting.
    pub backlog: Bytes,
}

/// The value of `skb->priority` that puts a packet into the class.
pub fn class_id(minor: u16) -> u32 {
    MAJOR | u32::from(minor)
}

/// Installs the HTB at the link's egress, which must have no other configured qdisc. On failure, nothing remains installed.
pub fn install(ns: &NetNs, link: &str, htb: &Htb) -> Result<(), HtbError> {
    check(htb)?;
    let link_index = link::index(ns, link)?;
    let mut netlink = Netlink::open(ns)?;
    let mut init = [0; 20];
    for (field, value) in [HTB_VERSION, 10, u32::from(htb.default_class), 0, 0].into_iter().enumerate() {
        init[4 * field..][..4].copy_from_slice(&value.to_ne_bytes());
    }
    let root = Place { link_index, parent: tc::ROOT, handle: MAJOR };
    let options = Attributes::default().with(TCA_HTB_INIT, &init).bytes();
    tc::add_qdisc(&mut netlink, root, "htb", Some(options))
        .map_err(|e| refused(e, "htb", format!("put an HTB at link {link} of {ns}")))?;
    add_classes(&mut netlink, link_index, htb).map_err(|(e, kind, what)| {
        let _ = tc::delete_qdisc(&mut netlink, root);
        refused(e, kind, format!("put {what} at link {link} of {ns}"))
    })
}

/// Removes the HTB and drops its packets.
pub fn remove(ns: &NetNs, link: &str) -> Result<(), HtbError> {
    let link_index = link::index(ns, link)?;
    let root = Place { link_index, parent: tc::ROOT, handle: MAJOR };
    tc::delete_qdisc(&mut Netlink::open(ns)?, root)
        .map_err(|e| e.during(format!("take the HTB from link {link} of {ns}")).into())
}

/// The counters of the classes, by minor number, without the root class.
pub fn stats(ns: &NetNs, link: &str) -> Result<Vec<ClassStats>, HtbError> {
    let link_index = link::index(ns, link)?;
    let answers = tc::dump_classes(&mut Netlink::open(ns)?, link_index)
        .map_err(|e| e.during(format!("read the classes of link {link} of {ns}")))?;
    let classes = answers.iter().filter(|(kind, _)| *kind == RTM_NEWTCLASS).map(|(_, body)| parse(body));
    let mut classes: Vec<_> = classes.filter(|class| class.minor != INNER).collect();
    classes.sort_by_key(|class| class.minor);
    Ok(classes)
}

fn check(htb: &Htb) -> Result<(), HtbError> {
    let invalid = |why: String| Err(HtbError::Invalid(why));
    for class in &htb.classes {
        if class.minor == 0 || class.minor == INNER {
            return invalid(format!("class {:x} is not between 1 and fffe", class.minor));
        }
        if class.rate.0 < 8 || class.ceil.0 < class.rate.0 {
            return invalid(format!("class {:x} needs a rate, and a ceil that is not below it", class.minor));
        }
        if class.quantum.0 == 0 || u32::try_from(class.quantum.0).is_err() {
            return invalid(format!("class {:x} needs a quantum of 1 byte to 4 GB", class.minor));
        }
    }
    if htb.rate.0 < 8 {
        return invalid("the link needs a rate".to_string());
    }
    if !htb.classes.iter().any(|class| class.minor == htb.default_class) {
        return invalid(format!("the default class {:x} is not among the classes", htb.default_class));
    }
    Ok(())
}

type ClassRefused = (Refusal, &'static str, String);

fn add_classes(netlink: &mut Netlink, link_index: u32, htb: &Htb) -> Result<(), ClassRefused> {
    let whole = HtbClass {
        minor: INNER,
        rate: htb.rate,
        ceil: htb.rate,
        quantum: Bytes(MIN_BURST.0),
        priority: 0,
        limit: Packets(0),
    };
    let inner = Place { link_index, parent: MAJOR, handle: class_id(INNER) };
    tc::add_class(netlink, inner, "htb", parameters(&whole, htb.overhead))
        .map_err(|e| (e, "htb", "the HTB class of the whole link".to_string()))?;
    for class in &htb.classes {
        let place = Place { link_index, parent: class_id(INNER), handle: class_id(class.minor) };
        tc::add_class(netlink, place, "htb", parameters(class, htb.overhead))
            .map_err(|e| (e, "htb", format!("HTB class 1:{:x}", class.minor)))?;
        let leaf = Place { link_index, parent: class_id(class.minor), handle: 0 };
        let limit = u32::try_from(class.limit.0).unwrap_or(u32::MAX).to_ne_bytes().to_vec();
        tc::add_qdisc(netlink, leaf, "pfifo", Some(limit))
            .map_err(|e| (e, "pfifo", format!("the FIFO of HTB class 1:{:x}", class.minor)))?;
    }
    Ok(())
}

/// `struct tc_htb_opt`, and the 64-bit rates.
fn parameters(class: &HtbClass, overhead: u16) -> Vec<u8> {
    let (rate, ceil) = (class.rate.0 / 8, class.ceil.0 / 8);
    let mut option = Vec::with_capacity(44);
    option.extend(rate_spec(rate, overhead));
    option.extend(rate_spec(ceil, overhead));
    let words = [ticks(class.rate), ticks(class.ceil), class.quantum.0 as u32, 0, class.priority];
    option.extend(words.into_iter().flat_map(u32::to_ne_bytes));
    Attributes::default()
        .with(TCA_HTB_PARMS, &option)
        .with(TCA_HTB_RATE64, &rate.to_ne_bytes())
        .with(TCA_HTB_CEIL64, &ceil.to_ne_bytes())
        .bytes()
}

/// `struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate in bytes per second.
fn rate_spec(bytes_per_sec: u64, overhead: u16) -> [u8; 12] {
    let mut spec = [0; 12];
    spec[1] = LINKLAYER_ETHERNET;
    spec[2..4].copy_from_slice(&overhead.to_ne_bytes());
    spec[8..].copy_from_slice(&u32::try_from(bytes_per_sec).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

/// The depth of a bucket: 1 ms of its rate, but at least one packet.
fn ticks(rate: BitsPerSec) -> u32 {
    let depth = rate.time_for(MIN_BURST).max(Nanos(1_000_000));
    u32::try_from(depth.0 / NANOS_PER_TICK).unwrap_or(u32::MAX)
}

fn refused(refusal: Refusal, kind: &'static str, action: String) -> HtbError {
    match refusal.is(rustix::io::Errno::NOENT) {
        true => HtbError::NoQdisc(kind),
        false => refusal.during(action).into(),
    }
}

fn parse(body: &[u8]) -> ClassStats {
    let QdiscCounters { bytes, packets, dropped, backlog, .. } = QdiscCounters::parse(body);
    ClassStats { minor: (u32_at(body, 8) & 0xffff) as u16, bytes, packets, dropped, backlog }
}
