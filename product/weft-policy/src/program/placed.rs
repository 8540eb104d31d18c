//! The engine's form of an algorithm at its place.
//!
//! | text | form |
//! |---|---|
//! | `edf { a: 2ms, b: 9ms }` | a node with the algorithm, and a list of parameters for each child |
//! | `las of a` | a leaf whose flows the algorithm orders |
//! | `bucket rate 1gbps of x`, a shaper that holds everything below | a node with one child |
//! | `paced of a`, `edt of a`, a shaper that holds each flow by itself | a leaf whose flows keep the order of arrival |
//! | `codel of a`, `codel of fair of a`, `codel of las of a` | the leaf below, with the dropper: FIFO and `fair` by their texts |

use crate::algorithm::uses::Use;
use crate::algorithm::{CheckedAlgorithm, Place, algorithms, shipped_algorithm};
use crate::validate::graph::{Graph, Kind as NodeKind};
use std::sync::{Arc, OnceLock};
use weft_rank::Kind;
use weft_sched::program::{Custom, HeadUse};

/// First in, first out over the flows of a leaf, for a leaf with a dropper.
const FIFO: &str = "algorithm in-order { rank = head.arrived }";
/// Its name.
pub(crate) const IN_ORDER: &str = "in-order";

/// An algorithm as a part of the engine's tree.
pub(crate) enum Placed {
    /// It is the discipline of a node.
    Node(Arc<Custom>),
    /// It is the discipline of a leaf over the classes below.
    Leaf(Arc<Custom>),
}

/// The form of `used` at graph node `at`; `None` if the algorithm has an error.
pub(crate) fn placed(graph: &Graph, at: usize, used: &Use, uses: &[Use]) -> Option<Placed> {
    let algorithm = used.algorithm.as_ref()?;
    let custom = custom(algorithm, used.parameters.clone());
    Some(match (used.place, algorithm.kind) {
        (Place::Children, _) => Placed::Node(Arc::new(custom)),
        (Place::Flows, Kind::Shaper) if !algorithm.holds_flows() => Placed::Node(Arc::new(custom)),
        (Place::Flows, Kind::Dropper) => {
            let below = below(graph, at, uses)?;
            Placed::Leaf(Arc::new(Custom { dropper: Some(Arc::new(custom)), ..below }))
        }
        (Place::Flows, _) => Placed::Leaf(Arc::new(custom)),
    })
}

fn custom(algorithm: &CheckedAlgorithm, parameters: Vec<Vec<u64>>) -> Custom {
    let head = if algorithm.follows_head { HeadUse::Followed } else { HeadUse::Hidden };
    Custom { head, ..Custom::new(Arc::new(algorithm.program.clone()), parameters) }
}

/// The order of the leaf below a dropper.
fn below(graph: &Graph, dropper: usize, uses: &[Use]) -> Option<Custom> {
    let child = graph.nodes[dropper].children.first()?.to;
    match graph.nodes[child].kind {
        NodeKind::Fair => Some(custom(&*shipped_algorithm("stfq")?, vec![vec![1]])),
        NodeKind::Algorithm(number) => {
            let used = uses.get(number)?;
            Some(custom(used.algorithm.as_ref()?, used.parameters.clone()))
        }
        _ => Some(custom(&*fifo()?, vec![Vec::new()])),
    }
}

fn fifo() -> Option<Arc<CheckedAlgorithm>> {
    static CHECKED: OnceLock<Option<Arc<CheckedAlgorithm>>> = OnceLock::new();
    CHECKED.get_or_init(|| algorithms(FIFO).pop()).clone()
}
