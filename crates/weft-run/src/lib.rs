//! What moves a user's packets and steers a user's NIC: the session behind `weft run`, and receive steering at a device.
//!
//! | module | what it holds |
//! |---|---|
//! | [`session`] | a port with a policy or with plain queues, on the user's own uplink |
//! | [`cgroups`] | cgroup classes follow services that stop and start |
//! | [`steering`] | plans from a user's input, brought to a device, imported from it, and watched |
//! | [`accounting`] | whether what came is what went, by stage |
//! | [`host_facts`] | the machine that a report was made on |

pub mod accounting;
pub mod cgroups;
pub mod host_facts;
pub mod session;
pub mod steering;
