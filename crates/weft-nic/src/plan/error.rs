//! Errors of plans.

/// Errors of a policy that exceeds the port's rings.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy has more lanes than the port has rings.
    #[error(
        "the policy has {lanes} lanes (a class for each limit it passes, and infrastructure), and a port has {rings} \
         descriptor rings; \
         each lane needs one of its own: merge classes or destinations of a limit, or split the policy over two ports"
    )]
    Lanes {
        /// The number of lanes of the policy.
        lanes: usize,
        /// The number of rings of the port.
        rings: usize,
    },
    /// A class of a changed policy finds no ring.
    #[error(
        "class {class} is new and the port has no spare descriptor ring for it; wait a second, in which rings of removed \
         classes become free, or give the port more rings"
    )]
    NoSpareRing {
        /// The class.
        class: String,
    },
    /// The policy and what was removed lately need more numbers than the tables have.
    #[error(
        "the policy needs {given} numbers for its {what}, with those removed within the last second, and there are {most}; \
         wait a second, or merge classes"
    )]
    Numbers {
        /// The classes or the lanes.
        what: &'static str,
        /// The numbers needed.
        given: usize,
        /// The numbers of the tables.
        most: usize,
    },
    /// An algorithm that needs packets before they are fetched.
    #[error(
        "the algorithm {algorithm} at {place} needs {what}, and the NIC knows only what doorbells tell before it fetches a packet; \
         use one without, such as stfq, drr, las, floors, edf, lstf or srpt, or run the policy in `weft sim`"
    )]
    Algorithm {
        /// The node or leaf.
        place: String,
        /// The algorithm.
        algorithm: String,
        /// The unknown input.
        what: &'static str,
    },
    /// The plan is that of another port, which has other lanes.
    #[error("the rings are not planned for port {name}, whose lanes the policy limits by port")]
    OtherPort {
        /// The port.
        name: String,
    },
    /// The ports of a NIC have all its rings.
    #[error(
        "the port needs {rings} descriptor rings, and its NIC has {left} left; give it fewer with --rings, or remove a port"
    )]
    NicRings {
        /// The number of rings of the port.
        rings: usize,
        /// The number of rings that are left.
        left: usize,
    },
}
