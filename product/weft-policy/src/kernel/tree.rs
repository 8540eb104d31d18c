//! The parts of a tree, with their handles and parameters.

use core::fmt;
use std::collections::HashMap;
use weft_units::{BitsPerSec, Bytes, LeafId, Nanos, NodeId, Packets};

/// The handle of a qdisc (minor 0) or a class, as tc writes it: `7e57:10`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    /// The qdisc.
    pub major: u16,
    /// The class in it.
    pub minor: u16,
}

/// The first minor or major number of a leaf.
const LEAVES: u16 = 0x10;
/// The first minor number of an inner node.
const NODES: u16 = 0x8000;

impl Handle {
    /// The root. Its major number is rare, since any qdisc reads `skb->priority` of another one whose major number it shares, and so
    /// does the qdisc of a device below this one.
    pub const ROOT: Self = Self { major: 0x7e57, minor: 0 };
    /// The HTB class of the link.
    pub const LINK: Self = Self { minor: 1, ..Self::ROOT };
    /// The HTB class of infrastructure.
    pub const INFRASTRUCTURE: Self = Self { minor: 2, ..Self::ROOT };
    /// The most leaves: the major numbers of their qdiscs lie below the root's.
    pub(super) const LEAVES_MAX: usize = (Self::ROOT.major - LEAVES) as usize;
    /// The most inner nodes: the major numbers of their qdiscs lie above the root's, and 0xffff is the kernel's.
    pub(super) const NODES_MAX: usize = (NODES - 1) as usize - 1;

    /// The qdisc that a class belongs to.
    #[must_use]
    pub const fn qdisc(self) -> Self {
        Self { minor: 0, ..self }
    }

    /// Whether it is a qdisc.
    pub const fn is_qdisc(self) -> bool {
        self.minor == 0
    }

    /// The value in `skb->priority` and in netlink messages.
    pub const fn value(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }

    /// The class of `leaf` in this qdisc.
    pub(super) const fn leaf(self, leaf: LeafId) -> Self {
        Self { minor: LEAVES + leaf.0 as u16, ..self }
    }

    /// The class of an inner node in this qdisc.
    pub(super) const fn node(self, node: NodeId) -> Self {
        Self { minor: NODES + node.0 as u16, ..self }
    }

    /// The qdisc of an inner node.
    pub(super) const fn qdisc_of(node: NodeId) -> Self {
        Self { major: Self::ROOT.major + 1 + node.0 as u16, minor: 0 }
    }

    /// The qdisc of a leaf.
    pub(super) const fn queue_of(leaf: LeafId) -> Self {
        Self { major: LEAVES + leaf.0 as u16, minor: 0 }
    }

    /// The qdisc of infrastructure.
    pub(super) const fn infrastructure_queue() -> Self {
        Self { major: Self::INFRASTRUCTURE.minor, minor: 0 }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_qdisc() {
            write!(f, "{:x}:", self.major)
        } else {
            write!(f, "{:x}:{:x}", self.major, self.minor)
        }
    }
}

/// The place of a qdisc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parent {
    /// The device's egress.
    Root,
    /// A class, or a band of a prio qdisc.
    Class(Handle),
}

/// A qdisc.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// Its handle.
    pub handle: Handle,
    /// Its place.
    pub parent: Parent,
    /// The part of the policy that it enforces, for people.
    pub title: String,
    /// Its kind and parameters.
    pub kind: QdiscKind,
}

impl Qdisc {
    /// The class or band that it is in; the root's own handle for the root.
    pub const fn at(&self) -> Handle {
        match self.parent {
            Parent::Root => self.handle,
            Parent::Class(class) => class,
        }
    }
}

/// The kind of a qdisc, with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QdiscKind {
    /// Hierarchical token bucket.
    Htb {
        /// The class of packets that no class takes. HTB cannot change it later.
        default: Handle,
    },
    /// Deficit round robin. It drops packets that no class takes.
    Drr,
    /// Strict priority over bands, which count from 1. The band is the minor number of `skb->priority`.
    Prio {
        /// The number of bands, from 2 to 16.
        bands: u8,
        /// The band of packets that no class takes, from 1.
        unclassified: u8,
    },
    /// Flows that share fairly, each with CoDel.
    FqCodel {
        /// The most packets that wait.
        limit: Packets,
        /// The waiting time beyond which CoDel begins to drop.
        target: Nanos,
    },
    /// First in, first out.
    Pfifo {
        /// The most packets that wait.
        limit: Packets,
    },
    /// Packets that wait for the time that the classifying program gave them.
    Fq {
        /// The most packets that wait.
        limit: Packets,
        /// The most packets of one flow that wait.
        flow_limit: Packets,
    },
}

impl QdiscKind {
    /// The word of tc and of netlink for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Htb { .. } => "htb",
            Self::Drr => "drr",
            Self::Prio { .. } => "prio",
            Self::FqCodel { .. } => "fq_codel",
            Self::Pfifo { .. } => "pfifo",
            Self::Fq { .. } => "fq",
        }
    }

    /// Whether packets wait in it.
    pub const fn is_leaf(&self) -> bool {
        matches!(self, Self::FqCodel { .. } | Self::Pfifo { .. } | Self::Fq { .. })
    }
}

/// A class. Bands of prio qdiscs are none: they come with their qdisc.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    /// Its handle.
    pub handle: Handle,
    /// Its parent: a class of HTB, or the qdisc.
    pub parent: Handle,
    /// The part of the policy that it enforces, for people.
    pub title: String,
    /// Its kind and parameters.
    pub kind: ClassKind,
}

/// The kind of a class, with its parameters. A change of a class must give all of them: the kernel puts back those that it omits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClassKind {
    /// A class of HTB.
    Htb(HtbClass),
    /// A class of drr.
    Drr {
        /// The bytes of a turn.
        quantum: Bytes,
    },
}

/// The parameters of an HTB class. Each packet counts [`OVERHEAD`](super::OVERHEAD) bytes more than its frame has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HtbClass {
    /// The rate that it has whatever others send.
    pub rate: BitsPerSec,
    /// The most that it gets.
    pub ceil: BitsPerSec,
    /// The bytes that may leave at once within the rate.
    pub burst: Bytes,
    /// The bytes that may leave at once within the ceiling.
    pub cburst: Bytes,
    /// The order in which spare rate is offered, from 0 to 7. It counts at leaves only.
    pub prio: u8,
    /// The bytes of a turn among leaves of the same order.
    pub quantum: Bytes,
}

/// A part of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelPart {
    /// A qdisc.
    Qdisc(Qdisc),
    /// A class.
    Class(Class),
}

impl KernelPart {
    /// Its handle, which no other part of the tree has.
    pub const fn handle(&self) -> Handle {
        match self {
            Self::Qdisc(qdisc) => qdisc.handle,
            Self::Class(class) => class.handle,
        }
    }

    /// The part of the policy that it enforces.
    pub fn title(&self) -> &str {
        match self {
            Self::Qdisc(qdisc) => &qdisc.title,
            Self::Class(class) => &class.title,
        }
    }
}

/// The qdiscs and classes of a policy at a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelTree {
    /// The parts, in the order in which they must be made. They are removed in the opposite order.
    pub parts: Vec<KernelPart>,
    /// The leaf of packets that no class takes: a class, or a band of a prio qdisc.
    pub default: Handle,
}

impl KernelTree {
    /// The qdiscs, in the order in which they are made.
    pub fn qdiscs(&self) -> impl Iterator<Item = &Qdisc> {
        self.parts
            .iter()
            .filter_map(|part| if let KernelPart::Qdisc(qdisc) = part { Some(qdisc) } else { None })
    }

    /// The classes, in the order in which they are made.
    pub fn classes(&self) -> impl Iterator<Item = &Class> {
        self.parts
            .iter()
            .filter_map(|part| if let KernelPart::Class(class) = part { Some(class) } else { None })
    }

    /// The qdisc of this handle.
    pub fn qdisc(&self, handle: Handle) -> Option<&Qdisc> {
        self.qdiscs().find(|qdisc| qdisc.handle == handle)
    }

    /// The class of this handle.
    pub fn class(&self, handle: Handle) -> Option<&Class> {
        self.classes().find(|class| class.handle == handle)
    }

    /// The qdisc in which packets at this leaf wait.
    pub fn queue(&self, leaf: Handle) -> Option<&Qdisc> {
        self.qdiscs().find(|qdisc| qdisc.parent == Parent::Class(leaf))
    }

    /// A function that returns for a leaf the qdiscs from the root to its own, each with the class on the way.
    pub fn ways(&self) -> impl Fn(Handle) -> Vec<(Handle, Handle)> + use<> {
        let parents = parents(&self.parts);
        move |leaf| up(&parents, leaf).into_iter().rev().collect()
    }
}

/// The qdiscs from a leaf's own up to the root, each with the class on the way.
pub(super) fn up(parents: &HashMap<Handle, Parent>, leaf: Handle) -> Vec<(Handle, Handle)> {
    let mut way = vec![(leaf.qdisc(), leaf)];
    let mut at = leaf;
    while let Some(Parent::Class(class)) = parents.get(&at.qdisc()) {
        at = *class;
        way.push((at.qdisc(), at));
    }
    way
}

pub(super) fn parents(parts: &[KernelPart]) -> HashMap<Handle, Parent> {
    let qdiscs =
        parts.iter().filter_map(|part| if let KernelPart::Qdisc(qdisc) = part { Some(qdisc) } else { None });
    qdiscs.map(|qdisc| (qdisc.handle, qdisc.parent)).collect()
}
