//! `weft bench cost`: processor time and latency of a port, beside the kernel's HTB in the same rounds.
//!
//! 1. A case ([`CostCase`]) is a load with its variants: the port as it is and as it was, HTB without weftline, a plain
//!    eBPF redirect, and the floor of a NIC in user space.
//! 2. A round measures every variant once, in an order that rotates. Ratios are formed within a round, so that a machine
//!    that slows down slows both.
//! 3. A sample (`round`) makes two namespaces and a veth pair (`testbed`), puts the variant in place, starts iperf3 and the
//!    requests, lets them warm up, and reads the counters at both ends of the measured span. Everything is removed before
//!    the next sample.
//! 4. Processor time is that of the whole machine, less its idle time (`processors`): the receiver and the
//!    acknowledgements belong to the cost, since a variant changes theirs. Payload is what the receiving TCP counted.
//! 5. The time of eBPF programs needs statistics that cost time themselves, so it is measured in a separate round.
//! 6. `weft-report` compares and judges.
//!
//! Two cases have a web server, one of them beside bulk flows (`web`).
//!
//! A sample beside which other processes used more than 5 % of a core is marked, and counts. Rare branches: a process of
//! the traffic that ends early, and a port that ends, fail the case.

mod case;
mod error;
mod forwarder;
mod ports;
mod processors;
mod redirect;
mod requests;
mod round;
mod settings;
mod testbed;
mod web;

pub use case::CostCase;
pub use error::CostError;
pub use ports::PortCount;
use round::Statistics;
use weft_host::programs;
use weft_report::bench::cost::{CaseReport, Measured, Sample, Variant};
use weft_report::rounds::Rounds;
use weft_units::Nanos;

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct CostOptions {
    /// Number of rounds.
    pub runs: u32,
    /// Time between the last connection and the measured span.
    pub warm_up: Nanos,
    /// The measured span of a sample; `None` for the case's own, 2 or 3 s.
    pub span: Option<Nanos>,
    /// The ports of the session measured.
    pub ports: PortCount,
}

/// Measures `case`. `on_sample` receives each sample.
///
/// # Errors
/// Without network rights or iperf3, when a step fails, and when `stop` returns true. Nothing remains.
pub fn run(
    case: CostCase,
    options: &CostOptions,
    stop: &dyn Fn() -> bool,
    mut on_sample: impl FnMut(&Sample),
) -> Result<CaseReport, CostError> {
    weft_host::require_network_rights()?;
    let missing = case.programs().iter().find(|program| programs::find(program).is_none());
    let mut samples = Vec::new();
    let runs = if missing.is_some() { 0 } else { options.runs };
    Rounds::measure(runs, &case.variants(options.ports), &|| false, |turn| {
        let sample = round::measure(case, (turn.round, *turn.variant), Statistics::Off, options, stop)?;
        on_sample(&sample);
        samples.push(sample);
        Ok::<_, CostError>(())
    })?;
    let statistics = case
        .has_parts()
        .then(|| round::measure(case, (options.runs, Variant::Ours), Statistics::On, options, stop))
        .transpose()?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut report = CaseReport::conclude(Measured {
        case: case.name().to_owned(),
        peer: Some(case.peer(options.ports)),
        link_bps: case.link().map(|rate| rate.get() as f64),
        samples,
        statistics,
        requirements: case.requirements(options.ports),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
    });
    if let Some(program) = missing {
        let package = programs::package_of(program).unwrap_or(program);
        report.not_shown = Some(format!("the program {program} is not installed (Debian: {package})"));
    }
    Ok(report)
}
