//! Errors of plans.

use core::fmt;
use weft_units::Nanos;

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
        "class {class} is new and the port has no spare descriptor ring for it; {retired}or give the port more rings"
    )]
    NoSpareRing {
        /// The class.
        class: String,
        /// The rings that become spare.
        retired: RetiredRings,
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
    /// The policy has more lanes, over all ports that its limits name, than the tables have.
    #[error(
        "the policy has {given} lanes over all ports that it limits, and a NIC has numbers for {most}; limit fewer ports"
    )]
    TooManyLanes {
        /// The number of lanes, with infrastructure.
        given: usize,
        /// The numbers of the tables.
        most: usize,
    },
    /// An algorithm that needs packets before they are fetched.
    #[error(
        "the algorithm {algorithm} at {place} needs {what}, and the NIC knows only what doorbells tell before it fetches a packet; \
         use one without, such as stfq, drr, las, floors, edf, lstf or srpt"
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

impl PlanError {
    /// The error, with the rings that become spare.
    pub(super) fn with_retired(self, retired: RetiredRings) -> Self {
        match self {
            Self::NoSpareRing { class, .. } => Self::NoSpareRing { class, retired },
            other => other,
        }
    }
}

/// The rings of removed classes that are not spare yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetiredRings {
    /// Empty ones.
    pub empty: usize,
    /// The time until the first of them is spare.
    pub next: Nanos,
    /// Those that have packets, which another class sends.
    pub busy: usize,
}

impl fmt::Display for RetiredRings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { empty, next, busy } = self;
        if *empty > 0 {
            write!(f, "wait {next}, in which the first of {empty} rings of removed classes becomes free, ")?;
        }
        if *busy > 0 {
            write!(f, "wait until the packets in {busy} rings of removed classes have left, ")?;
        }
        Ok(())
    }
}
