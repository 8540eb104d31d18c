//! The errors of several workers with one policy, in virtual time, as lines of JSON: `workers [NUMBER...]`. `weft bench workers
//! --errors` has the same with a table and a plot, and takes longer to build.

use std::process::ExitCode;
use weft_sim::workers::errors::{WORKERS, errors, ways};

fn main() -> ExitCode {
    let given: Result<Vec<usize>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let numbers = match given {
        Ok(given) if given.is_empty() => WORKERS.to_vec(),
        Ok(given) if !given.contains(&0) => given,
        _ => {
            eprintln!("usage: workers [NUMBER...]");
            return ExitCode::FAILURE;
        }
    };
    for (name, way) in ways() {
        for &workers in &numbers {
            match errors(way, workers) {
                Ok(found) => println!(
                    "{{\"way\":\"{name}\",\"workers\":{workers},\"share_error\":{:.6},\"limit_above\":{:.6},\"limit_below\":{:.6},\"moving_above\":{:.6},\"moving_below\":{:.6},\"changes_above\":{:.6},\"changes_below\":{:.6},\"sent_bps\":{}}}",
                    found.share,
                    found.above,
                    found.below,
                    found.moving_above,
                    found.moving_below,
                    found.changes_above,
                    found.changes_below,
                    found.sent.get()
                ),
                Err(error) => {
                    eprintln!("workers: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
