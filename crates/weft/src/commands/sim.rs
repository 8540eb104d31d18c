//! `weft sim`: a scenario in the simulator.

use crate::output::{self, Target};
use crate::signals::Stop;
use anyhow::anyhow;
use std::fs::File;
use std::io::BufWriter;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use weft_lab::overlay::Setting;
use weft_lab::simulate::{self, ReadError, Run, sweep};
use weft_report::record::Document;
use weft_sim::run::{RunError, simulate, simulate_observed};
use weft_sim::scenario::{self, Scenario};
use weft_sim::trace::{CsvTrace, Ends, Observer, PacketEvent, PcapTrace, Point};

/// Simulate hosts, NICs and a network as a scenario file describes them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft sim experiments/scenarios/titan-12-flows.toml
  weft sim experiments/scenarios/titan.toml --set flows.0.count=48 --set host.stack.queue_assignment=dqa
  weft sim experiments/scenarios/incast.toml --seeds 20 --json -
  weft sim experiments/scenarios/incast.toml --set duration=20ms --trace events.csv --pcap packets.pcap

docs/scenario-files.md has all keys of a scenario.")]
pub(crate) struct Args {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Runs, each with a seed of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seeds: u32,
    /// The first seed, instead of the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Put a value over the scenario's, such as host.stack.qdisc=fq_codel or flows.0.count=48.
    #[arg(long, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Print the whole scenario, defaults too, and end.
    #[arg(long)]
    show: bool,
    /// Write each event of the first run to a file as CSV.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the packets of the first run, as they leave the senders, to a capture.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write the figures to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Bytes of each packet that a capture keeps: all headers.
const SNAPLEN: u16 = 128;

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scenario = match simulate::read(&args.scenario, &args.set) {
        Ok(scenario) => scenario,
        Err(ReadError::Scenario(error)) => {
            output::message(&format!("{error}"));
            output::message(&error.render(output::stderr_color()));
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    if args.show {
        output::print(&scenario::write(&scenario))?;
        return Ok(ExitCode::SUCCESS);
    }
    let json = Target::open(args.json.as_deref())?;
    let stop = Stop::install()?;
    let seed = args.seed.unwrap_or(scenario.seed);
    trace(&args, &scenario, seed)?;
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let begin = Instant::now();
    let one = |job: usize| {
        simulate(&scenario, seed + job as u64).map(|outcome| Run { seed: seed + job as u64, outcome })
    };
    let all = sweep(args.seeds as usize, threads, &|| stop.asked(), one, |_| ());
    let runs: Vec<Run> = all.into_iter().flatten().collect::<Result<_, RunError>>()?;
    if stop.asked() {
        output::warn(&format!("stopped after {} of {} runs", runs.len(), args.seeds));
    }
    if let Some(report) = simulate::report(&scenario, &runs, begin.elapsed().as_secs_f64()) {
        output::tables(&report.tables(), &json)?;
        json.write_json(&report)?;
    }
    Ok(stop.exit_code())
}

/// Writes the traces that are asked for, from runs of their own.
fn trace(args: &Args, scenario: &Scenario, seed: u64) -> anyhow::Result<()> {
    let create = |path: &PathBuf| {
        File::create(path)
            .map(BufWriter::new)
            .map_err(|error| anyhow!("cannot write to {}: {error}", path.display()))
    };
    if let Some(path) = &args.trace {
        let (_, written) = simulate_observed(scenario, seed, CsvTrace::new(create(path)?))?;
        written.finish()?;
        output::note(&format!("events of seed {seed}: {}", path.display()));
    }
    if let Some(path) = &args.pcap {
        let ends = scenario.flows.iter().map(|group| Ends {
            from: group.from,
            to: group.to,
            mss: scenario.hosts[group.from as usize].stack.mtu.0.saturating_sub(40).min(65_000) as u32,
        });
        let capture = PcapTrace::new(create(path)?, ends.collect(), Point::Senders, SNAPLEN)?;
        let (_, written) = simulate_observed(scenario, seed, FlowsOnly(capture))?;
        written.0.finish()?;
        output::note(&format!("packets of seed {seed}: {}", path.display()));
    }
    Ok(())
}

/// Passes on what belongs to a group of flows: acknowledgements and probes have no place in a capture of the flows' data.
struct FlowsOnly<T>(T);

impl<T: Observer> Observer for FlowsOnly<T> {
    fn packet(&mut self, event: &PacketEvent) {
        if event.group != u32::MAX {
            self.0.packet(event);
        }
    }
}
