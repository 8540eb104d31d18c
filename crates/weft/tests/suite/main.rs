//! The crate's tests of its public interface, in one program.

mod bad_input;
mod bench;
mod books;
mod campaign;
mod common;
mod cost;
mod daemon;
mod daemon_metrics;
mod demo;
mod editors;
mod gate;
mod hold;
mod hold_manager;
mod hold_moments;
mod operating;
#[path = "../../../weft-run/tests/suite/common/policies.rs"]
mod policies;
mod policy_tools;
mod port_events;
mod profile;
mod profile_hosts;
mod replay;
mod run;
mod run_port;
mod run_rate;
mod run_receive;
mod run_uplink;
#[path = "../../../weft-report/tests/suite/schema.rs"]
mod schema;
mod schemas;
mod simulation;
mod steer;
mod tenants;
mod titan;
mod traces;
mod tune;
mod uplink_events;
mod uplinks;
mod usage;
mod watchdog;
