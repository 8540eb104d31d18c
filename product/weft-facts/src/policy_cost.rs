//! The document of `weft policy cost --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::PolicyDiagnostic;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft policy cost`: the price of a policy and of its algorithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCostReport {
    /// `weft-policy-cost/1`.
    pub schema: String,
    /// The host of the count.
    pub host: Host,
    /// The policy's file.
    pub file: String,
    /// The price; `None` if the policy has errors.
    pub cost: Option<PolicyPrice>,
    /// The price at each place of execution; none if the policy has errors.
    pub profiles: Vec<ProfilePrice>,
    /// The diagnostics of the policy and of the profiles, as in `weft policy check`.
    pub diagnostics: Vec<PolicyDiagnostic>,
}

/// The price of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPrice {
    /// The orders that a packet passes at most.
    pub depth: usize,
    /// The class with the longest path.
    pub deepest: String,
    /// The most operations of algorithms for a packet.
    pub operations: usize,
    /// The bytes of state of nodes and their children.
    pub state_bytes: usize,
    /// The most bytes of state of a flow.
    pub flow_bytes: usize,
    /// Whether a packet may be held, and is then inserted twice.
    pub held: bool,
    /// The rate limits.
    pub limits: usize,
    /// The orders.
    pub orders: Vec<OrderPrice>,
}

/// The price of one order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderPrice {
    /// The node's name.
    pub node: String,
    /// The algorithm, or the native discipline.
    pub algorithm: String,
    /// Whether the engine has it natively.
    pub native: bool,
    /// The number of children; `None` if it orders flows.
    pub children: Option<usize>,
    /// The number of orders above it, with itself.
    pub level: usize,
    /// The operations of each part that has some.
    pub parts: Vec<PartPrice>,
    /// The bytes of state of the node.
    pub node_bytes: usize,
    /// The bytes of state of each child or flow.
    pub child_bytes: usize,
    /// Its other work, in words.
    pub needs: String,
}

/// The operations of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartPrice {
    /// The part's word.
    pub part: String,
    /// The operations.
    pub operations: usize,
}

/// The price at a place of execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfilePrice {
    /// The profile's name.
    pub profile: String,
    /// The seconds of a packet; `None` where nothing was measured or published.
    pub packet_seconds: Option<f64>,
    /// The seconds that there are; `None` if any number is accepted.
    pub budget_seconds: Option<f64>,
    /// Whether the place can run the policy.
    pub fits: bool,
    /// The reasons why it cannot, one line each; empty if it can.
    pub over: Vec<String>,
}

impl Document for PolicyCostReport {
    const SCHEMA: &'static str = "weft-policy-cost/1";

    fn tables(&self) -> Vec<Table> {
        let columns = ["node", "algorithm", "parts", "state of the node", "state of a child"];
        let mut orders = Table::new("Orders").columns(columns.map(Column::left));
        for order in self.cost.iter().flat_map(|cost| &cost.orders) {
            let parts: Vec<String> =
                order.parts.iter().map(|part| format!("{} {}", part.part, part.operations)).collect();
            orders.row(
                [
                    order.node.clone(),
                    order.algorithm.clone(),
                    parts.join(", "),
                    order.node_bytes.to_string(),
                    order.child_bytes.to_string(),
                ]
                .map(Cell::plain),
            );
        }
        let columns = ["profile", "nanoseconds", "fits"].map(Column::left);
        let mut profiles = Table::new("Profiles").columns(columns);
        for profile in &self.profiles {
            let nanos = profile.packet_seconds.map_or_else(String::new, |of| format!("{:.1}", of * 1e9));
            let fits = if profile.fits { "yes".to_owned() } else { profile.over.join("; ") };
            profiles.row([profile.profile.clone(), nanos, fits].map(Cell::plain));
        }
        vec![orders, profiles]
    }
}
