//! The form of an answer. Times are in nanoseconds since the begin of the arrivals.

use schemars::JsonSchema;
use serde::Serialize;
use weft_facts::diagnostic::PolicyDiagnostic;

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PlaygroundAnswer {
    /// `weft-playground/1`.
    pub schema: &'static str,
    /// The diagnostics of the policy, as in `weft policy check`.
    pub diagnostics: Vec<PolicyDiagnostic>,
    /// The error in the text of the arrivals.
    pub arrivals_error: Option<Fault>,
    /// Another reason for which nothing was run.
    pub error: Option<String>,
    /// The drawing of the policy, as SVG.
    pub drawing: Option<String>,
    /// The price of the policy, as `weft policy cost` prints it.
    pub cost: Option<String>,
    /// The classes of the policy.
    pub classes: Vec<String>,
    /// The link's rate, in bits per second.
    pub link_bps: Option<u64>,
    /// The run, if there was one.
    pub run: Option<ShownOutcome>,
}

impl PlaygroundAnswer {
    /// The schema's name and version.
    pub const SCHEMA: &'static str = "weft-playground/1";

    /// An answer without content.
    pub(crate) const fn empty() -> Self {
        Self {
            schema: Self::SCHEMA,
            diagnostics: Vec::new(),
            arrivals_error: None,
            error: None,
            drawing: None,
            cost: None,
            classes: Vec::new(),
            link_bps: None,
            run: None,
        }
    }
}

/// An error in the text of the arrivals.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error.
    pub message: String,
    /// The remedy; may be empty.
    pub help: String,
}

/// The fate of the arrivals.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ShownOutcome {
    /// The packets, in the order of the text.
    pub packets: Vec<Packet>,
    /// The turns in which a packet left, in their order.
    pub turns: Vec<ShownTurn>,
    /// The departures in the order that a PIFO would have; `None` where ranks depend on more than the packet.
    pub pifo: Option<Vec<ShownDeparture>>,
    /// Whether the text states the departures or the drops that are expected.
    pub stated: bool,
    /// The first difference from what is expected.
    pub difference: Option<String>,
    /// Whether the run was ended by a bound before all packets had left.
    pub cut: bool,
}

/// A packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Packet {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its flow, if it states one.
    pub flow: Option<String>,
    /// Its length.
    pub bytes: u64,
    /// The time of its arrival.
    pub at_ns: u64,
    /// The time that it takes on the link.
    pub takes_ns: u64,
    /// `sent`, `dropped`, `refused` (its class was full), or `waiting` (the run was cut).
    #[schemars(extend("enum" = ["sent", "dropped", "refused", "waiting"]))]
    pub fate: &'static str,
    /// The time at which its transmission began.
    pub sent_ns: Option<u64>,
}

/// A turn: the heads that the engine chose from, and its choice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ShownTurn {
    /// Its time.
    pub at_ns: u64,
    /// The number of the packet that left, from 0.
    pub packet: usize,
    /// The next packets of the flows that waited; the one that left is the first.
    pub heads: Vec<Head>,
}

/// The next packet of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Head {
    /// Its number, from 0.
    pub packet: usize,
    /// Its place in each order, from the root to its class.
    pub orders: Vec<ShownPlace>,
    /// The time until which a limit delays it.
    pub limited_ns: Option<u64>,
}

/// A place in an order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ShownPlace {
    /// The node's name.
    pub node: String,
    /// The discipline or the algorithm.
    pub discipline: String,
    /// The rank with its unit, or the place.
    pub rank: String,
    /// Whether the algorithm holds it back.
    pub held: bool,
}

/// A departure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ShownDeparture {
    /// The number of the packet, from 0.
    pub packet: usize,
    /// The time at which its transmission begins.
    pub at_ns: u64,
}
