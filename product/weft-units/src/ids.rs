//! Dense indices, each with its own type.

/// Declares an index type: a `u32` that can only index its own kind of object. The text precedes the number in debug output.
///
/// ```
/// weft_units::dense_id!(
///     /// A port of a switch.
///     PortId, "port "
/// );
/// assert_eq!(format!("{0} {0:?}", PortId::from_index(3)), "3 port 3");
/// ```
#[macro_export]
macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident, $shown:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a slice position.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of slice position `index`. Positions beyond `u32::MAX` saturate and match nothing.
            pub const fn from_index(index: usize) -> Self {
                if index > u32::MAX as usize { Self(u32::MAX) } else { Self(index as u32) }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!($shown, "{}"), self.0)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

dense_id!(
    /// A transmit queue of a NIC.
    TxQueueId, "queue"
);
dense_id!(
    /// A receive queue of a NIC, chosen by receive-side scaling and receive rules.
    RxQueueId, "queue"
);
dense_id!(
    /// A descriptor ring of the software NIC's port.
    RingId, "ring"
);
dense_id!(
    /// A flow of the engine: one FIFO of descriptors, or one descriptor ring of a port.
    FlowId, "flow"
);
dense_id!(
    /// A flow of a departure log, as an index into the log's list of five-tuples.
    LoggedFlowId, "flow"
);
dense_id!(
    /// An inner node of the policy tree.
    NodeId, "node"
);
dense_id!(
    /// A leaf of the policy tree, which queues packets of one or more classes.
    LeafId, "leaf"
);
dense_id!(
    /// A rate-limit class: one shaping node of the policy, shared by everything below it.
    LimitId, "limit"
);
dense_id!(
    /// A lane: the traffic of one class that passes the same rate limits. The shaping queue holds lanes.
    LaneId, "lane"
);
dense_id!(
    /// A traffic class, as named by the policy, in reports and by counters.
    ClassId, "class"
);
