//! The ranks that algorithms give a packet: as the first one of an idle child, which arrives at time 0.

use crate::compiled::CompiledPolicy;
use core::fmt;
use weft_rank::{Eligibility, Execute, Inputs, Metadata, Metadatum, Part, Scale};
use weft_sched::program::{Child, Custom, Discipline, HeadUse, LeafDiscipline};
use weft_units::{BitsPerSec, Bytes, Instant, LeafId, Nanos};

/// The length of a packet, and the claims of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claims {
    /// The length on the link.
    pub length: Bytes,
    /// The deadline of its departure, after its arrival.
    pub deadline: Option<Nanos>,
    /// The span that it may wait.
    pub slack: Option<Nanos>,
    /// The lateness of earlier hops.
    pub late: Option<Nanos>,
    /// The time before which it is not to be sent, after its arrival.
    pub txtime: Option<Nanos>,
    /// The bytes that its flow still has to send.
    pub left: Option<Bytes>,
    /// Its flow's pacing rate.
    pub pace: Option<BitsPerSec>,
}

impl Default for Claims {
    /// A full Ethernet frame without claims of its sender.
    fn default() -> Self {
        let length = Bytes(1514);
        Self { length, deadline: None, slack: None, late: None, txtime: None, left: None, pace: None }
    }
}

impl Claims {
    fn metadata(&self, priority: u32) -> Metadata {
        let nanos = |time: Option<Nanos>| time.map(Nanos::get);
        let known = [
            (Metadatum::Length, Some(self.length.get())),
            (Metadatum::Arrived, Some(0)),
            (Metadatum::Deadline, nanos(self.deadline)),
            (Metadatum::Slack, nanos(self.slack)),
            (Metadatum::Late, nanos(self.late)),
            (Metadatum::SendTime, nanos(self.txtime)),
            (Metadatum::Left, self.left.map(Bytes::get)),
            (Metadatum::Priority, Some(u64::from(priority))),
            (Metadatum::Pace, self.pace.map(|rate| Scale::time_per_byte(rate).word())),
        ];
        let known = known.into_iter().filter_map(|(of, value)| Some((of, value?)));
        known.fold(Metadata::UNKNOWN, |metadata, (of, value)| metadata.with(of, value))
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length != Self::default().length {
            write!(f, " length {}", self.length.get())?;
        }
        let times = [
            ("deadline", self.deadline),
            ("slack", self.slack),
            ("late", self.late),
            ("txtime", self.txtime),
        ];
        for (word, time) in times {
            time.iter().try_for_each(|time| write!(f, " {word} {}ns", time.get()))?;
        }
        self.left.iter().try_for_each(|left| write!(f, " left {}", left.get()))?;
        self.pace.iter().try_for_each(|pace| write!(f, " pace {}bps", pace.get()))
    }
}

/// A rank of the packet, or of the branch in which it is the first one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketRank {
    /// The node or leaf.
    pub node: String,
    /// The algorithm.
    pub algorithm: String,
    /// The components of the rank: times in nanoseconds after the arrival, virtual times in 1/4096 of a byte by weight 1.
    pub rank: Option<(u64, u64)>,
    /// The time or virtual time before which it is not picked.
    pub from: Option<Eligibility>,
    /// Whether the algorithm sees the packet; otherwise the rank is that of any packet.
    pub sees_packet: bool,
}

impl fmt::Display for PacketRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.algorithm)?;
        match self.rank {
            Some((first, 0)) => write!(f, " gives {first}")?,
            Some((first, second)) => write!(f, " gives {first}, {second}")?,
            None => {}
        }
        match self.from {
            Some(Eligibility::Time(time)) => write!(f, " from {} ns", time.as_nanos())?,
            Some(Eligibility::VirtualTime(time)) => write!(f, " from the virtual time {time}")?,
            None => {}
        }
        f.write_str(if self.sees_packet { "" } else { ", whatever the packet" })
    }
}

/// The ranks at the algorithms from `leaf` up to the root, the leaf's own first.
pub(super) fn ranks(
    policy: &CompiledPolicy,
    leaf: LeafId,
    claims: &Claims,
    priority: u32,
) -> Vec<PacketRank> {
    let metadata = claims.metadata(priority);
    let mut found = Vec::new();
    if let Some(spec) = policy.program.leaves.get(leaf.index())
        && let LeafDiscipline::Custom(custom) = &spec.discipline
    {
        found.push(rank(&spec.name, (custom, 0), metadata, true));
    }
    let mut child = Child::Leaf(leaf);
    while let Some((at, node)) =
        policy.program.nodes.iter().enumerate().find(|(_, node)| node.children.contains(&child))
    {
        let place = node.children.iter().position(|of| *of == child).unwrap_or_default();
        if let Discipline::Custom(custom) = &node.discipline {
            found.push(rank(&node.name, (custom, place), metadata, custom.head == HeadUse::Followed));
        }
        child = Child::Node(weft_units::NodeId::from_index(at));
    }
    found
}

/// The sum of the children's weights, if the algorithm has any.
fn weights(custom: &Custom) -> u64 {
    let named = || custom.algorithm.parameters.iter().position(|parameter| parameter.name == "weight");
    let Some(at) = custom.algorithm.aggregates.weights.map(usize::from).or_else(named) else { return 0 };
    custom.parameters.iter().filter_map(|of| of.get(at)).fold(0, |sum, weight| sum.saturating_add(*weight))
}

/// The rank of the first packet of the idle child `place` of an idle node.
fn rank(node: &str, (custom, place): (&Custom, usize), metadata: Metadata, sees_packet: bool) -> PacketRank {
    let algorithm = &custom.algorithm;
    let initial = |fields: &[weft_rank::Field]| fields.iter().map(|field| field.initial).collect::<Vec<_>>();
    let (mut of_node, mut of_child) = (initial(&algorithm.node), initial(&algorithm.child));
    let parameters = custom.parameters.get(place).map_or(&[][..], Vec::as_slice);
    let mut inputs = Inputs::at(Instant::ZERO);
    inputs.weights = weights(custom);
    if sees_packet {
        (inputs.head, inputs.packet) = (metadata, metadata);
    }
    let mut run = |part| Execute::run(&**algorithm, part, &inputs, parameters, &mut of_node, &mut of_child);
    run(Part::Active);
    run(Part::Arrives);
    let effects = run(Part::Rank);
    PacketRank {
        node: node.to_owned(),
        algorithm: algorithm.name.clone(),
        rank: effects.rank().map(|rank| (rank.first, rank.second)),
        from: effects.from(),
        sees_packet,
    }
}
