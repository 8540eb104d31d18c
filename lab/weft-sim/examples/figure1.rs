//! Figure 1's policy in a closed loop, for counters of instructions: the engine, or its floor.
//!
//! `figure1 --flows=N --refill=same|shuffled --packets=N --of=engine|prototype` prints one line of JSON.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::process::ExitCode;
use weft_sim::engine_load::{ClosedLoop, PrototypeLoop, Refill, figure1_program};

const SEED: u64 = 1;

struct Options {
    flows: u32,
    packets: u64,
    refill: Refill,
    prototype: bool,
}

fn options() -> Option<Options> {
    let mut options =
        Options { flows: 10_000, packets: 4_000_000, refill: Refill::Shuffled, prototype: false };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=')? {
            ("--flows", value) => options.flows = value.parse().ok()?,
            ("--packets", value) => options.packets = value.parse().ok()?,
            ("--refill", "same") => options.refill = Refill::Same,
            ("--refill", "shuffled") => options.refill = Refill::Shuffled,
            ("--of", "engine") => options.prototype = false,
            ("--of", "prototype") => options.prototype = true,
            _ => return None,
        }
    }
    (options.flows > 0).then_some(options)
}

/// The packets of a second, after a quarter of them as a warm-up.
fn rate(packets: u64, mut run: impl FnMut(u64) -> u64) -> f64 {
    run(packets / 4);
    let begin = std::time::Instant::now();
    run(packets) as f64 / begin.elapsed().as_secs_f64()
}

fn main() -> ExitCode {
    let Some(Options { flows, packets, refill, prototype }) = options() else {
        eprintln!("figure1: see the head of lab/weft-sim/examples/figure1.rs for the options");
        return ExitCode::FAILURE;
    };
    let rate = if prototype {
        let mut floor = PrototypeLoop::new(flows, refill, SEED);
        rate(packets, |packets| floor.run(packets))
    } else {
        match ClosedLoop::new(&figure1_program(), flows, refill, SEED) {
            Ok(mut engine) => rate(packets, |packets| engine.run(packets)),
            Err(error) => {
                eprintln!("figure1: {error}");
                return ExitCode::FAILURE;
            }
        }
    };
    println!("{{\"pps\": {rate:.0}, \"ns\": {:.1}}}", 1e9 / rate);
    ExitCode::SUCCESS
}
