//! The commands of the laboratory as users run them, in one program: `weft NAME`, which runs `weft-lab NAME`.

/// The program of this crate.
const PROGRAM: &str = env!("CARGO_BIN_EXE_weft-lab");

#[path = "../../../../product/weft/tests/suite/common/mod.rs"]
#[allow(dead_code, reason = "it uses a part")]
mod common;
#[path = "../../../../product/weft-facts/tests/suite/schema.rs"]
mod schema;

mod attached;
mod bench;
mod campaign;
mod cost;
mod demo;
mod profile;
mod profile_hosts;
mod schemas;
mod simulation;
mod steer_verify;
mod traces;
mod tune;
mod usage;
