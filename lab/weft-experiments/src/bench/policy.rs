//! The engine's speed in memory with a user-defined policy.

use super::engine::{SEED, speed};
use std::time::Duration;
use thiserror::Error;
use weft_facts::stats;
use weft_policy::CompiledPolicy;
use weft_report::bench::BenchCase;
use weft_report::rounds::Rounds;
use weft_sched::Program;
use weft_sched::workload::{BETWEEN_FRAMES, LinkLoop, WorkloadError};
use weft_units::{BitsPerSec, Bytes};

/// The lengths of packets that are measured: the least and the largest frame of an Ethernet, and the middle one of the usual mix (IMIX).
pub const LENGTHS: [Bytes; 3] = [Bytes(64), Bytes(594), Bytes(1518)];
/// The number of flows, unless the policy has more lanes.
pub const FLOWS: u32 = 10_000;
/// The link, if the policy has none.
pub const LINK: BitsPerSec = BitsPerSec(100_000_000_000);
/// Minimum length of a run.
const SPAN: Duration = Duration::from_millis(300);
/// Packets between two readings of the clock.
pub(super) const STEP: u64 = 32_768;
/// The most packets before the first run.
pub(super) const WARM_UP: u64 = 1_000_000;

/// The conditions of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct PolicyOptions {
    /// Number of flows, which take the policy's lanes in turn; without it [`FLOWS`], or one for each lane if these are more.
    pub flows: Option<u32>,
    /// Number of runs of each length.
    pub runs: u32,
}

/// Errors from measuring a policy.
#[derive(Debug, Error)]
pub enum PolicyBenchError {
    /// The engine cannot run the policy, or not with as many flows.
    #[error("the engine cannot run the policy: {0}")]
    Workload(#[from] WorkloadError),
    /// Some lanes would stay without a flow.
    #[error(
        "the policy has {lanes} lanes (a class for each of its destinations), and {flows} flows leave some of them empty; use --flows {lanes} or more"
    )]
    FewFlows {
        /// The number of flows.
        flows: u32,
        /// The number of lanes.
        lanes: usize,
    },
    /// Packets wait, and none of them leaves.
    #[error(
        "no packet leaves although {held} wait: an algorithm holds all of them, or a limit is too low for packets of {len}; raise the limit, or try the policy with `weft policy test`"
    )]
    Stuck {
        /// The number of packets that wait.
        held: u64,
        /// Their length.
        len: Bytes,
    },
}

/// Measures the engine with `policy` and packets of `len`: packets enqueued and dequeued per second on one core. The time of limits
/// is the link's, so they bind as they do on it; packets are not classified.
///
/// # Errors
/// When the engine cannot run the policy, or no packet leaves.
pub fn run(
    policy: &CompiledPolicy,
    len: Bytes,
    options: PolicyOptions,
) -> Result<BenchCase, PolicyBenchError> {
    let lanes = policy.program.lanes.iter().filter(|lane| !lane.is_vacant()).count();
    let flows = options.flows.unwrap_or_else(|| FLOWS.max(u32::try_from(lanes).unwrap_or(u32::MAX)));
    if (flows as usize) < lanes {
        return Err(PolicyBenchError::FewFlows { flows, lanes });
    }
    let link = policy.link.unwrap_or(LINK);
    let mut workload = warm(&policy.program, flows, link, len)?;
    let rounds = Rounds::of_one(options.runs, |_| speed(SPAN, || step(&mut workload, STEP, len)))?;
    let speeds = rounds.figures(0, |pps| *pps);
    let mut case = BenchCase::alone(format!("policy, {} bytes", len.get()), &speeds);
    let bits = len.get() as f64 * 8.0;
    let on_wire = (len.get() + BETWEEN_FRAMES.get()) as f64 * 8.0;
    case.ours_bps = Some(case.ours_pps * bits);
    for (name, value) in [
        ("flows", f64::from(flows)),
        ("lanes", lanes as f64),
        ("limits", policy.program.limits.iter().filter(|limit| !limit.is_vacant()).count() as f64),
        ("packet_bytes", len.get() as f64),
        ("policy_link_bps", link.get() as f64),
        ("ns_per_packet", 1e9 / case.ours_pps.max(f64::MIN_POSITIVE)),
        ("fills_link_bps", case.ours_pps * on_wire),
        ("pps_min", stats::min(&speeds).unwrap_or(0.0)),
        ("pps_max", stats::max(&speeds).unwrap_or(0.0)),
    ] {
        case.other.insert(name.to_owned(), value.into());
    }
    case.other.insert("runs_pps".to_owned(), speeds.into());
    Ok(case)
}

/// A loop whose caches and branch predictors are warm, and whose limits have begun to bind.
fn warm(program: &Program, flows: u32, link: BitsPerSec, len: Bytes) -> Result<LinkLoop, PolicyBenchError> {
    let mut workload = LinkLoop::new(program, flows, link, len, SEED)?;
    let mut left = (4 * u64::from(flows)).clamp(STEP, WARM_UP);
    while left > 0 {
        step(&mut workload, STEP, len)?;
        left = left.saturating_sub(STEP);
    }
    Ok(workload)
}

fn step(workload: &mut LinkLoop, packets: u64, len: Bytes) -> Result<u64, PolicyBenchError> {
    let done = workload.run(packets);
    if done < packets {
        return Err(PolicyBenchError::Stuck { held: workload.scheduler().held().get(), len });
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_policy::{CompileOptions, Source, compile};

    fn compiled(text: &str) -> CompiledPolicy {
        let compilation = compile(Source { name: "p", text }, &CompileOptions::default());
        compilation.policy.expect("a policy without errors")
    }

    #[test]
    fn speeds_are_those_of_the_policy_that_was_given() {
        let policy =
            compiled("link 10gbps\nclass a = tcp port 1\nroot = limit 1gbps of flows\nflows = fair of a\n");
        let lanes = policy.program.lanes.len();
        let options = PolicyOptions { flows: Some(100), runs: 1 };
        let case = run(&policy, Bytes(64), options).expect("measured");
        assert!(case.ours_pps > 0.0);
        assert_eq!(case.ours_bps, Some(case.ours_pps * 512.0));
        assert_eq!(case.other["lanes"], lanes as f64);
        let few = run(&policy, Bytes(64), PolicyOptions { flows: Some(1), runs: 1 });
        assert!(few.is_err_and(|error| error.to_string().contains(&format!("--flows {lanes}"))));
    }
}
