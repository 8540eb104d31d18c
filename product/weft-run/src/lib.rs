//! The operation of weftline on a host: the session behind `weft run`, and receive steering at a device.
//!
//! | module | contents |
//! |---|---|
//! | [`session`] | a port with a policy or with plain queues, on the user's own uplink |
//! | [`kernel`] | a policy in the kernel, on a device that exists: qdiscs and a classifying program |
//! | [`cgroups`] | the cgroups of a policy, kept up to date as services stop and start |
//! | [`steering`] | plans from a user's input; their application to a device, import from it, and live updates |
//! | [`departures`] | departures of a session, as a table and as a trace |
//! | [`place`] | whether a place can run a policy: a port, the daemon, the simulator, a replay, tc |
//! | [`tenant_files`] | the files of tenants, beside the policies that name them |
//! | [`accounting`] | the balance of packets and bytes, by stage |
//! | [`host_facts`] | the machine on which a report was made |

pub mod accounting;
pub mod cgroups;
pub mod departures;
pub mod host_facts;
pub mod kernel;
pub mod place;
pub mod session;
pub mod steering;
pub mod tenant_files;
