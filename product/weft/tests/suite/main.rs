//! The crate's tests of its public interface, in one program.

/// The program of this crate.
const PROGRAM: &str = env!("CARGO_BIN_EXE_weft");

mod apply;
mod bad_input;
mod books;
mod common;
mod daemon;
mod daemon_metrics;
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
mod replay;
mod run;
mod run_port;
mod run_rate;
mod run_receive;
mod run_uplink;
#[path = "../../../weft-facts/tests/suite/schema.rs"]
mod schema;
mod steer;
mod tenants;
mod titan;
mod uplink_events;
mod uplinks;
mod usage;
mod watchdog;
