//! The model of a policy: its statements with their places in the text.

use crate::algorithm::uses::Use;
use crate::disciplines::Native;
use crate::files::Quota;
use crate::region::Region;
pub(crate) use crate::spanned::Spanned;
use std::collections::{BTreeMap, BTreeSet};
use weft_packet::{Match, ethernet};
use weft_steer::policy::Measure;
use weft_text::Span;
use weft_units::RxQueueId;

/// A goal, with its factor in the sum.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) factor: f64,
    pub(crate) aim: Aim,
    pub(crate) span: Span,
}

/// The kinds of goals.
#[derive(Debug)]
pub(crate) enum Aim {
    Balance(Measure),
    Isolate {
        class: Spanned<String>,
        queues: u32,
    },
    Priority {
        class: Spanned<String>,
        flows: u32,
    },
    /// Classes with their first and last queues.
    Static(Vec<(Spanned<String>, RxQueueId, RxQueueId)>),
    /// The queues of processors.
    Locality(BTreeMap<u32, RxQueueId>),
    Formula(Spanned<weft_steer::policy::Expression>),
}

#[cfg(test)]
use weft_units::PacketMeta;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets, Weight};

/// A whole policy.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) link: Option<Spanned<BitsPerSec>>,
    /// `link auto`
    pub(crate) link_is_auto: bool,
    pub(crate) class_latencies: Vec<(Spanned<String>, Nanos)>,
    /// The most packets of a class that may wait, for classes without a stated bound.
    pub(crate) bound: Option<Spanned<Packets>>,
    pub(crate) class_bounds: Vec<(Spanned<String>, Packets)>,
    pub(crate) classes: Vec<ClassDefinition>,
    pub(crate) nodes: Vec<NodeDefinition>,
    /// Words of the parts that could not be parsed. They may be definitions, so that uses of these names are not unknown.
    pub(crate) unread: BTreeSet<String>,
    /// Whether a definition has no name that could be read: any unknown name may be its.
    pub(crate) nameless: bool,
    /// The cgroups in conditions; a row's cgroup number indexes them.
    pub(crate) cgroups: Vec<String>,
    /// The ports in conditions; a row's port number minus one indexes them.
    pub(crate) ports: Vec<String>,
    /// The algorithms at nodes and leaves.
    pub(crate) uses: Vec<Use>,
    /// The tenants. Until its file is put in its place, a tenant is a node over one separate class.
    pub(crate) tenants: Vec<TenantDefinition>,
    /// The goals of steering, which are added up.
    pub(crate) goals: Vec<Goal>,
}

/// The most ports of the NIC that the rules and limits of a policy may name.
pub(crate) const PORTS_MAX: usize = 1024;

/// The number, from 1, of the port `name` in `ports`, to which it is added if it is new; `None` if there is no room.
pub(crate) fn port_number(ports: &mut Vec<String>, name: &str) -> Option<u16> {
    let known = ports.iter().position(|known| known == name);
    if known.is_none() && ports.len() < PORTS_MAX {
        ports.push(name.to_owned());
    }
    let index = known.unwrap_or(ports.len().wrapping_sub(1));
    ports.get(index).filter(|found| *found == name).and_then(|_| u16::try_from(index + 1).ok())
}

/// `class NAME = condition`
#[derive(Debug)]
pub(crate) struct ClassDefinition {
    pub(crate) name: Spanned<String>,
    /// `None` if it could not be parsed.
    pub(crate) condition: Option<Condition>,
    /// The first of its tests that received packets cannot pass, in words.
    pub(crate) of_sender: Option<Spanned<&'static str>>,
    pub(crate) role: ClassRole,
}

/// Whether the text describes a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClassRole {
    Described,
    /// The packets of a tenant that its file does not classify.
    Rest,
}

/// `NAME = expression`
#[derive(Debug)]
pub(crate) struct NodeDefinition {
    pub(crate) name: Spanned<String>,
    pub(crate) expression: Spanned<Expression>,
}

/// `NAME = tenant "FILE" of condition { quotas }`
#[derive(Debug)]
pub(crate) struct TenantDefinition {
    pub(crate) name: Spanned<String>,
    /// The path of its file, as written.
    pub(crate) file: Spanned<String>,
    pub(crate) quotas: Quotas,
    /// The place of `trust`, if the claims of its packets count above it.
    pub(crate) trust: Option<Span>,
}

/// The bounds of a tenant's file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) counts: BTreeMap<Quota, Spanned<u32>>,
    /// The time of a packet in the software NIC.
    pub(crate) cost: Option<Spanned<Nanos>>,
}

/// The name of `name`, a name of the file of the tenant `tenant`, outside that file.
pub(crate) fn name_below(tenant: &str, name: &str) -> String {
    format!("{tenant}.{name}")
}

/// The packets that a class takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// One test, as a row.
    Row(Match),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
}

#[cfg(test)]
impl Condition {
    /// Whether `packet` matches, evaluated directly. The compiled rows are tested against it.
    pub(crate) fn matches(&self, packet: &PacketMeta) -> bool {
        match self {
            Self::Row(row) => row.matches(packet),
            Self::And(all) => all.iter().all(|part| part.matches(packet)),
            Self::Or(any) => any.iter().any(|part| part.matches(packet)),
            Self::Not(inner) => !inner.matches(packet),
        }
    }
}

/// The definition of a node.
#[derive(Debug)]
pub(crate) enum Expression {
    Name(String),
    Native(Native, Vec<Child>),
    Fair(Box<Spanned<Expression>>),
    Limit(Vec<Branch>, Box<Spanned<Expression>>),
    /// The use of this number in [`Policy::uses`], with its children; one, for an algorithm over flows.
    Algorithm(usize, Vec<Child>),
    /// An expression that could not be parsed.
    Broken,
}

/// A child of an inner node.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) expression: Spanned<Expression>,
    /// Its weight; set where children are weighted, and only there.
    pub(crate) weight: Option<Weight>,
}

/// A rate limit for one destination, one port or for all packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Branch {
    /// The packets that it limits.
    pub(crate) of: Region,
    pub(crate) rate: BitsPerSec,
    /// `None` if the policy states none; [`default_burst`] then holds.
    pub(crate) burst: Option<Bytes>,
    pub(crate) span: Span,
    /// The destination or the port in its name, if it is part of `limit by`.
    pub(crate) label: Option<String>,
}

/// The burst of a limit that states none: two milliseconds at its rate, plus two full frames. A packet that waits for
/// the link behind other packets leaves late. Without a burst that time would be lost, and a limit on a busy link would stay
/// below its rate. Two milliseconds are 0.2 % of a second, so the rate over one second is exact to within that.
pub fn default_burst(rate: BitsPerSec) -> Bytes {
    const SPAN: Nanos = Nanos::from_millis(2);
    const FRAME: Bytes = ethernet::wire_of(ethernet::frame_of(ethernet::MTU));
    rate.bytes_in(SPAN) + FRAME + FRAME
}
