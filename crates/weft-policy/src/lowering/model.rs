//! What a policy says, with the places where it says it.

use weft_packet::{Match, Prefix, ethernet};
use weft_text::Span;
#[cfg(test)]
use weft_units::PacketMeta;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets, Weight};

/// Something and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// A whole policy.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) link: Option<Spanned<BitsPerSec>>,
    /// How many packets of a class may wait, where the class has no bound of its own.
    pub(crate) bound: Option<Spanned<Packets>>,
    pub(crate) class_bounds: Vec<(Spanned<String>, Packets)>,
    pub(crate) classes: Vec<ClassDefinition>,
    pub(crate) nodes: Vec<NodeDefinition>,
    /// The cgroups that conditions name; a row's cgroup number indexes them.
    pub(crate) cgroups: Vec<String>,
}

/// `class NAME = condition`
#[derive(Debug)]
pub(crate) struct ClassDefinition {
    pub(crate) name: Spanned<String>,
    /// `None` when it could not be read.
    pub(crate) condition: Option<Condition>,
}

/// `NAME = expression`
#[derive(Debug)]
pub(crate) struct NodeDefinition {
    pub(crate) name: Spanned<String>,
    pub(crate) expression: Spanned<Expression>,
}

/// Which packets a class takes.
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
    /// Whether `packet` is meant: the plain meaning, against which the compiled rows are tested.
    pub(crate) fn matches(&self, packet: &PacketMeta) -> bool {
        match self {
            Self::Row(row) => row.matches(packet),
            Self::And(all) => all.iter().all(|part| part.matches(packet)),
            Self::Or(any) => any.iter().any(|part| part.matches(packet)),
            Self::Not(inner) => !inner.matches(packet),
        }
    }
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Expression {
    Name(String),
    Priority(Vec<Child>),
    Wfq(Vec<Child>),
    Fifo(Vec<Child>),
    Fair(Box<Spanned<Expression>>),
    Limit(Vec<Branch>, Box<Spanned<Expression>>),
    /// It could not be read.
    Broken,
}

/// A child of an inner node.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) expression: Spanned<Expression>,
    /// Its weight; always there under `wfq`, never elsewhere.
    pub(crate) weight: Option<Weight>,
}

/// A rate limit for one destination, or for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Branch {
    /// Where it holds; `None` for every packet.
    pub(crate) to: Option<Prefix>,
    pub(crate) rate: BitsPerSec,
    /// `None` where the policy states none: then [`default_burst`] holds.
    pub(crate) burst: Option<Bytes>,
    pub(crate) span: Span,
    /// Whether it stands in `limit by destination`, so that the limit's name tells its destination.
    pub(crate) by_destination: bool,
}

/// What a limit may send back to back after a pause when the policy does not say: what its rate carries in two
/// milliseconds, and two full frames. A packet that waits for the link behind others' packets leaves late; without a
/// burst that lateness would be lost, and the limit undershot on a busy link. Two milliseconds are 0.2 % of a second, so a
/// window of one second is kept within that.
pub(crate) fn default_burst(rate: BitsPerSec) -> Bytes {
    const SPAN: Nanos = Nanos::from_millis(2);
    const FRAME: Bytes = ethernet::wire_of(ethernet::frame_of(ethernet::MTU));
    rate.bytes_in(SPAN) + FRAME + FRAME
}
