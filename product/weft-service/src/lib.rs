//! The daemon behind `weft daemon`: a data path that is controlled over a socket.
//!
//! | module | contents |
//! |---|---|
//! | [`config`] | the configuration: files, drop-ins, located errors |
//! | [`policy`] | a policy's text, its hash, and what it compiles to |
//! | [`tenants`] | the files of tenants that users attached, and the state of each tenant |
//! | [`data_path`] | the data path as the daemon uses it, and the session behind it |
//! | [`service`] | the state: policy, generation, ports with their owners; answers requests |
//! | [`access`] | who is at the other end of a socket, and what that user may do |
//! | [`delegation`] | the users to whom cgroups are delegated |
//! | [`daemon::gate`] | whether the daemon can run what its configuration says |
//! | [`holding`] | the store that keeps the ports while no daemon runs |
//! | [`sockets`] | the sockets: handed over by the service manager, or bound |
//! | [`server`] | the loop over sockets, signals and ticks |
//! | [`metrics`] | the counters as OpenMetrics text |
//! | [`steering`] | the receive steering of the host's NIC |
//! | [`wait_reasons`] | the reasons that packets wait |
//! | [`alarms`] | log lines when something goes wrong |
//! | [`notify`], [`log`] | the service manager and its journal |
//! | [`doctor`] | what this host has for the daemon |
//! | [`daemon`] | all of it, from the configuration to the end |
//!
//! These rules hold:
//!
//! - One thread serves everything but packets and the NIC's receive rules. Nothing that a client does or leaves undone stops it for others.
//! - A call changes what it says, or nothing. A refused policy leaves the one in force untouched.
//! - It needs no service manager, and works as process 1 of a container.
#![forbid(unsafe_code)]

pub mod access;
pub mod alarms;
pub mod config;
pub mod daemon;
pub mod data_path;
pub mod delegation;
pub mod doctor;
mod entitlement;
pub mod holding;
pub mod kernel;
pub mod log;
pub mod metrics;
pub mod notify;
pub mod policy;
pub mod server;
pub mod service;
pub mod sockets;
pub mod steering;
pub mod tenants;
pub mod wait_reasons;
