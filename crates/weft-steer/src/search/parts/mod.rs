//! The parts of the planner's state. Each owns its fields, and none knows another one; [`super::assignment`] joins them.
//!
//! | part | what it owns |
//! |---|---|
//! | [`flow_table`] | the flows: their packets, load, class and preferred queue |
//! | [`entries`] | the steering entries (rules, entries of the indirection table, the default queue), and each flow's entry |
//! | [`capacity`] | rules that the NIC's filter tables still take |
//! | [`queue_loads`], [`group_loads`] | the layout, and the load of each queue by group |
//! | [`candidates`] | flows that the search may want to move: misplaced ones by urgency, others by load |
//! | [`rss_hash`] | the hash: which steering entry has a flow without rules |
//! | [`moves`] | events, and how many flows each has moved |
//!
//! [`table_order`] reads from a NIC's graph in which order packets meet the tables; [`header_index`] finds header matches that
//! have packets in common. [`ids`] has the numbers by which parts speak of flows and entries.

pub(super) mod candidates;
pub(super) mod capacity;
pub(super) mod entries;
pub(super) mod flow_table;
pub(super) mod group_loads;
pub(super) mod header_index;
pub(super) mod ids;
pub(super) mod moves;
pub(super) mod queue_loads;
pub(super) mod rss_hash;
pub(super) mod table_order;
