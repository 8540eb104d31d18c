//! Validation of a program, and its layout: the path from every leaf to the root.

use thiserror::Error;
use weft_rank::{AlgorithmError, Kind};
use weft_units::{LaneId, LeafId, LimitId, NodeId};

use crate::program::{Child, Custom, Program};

/// Errors in a program. Every message names the place in the program and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A child or the root refers to a node that is not in the program.
    #[error("node {given} is referred to, but the program has {count} nodes; refer to one of them")]
    UnknownNode {
        /// The id that was given.
        given: NodeId,
        /// The number of nodes.
        count: usize,
    },
    /// A child, the root or a lane refers to a leaf that is not in the program.
    #[error("leaf {given} is referred to, but the program has {count} leaves; refer to one of them")]
    UnknownLeaf {
        /// The id that was given.
        given: LeafId,
        /// The number of leaves.
        count: usize,
    },
    /// A lane refers to a limit that is not in the program.
    #[error("lane {lane} passes limit {given}, but the program has {count} limits; refer to one of them")]
    UnknownLimit {
        /// The lane.
        lane: LaneId,
        /// The id that was given.
        given: LimitId,
        /// The number of limits.
        count: usize,
    },
    /// A lane lists the same limit twice, which would charge its bytes twice.
    #[error("lane {lane} passes limit {limit} twice; list each limit once")]
    RepeatedLimit {
        /// The lane.
        lane: LaneId,
        /// The limit.
        limit: LimitId,
    },
    /// The rate of a limit is zero, which would hold its traffic for ever.
    #[error("limit {limit} (`{name}`) has rate zero and would never send; give a rate above zero")]
    ZeroRate {
        /// The limit.
        limit: LimitId,
        /// The name in the policy.
        name: String,
    },
    /// A node has no children.
    #[error("node {node} (`{name}`) has no children; give it at least one or leave it out")]
    NoChildren {
        /// The node.
        node: NodeId,
        /// The name in the policy.
        name: String,
    },
    /// The weights of a fair queueing node do not match its children.
    #[error(
        "node {node} (`{name}`) has {children} children but {weights} weights; give one weight per child"
    )]
    WeightCount {
        /// The node.
        node: NodeId,
        /// The name in the policy.
        name: String,
        /// The number of children.
        children: usize,
        /// The number of weights.
        weights: usize,
    },
    /// A user-defined algorithm is not one that can run.
    #[error("{child:?} (`{name}`): its algorithm cannot run: {why}")]
    Algorithm {
        /// The node or leaf.
        child: Child,
        /// The name in the policy.
        name: String,
        /// The reason.
        why: AlgorithmError,
    },
    /// A user-defined algorithm is of a kind that has no use at its place.
    #[error("{child:?} (`{name}`): {why}")]
    AlgorithmPlace {
        /// The node or leaf.
        child: Child,
        /// The name in the policy.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The parameters of a user-defined algorithm do not match its children.
    #[error(
        "{child:?} (`{name}`): its algorithm needs {lists} lists of {parameters} parameters; give one list per child of a \
         node, and one in a leaf"
    )]
    ParameterCount {
        /// The node or leaf.
        child: Child,
        /// The name in the policy.
        name: String,
        /// The lists that it needs.
        lists: usize,
        /// The parameters of each list.
        parameters: usize,
    },
    /// A node or leaf has two parents, or a node is below itself: not a tree (Loom, section 3).
    #[error("{child:?} has more than one parent; without its shaping nodes a policy must be a tree")]
    NotATree {
        /// The child that was reached twice.
        child: Child,
    },
    /// A node or leaf is not reachable from the root, so its traffic would never be sent.
    #[error("{child:?} cannot be reached from the root and would never send; attach it or leave it out")]
    Unreachable {
        /// The unreachable node or leaf.
        child: Child,
    },
}

/// The parent of a node or leaf, and the slot there. `None` for the root.
pub(crate) type Parent = Option<(u32, u32)>;

/// The shape of a checked program.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The parent of each node.
    pub(crate) node_parents: Vec<Parent>,
    /// The parent of each leaf.
    pub(crate) leaf_parents: Vec<Parent>,
    /// The nodes of the tree, every parent before its children.
    pub(crate) order: Vec<u32>,
}

/// Checks `program` and returns its shape.
pub(crate) fn check(program: &Program) -> Result<Layout, ProgramError> {
    check_nodes(program)?;
    check_customs(program)?;
    check_limits(program)?;
    check_lanes(program)?;
    let layout = check_shape(program)?;
    check_leaves(program, &layout)?;
    Ok(layout)
}

fn check_nodes(program: &Program) -> Result<(), ProgramError> {
    for (index, spec) in program.nodes.iter().enumerate().filter(|(_, spec)| !spec.is_vacant()) {
        let node = NodeId::from_index(index);
        let children = spec.children.len();
        if children == 0 {
            return Err(ProgramError::NoChildren { node, name: spec.name.clone() });
        }
        if let Some(weights) = spec.discipline.weights()
            && weights.len() != children
        {
            let (name, weights) = (spec.name.clone(), weights.len());
            return Err(ProgramError::WeightCount { node, name, children, weights });
        }
        if let Some(custom) = spec.discipline.custom() {
            let place = (Child::Node(node), spec.name.as_str());
            check_custom(place, custom, children)?;
            if custom.algorithm.kind == Kind::Dropper || custom.dropper.is_some() {
                return Err(misplaced(place, "a dropper has no packets at an inner node; give it to a leaf"));
            }
        }
    }
    Ok(())
}

/// Checks the algorithms of leaves.
fn check_customs(program: &Program) -> Result<(), ProgramError> {
    for (index, spec) in program.leaves.iter().enumerate() {
        let Some(custom) = spec.custom() else { continue };
        let place = (Child::Leaf(LeafId::from_index(index)), spec.name.as_str());
        check_custom(place, custom, 1)?;
        if let Some(dropper) = &custom.dropper {
            check_custom(place, dropper, 1)?;
            if dropper.algorithm.kind != Kind::Dropper || dropper.dropper.is_some() {
                return Err(misplaced(
                    place,
                    "its dropper is no algorithm that drops; give it one of that kind",
                ));
            }
        }
    }
    Ok(())
}

fn misplaced((child, name): (Child, &str), why: &'static str) -> ProgramError {
    ProgramError::AlgorithmPlace { child, name: name.to_owned(), why }
}

/// Checks an algorithm with its `lists` lists of parameters.
fn check_custom((child, name): (Child, &str), custom: &Custom, lists: usize) -> Result<(), ProgramError> {
    let refused = |why| ProgramError::Algorithm { child, name: name.to_owned(), why };
    custom.algorithm.validate().map_err(refused)?;
    let parameters = custom.algorithm.parameters.len();
    let fits =
        custom.parameters.len() == lists && custom.parameters.iter().all(|list| list.len() == parameters);
    if fits {
        Ok(())
    } else {
        Err(ProgramError::ParameterCount { child, name: name.to_owned(), lists, parameters })
    }
}

fn check_limits(program: &Program) -> Result<(), ProgramError> {
    match program.limits.iter().position(|limit| limit.rate.get() == 0) {
        Some(at) => Err(ProgramError::ZeroRate {
            limit: LimitId::from_index(at),
            name: program.limits[at].name.clone(),
        }),
        None => Ok(()),
    }
}

fn check_lanes(program: &Program) -> Result<(), ProgramError> {
    for (index, spec) in program.lanes.iter().enumerate().filter(|(_, spec)| !spec.is_vacant()) {
        let lane = LaneId::from_index(index);
        if spec.leaf.index() >= program.leaves.len() {
            return Err(ProgramError::UnknownLeaf { given: spec.leaf, count: program.leaves.len() });
        }
        for (at, &limit) in spec.limits.iter().enumerate() {
            if limit.index() >= program.limits.len() {
                return Err(ProgramError::UnknownLimit { lane, given: limit, count: program.limits.len() });
            }
            if spec.limits[..at].contains(&limit) {
                return Err(ProgramError::RepeatedLimit { lane, limit });
            }
        }
    }
    Ok(())
}

/// Walks the tree from the root with an explicit stack, so that a deep program cannot overflow the call stack.
fn check_shape(program: &Program) -> Result<Layout, ProgramError> {
    let mut nodes: Vec<Option<Parent>> = vec![None; program.nodes.len()];
    let mut leaves: Vec<Option<Parent>> = vec![None; program.leaves.len()];
    let mut open: Vec<(Child, Parent)> = vec![(program.root, None)];
    let mut order = Vec::with_capacity(program.nodes.len());
    while let Some((child, parent)) = open.pop() {
        let seen = match child {
            Child::Node(given) => nodes
                .get_mut(given.index())
                .ok_or(ProgramError::UnknownNode { given, count: program.nodes.len() })?,
            Child::Leaf(given) => leaves
                .get_mut(given.index())
                .ok_or(ProgramError::UnknownLeaf { given, count: program.leaves.len() })?,
        };
        if seen.replace(parent).is_some() {
            return Err(ProgramError::NotATree { child });
        }
        if let Child::Node(node) = child {
            order.push(node.0);
            let children = program.nodes[node.index()].children.iter().enumerate();
            open.extend(children.map(|(slot, &child)| (child, Some((node.0, slot as u32)))));
        }
    }
    let vacant_node = |at: usize| program.nodes[at].is_vacant();
    let vacant_leaf = |at: usize| program.leaves[at].is_vacant();
    Ok(Layout {
        node_parents: reached(nodes, vacant_node, |at| Child::Node(NodeId::from_index(at)))?,
        leaf_parents: reached(leaves, vacant_leaf, |at| Child::Leaf(LeafId::from_index(at)))?,
        order,
    })
}

fn reached(
    found: Vec<Option<Parent>>,
    vacant: impl Fn(usize) -> bool,
    child: impl Fn(usize) -> Child,
) -> Result<Vec<Parent>, ProgramError> {
    let check = |(at, parent): (usize, Option<Parent>)| match parent {
        None if vacant(at) => Ok(None),
        parent => parent.ok_or_else(|| ProgramError::Unreachable { child: child(at) }),
    };
    found.into_iter().enumerate().map(check).collect()
}

/// Checks that every lane enters a leaf of the tree.
fn check_leaves(program: &Program, layout: &Layout) -> Result<(), ProgramError> {
    let in_tree =
        |leaf: LeafId| program.root == Child::Leaf(leaf) || layout.leaf_parents[leaf.index()].is_some();
    match program.lanes.iter().find(|lane| !lane.is_vacant() && !in_tree(lane.leaf)) {
        Some(lane) => Err(ProgramError::Unreachable { child: Child::Leaf(lane.leaf) }),
        None => Ok(()),
    }
}
