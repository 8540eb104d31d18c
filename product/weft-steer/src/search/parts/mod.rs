//! The parts of the planner's state. Each owns its fields and reads no other part; [`super::assignment`] joins them.
//!
//! | part | contents |
//! |---|---|
//! | [`flow_table`] | the flows: their packets, load, class and preferred queue |
//! | [`entries`] | the steering entries (rules, entries of the indirection table, the default queue), and each flow's entry |
//! | [`capacity`] | the rules that the NIC's filter tables can still take |
//! | [`queue_loads`], [`group_loads`] | the layout, and the load of each queue by group |
//! | [`candidates`] | flows that may be moved: misplaced ones by urgency, others by load |
//! | [`rss_hash`] | the hash: the steering entry of a flow without rules |
//! | [`moves`] | events, and the number of flows that each has moved |
//!
//! [`table_order`] derives from a NIC's graph the order in which packets meet the tables. [`header_index`] finds header matches
//! that share packets. [`ids`] has the identifiers of flows and entries.

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
