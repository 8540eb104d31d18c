//! The counters of packets, declared here and nowhere else.
//!
//! A row of a table is a field of its documents, a property of their schemas, an attribute in Python, a metric and a part of the text
//! in tables. What counts the packets fills it in.

use crate::human;
use core::fmt;
use core::ops::AddAssign;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Packets;

/// A table of counters.
pub trait Counters: Copy + Default {
    /// The name of each counter in documents, and what it counts, which is the help of its metric.
    const ROWS: &'static [(&'static str, &'static str)];

    /// The values, in the order of the rows.
    fn values(&self) -> Vec<Packets>;

    /// The counters with their names.
    fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::ROWS.iter().map(|(name, _)| *name).zip(self.values().into_iter().map(Packets::get))
    }

    /// The sum of all counters.
    fn total(&self) -> u64 {
        self.values().into_iter().sum::<Packets>().get()
    }

    /// The counters above zero as text: `bound 3, ring_full 1`; `None` if all are zero.
    fn text(&self) -> Option<String> {
        human::named_counts(self.named())
    }
}

/// Declares a table: a struct with a field for each counter.
macro_rules! counters {
    ($(#[$doc:meta])* $table:ident { $(#[doc = $help:literal] $name:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub struct $table {
            $(#[doc = $help] pub $name: Packets,)*
        }

        impl Counters for $table {
            const ROWS: &'static [(&'static str, &'static str)] = &[$((stringify!($name), $help),)*];

            fn values(&self) -> Vec<Packets> {
                vec![$(self.$name,)*]
            }
        }

        impl $table {
            /// The counts since `base`; zero where it has more.
            #[must_use]
            pub fn since(self, base: Self) -> Self {
                Self { $($name: self.$name.saturating_sub(base.$name),)* }
            }
        }

        impl AddAssign for $table {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Packets of a class dropped, by reason.
    ClassDrops {
        /// The uplink refused them.
        refused,
        /// The class had reached its bound.
        bound,
        /// Their ring was full.
        ring_full,
        /// Their flow was changing its class, and its old ring still had packets.
        moving,
        /// The kernel's qdisc of the class was full, or they had waited in it for long.
        qdisc,
        /// A limit by destination or port would have held them for longer than its horizon.
        horizon,
    }
}

counters! {
    /// Packets of rare events of a class.
    ClassEvents {
        /// Packets that asked for a time too late for a ring that flows share, and were sent as if they asked for none.
        late_claims,
        /// Packets of flows beyond the flow bound, which share the rings of others.
        untracked,
    }
}

counters! {
    /// Packets of rare events at a port, or at all ports together.
    PortEvents {
        /// Segments of super-packets that were cut behind their doorbell, posted before the ring.
        cut_packets,
        /// Packets of infrastructure beyond its share, scheduled as any other.
        infrastructure_excess,
        /// Packets dropped because their class could not be determined.
        obscured_drops,
        /// Packets found in a ring without a doorbell.
        strays,
        /// Packets dropped because they bypassed the program at the egress, so that no doorbell announced them.
        unannounced_drops,
        /// Packets of sockets of which it is not known which process made them, while the policy tests that.
        unknown_makers,
    }
}

counters! {
    /// Packets dropped on the path, by reason.
    PathDrops {
        /// The uplink refused them: it is down, or does not support such packets. A full uplink is waited for.
        refused,
        /// Their ring was full.
        ring_full,
        /// A qdisc at the port dropped them: one that a user has installed, or the FIFOs of a TAP.
        qdisc,
        /// The receive backlog between the ends of the port was full.
        backlog,
        /// Their class had reached its bound.
        bound,
        /// Their flow was changing its class, and its old ring still had packets.
        moving,
        /// No doorbell announced them, or their class could not be determined.
        stray,
        /// The uplink's device dropped them after accepting them.
        uplink,
        /// Their doorbell was posted, they never arrived, and no counter of the kernel records them. The accounting does not balance.
        lost,
    }
}

impl fmt::Display for PathDrops {
    /// `12 dropped (ring_full 10, stray 2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dropped", self.total())?;
        self.text().map_or(Ok(()), |reasons| write!(f, " ({reasons})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_named_with_their_reasons() {
        assert_eq!(PathDrops::default().to_string(), "0 dropped");
        let drops = PathDrops { ring_full: Packets(10), stray: Packets(2), ..PathDrops::default() };
        assert_eq!((drops.total(), drops.to_string()), (12, "12 dropped (ring_full 10, stray 2)".to_owned()));
    }

    #[test]
    fn rows_values_and_fields_are_in_one_order() {
        let events = ClassEvents { late_claims: Packets(1), untracked: Packets(2) };
        assert_eq!(events.named().collect::<Vec<_>>(), [("late_claims", 1), ("untracked", 2)]);
        let mut sum = events;
        sum += events;
        assert_eq!(sum.since(events), events);
        assert_eq!(events.since(sum), ClassEvents::default());
    }
}
