//! User-defined algorithms: programs of `weft-rank` that order the children of a node or the flows of a leaf.
//!
//! # References
//! A child that has something to send has one reference in its node. The program of `rank` gives it a rank, a pair of
//! numbers; the smallest leaves first, and equal ranks leave in the order in which the references went in. The programs of
//! the other parts keep state per node and child. They run at these events:
//!
//! | event | programs, in order | rank |
//! |---|---|---|
//! | a packet or doorbell reaches an idle child | `active`, `arrives` | anew |
//! | one reaches an active child | `arrives` | anew if it requests so, in its old place among equals |
//! | a turn begins | `begin` | |
//! | a turn ends, and the child has more to send | `sent` | anew |
//! | a turn ends, and it has not | `sent`, `idle` | |
//! | below a node that follows heads, the first packet of a child changes | | anew, in its old place |
//! | a packet is fetched | `fetched` of the algorithm, then of the leaf's dropper | |
//!
//! A child of an inner node is active while a flow below it is backlogged, also when all these flows are parked. It is
//! withheld while it has nothing to offer: it keeps its rank and its place, and no program runs when it returns. A child in
//! service is not ranked anew until its turn ends, and an abandoned turn ends without `sent`.
//!
//! Programs see the first packet of a child (`head`) in leaves, and in inner nodes only of [`HeadUse::Followed`]; the same
//! holds for arriving packets. In `begin`, `sent` and `idle` the head is the packet of the turn. The weight of a flow replaces the
//! parameter `weight` of a leaf's algorithm.
//!
//! # Eligibility
//! * `from` a time: the reference is in the shaping queue until then, and the child is passed over.
//! * `from` a virtual time: the reference is held in the node until the node's clock, a field of its state, has reached it.
//!   After each event but the beginning of a turn: if no child is eligible and some are held, the clock jumps to the first
//!   of these. A reference that became eligible stays so until it is ranked anew.
//! * `until` a time: from then on the reference has the other rank, in its old place among equals.
//!
//! Releases of lanes and of references take place in the order of their times, and of insertion among equal times; of one
//! reference, `from` precedes `until`.
//!
//! # Drops
//! A drop ends the turn with nothing sent, and the caller learns of the packet. A dropper may drop all packets: each call takes one, so
//! that its work is bounded, and the caller asks again.
//!
//! # Change
//! A node or leaf keeps its state while its algorithm stays; new parameters count from the next program that reads them. A
//! child that stays below keeps state and reference. Every other child with something to send begins anew: `active`, then
//! `rank`, in the order of the children, or in that of the flows that join a leaf.
//!
//! # Arithmetic
//! Words do not wrap but saturate. Fields that are read as virtual times are rebased, with the ranks that are made of them,
//! long before their end, as the built-in disciplines' are. The time that programs see is the latest that a caller passed.
//!
//! [`HeadUse::Followed`]: crate::program::HeadUse::Followed

pub(crate) mod children;
pub(crate) mod heaps;
pub(crate) mod leaf;
pub(crate) mod node;
pub(crate) mod scheduler;
pub(crate) mod timers;
