//! `weft titan`: queue assignment on a multiqueue device of this host.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_cli::output::{self, OutputTarget};
use weft_cli::signals::{Removes, Stop};
use weft_cli::values;
use weft_facts::record::Document;
use weft_facts::titan::TitanStatus;
use weft_host::bpffs::BpfFs;
use weft_host::{NetNs, require_network_rights};
use weft_run::host_facts;
use weft_run::tenant_files::Beside;
use weft_titan::device::Titan;
use weft_titan::driver_sync::DriverSync;
use weft_titan::settings::{MOST_FLOWS, Parts, Pool, Settings};
use weft_titan::status::Watch;
use weft_titan::weights::WeightTable;
use weft_units::{Bytes, Nanos};

/// Keep the flows of a multiqueue device fair: assign queues by load, weight queues, and cut smaller segments where
/// flows share one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TitanCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TitanCommand {
    Attach(AttachArgs),
    Status(StatusArgs),
    Detach(DetachArgs),
    Actuate(ActuateArgs),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        TitanCommand::Attach(args) => attach(&args),
        TitanCommand::Status(args) => status(&args),
        TitanCommand::Detach(args) => detach(&args),
        TitanCommand::Actuate(args) => actuate(&args),
    }
}

/// Options that name the device.
#[derive(Debug, clap::Args)]
struct Interface {
    /// The device.
    #[arg(value_name = "DEV")]
    device: String,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

pub(super) fn namespace(name: Option<&String>) -> anyhow::Result<NetNs> {
    Ok(match name {
        Some(name) => NetNs::named(name)?,
        None => NetNs::current()?,
    })
}

/// Enable queue assignment. It stays enabled after the command has ended, until `weft titan detach`.
///
/// A flow (a socket) that becomes active is assigned to the queue with the least weight of active flows. It stays
/// there while any of its packets is queued, so nothing is reordered. Other filters at the device are not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft titan attach eth0
  weft titan attach eth0 --pool xps --parts dqa
  weft titan attach weft0 --weights host.weft --segment 32KB

The software NIC (`weft run --queues`) supports dqwa and dsos itself. Other drivers need a process that updates them:
`weft titan actuate`.")]
struct AttachArgs {
    #[command(flatten)]
    interface: Interface,
    /// Titan's mechanisms: dqa (assignment), dqwa (weights of queues), dsos (segment sizes).
    #[arg(long, value_name = "PARTS", default_value = "dqa,dqwa,dsos", value_parser = parts)]
    parts: Parts,
    /// The queues that a flow may be assigned to: all, or those that XPS gives the sending core.
    #[arg(long, value_name = "all|xps", default_value = "all", value_parser = pool)]
    pool: Pool,
    /// The weights of flows: a policy, in which a flow has the weight of its class in the tree.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The largest segment of flows that share a queue.
    #[arg(long, value_name = "SIZE", default_value = "16384", value_parser = segment)]
    segment: Bytes,
    /// Flows with small segments while a queue is shared: those of shared queues only, or of all.
    #[arg(long, value_name = "shared|all", default_value = "shared", value_parser = ["shared", "all"])]
    segment_scope: String,
    /// Least time between updates of weights.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = values::span)]
    update_interval: Nanos,
    /// The most active flows; further ones keep the device's own choice of queue.
    #[arg(long, value_name = "N", default_value_t = MOST_FLOWS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    most_flows: u32,
}

fn parts(text: &str) -> Result<Parts, String> {
    let mut parts = Parts { dqa: false, dqwa: false, dsos: false };
    for name in text.split(',').map(str::trim) {
        match name {
            "dqa" => parts.dqa = true,
            "dqwa" => parts.dqwa = true,
            "dsos" => parts.dsos = true,
            _ => return Err(format!("there is no part {name:?}; the parts are dqa, dqwa and dsos")),
        }
    }
    Ok(parts)
}

fn pool(text: &str) -> Result<Pool, String> {
    match text {
        "all" => Ok(Pool::All),
        "xps" => Ok(Pool::Xps),
        _ => Err("a pool is `all` or `xps`".to_owned()),
    }
}

fn segment(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error: weft_units::ParseUnitError| error.to_string())?;
    // The kernel cannot cut below a packet of the usual MTU, and makes no segment above 64 KB.
    let range = 1500..=65_536;
    if range.contains(&bytes.get()) {
        return Ok(bytes);
    }
    Err(format!("a segment has from {} to {} bytes", range.start(), range.end()))
}

/// Fails where pinned objects would end with this process. In a mount namespace without a bpf file system ours would
/// be mounted for this process alone; `ip netns exec` makes one for each command (it mounts its own /sys,
/// lib/namespace.c of iproute2).
pub(super) fn refuse_passing_mounts() -> anyhow::Result<()> {
    let mounts = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    // The first process may be hidden from us; the parent's mounts serve as well.
    let parent = std::os::unix::process::parent_id().to_string();
    let mut others = ["1", &parent].into_iter().filter_map(mounts);
    let apart = mounts("self").is_some_and(|ours| others.any(|theirs| theirs != ours));
    if apart && BpfFs::find().is_none() {
        anyhow::bail!(
            "there is no bpf file system in this mount namespace (`ip netns exec` hides the host's), and what is attached would \
             end with this command; run it outside, with --netns NAME"
        );
    }
    Ok(())
}

fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let load = |path: &Path| WeightTable::load(path, &Beside);
    let weights = args.weights.as_deref().map_or_else(|| Ok(WeightTable::default()), load)?;
    require_network_rights()?;
    refuse_passing_mounts()?;
    let ns = namespace(args.interface.netns.as_ref())?;
    let settings = Settings {
        parts: args.parts,
        pool: args.pool.clone(),
        weights,
        most_flows: args.most_flows,
        segment: args.segment,
        segment_all: args.segment_scope == "all",
        update_interval: args.update_interval,
    };
    let titan = Titan::attach(&ns, &args.interface.device, &settings)?;
    for lost in &settings.weights.lost {
        output::note(&format!("not expressed by weights: {lost}"));
    }
    for path in settings.weights.missing_cgroups() {
        output::note(&format!(
            "there is no cgroup {path}: its weight applies to no flow; create it and attach again"
        ));
    }
    let state = titan.state();
    output::message(&format!(
        "{}: {} over {} queues; {} on; departures by {}",
        state.device,
        state.assignment,
        state.queues,
        state.parts.join(", "),
        state.departures
    ));
    for note in titan.notes()? {
        output::note(&note);
    }
    Ok(ExitCode::SUCCESS)
}

/// Show the queues of devices with queue assignment: flows, weights, rates, backlogs, and fairness.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft titan status
  weft titan status eth0 --watch
  weft titan status eth0 --json -")]
struct StatusArgs {
    /// The device; without it all that have queue assignment.
    #[arg(value_name = "DEV")]
    device: Option<String>,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Repeat until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// The time over which rates and fairness are measured.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::span)]
    window: Nanos,
    /// End after this time, with --watch [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", requires = "watch", value_parser = values::span)]
    duration: Option<Nanos>,
    /// Write it to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    json: Option<PathBuf>,
}

fn watches(args: &StatusArgs, ns: &NetNs) -> anyhow::Result<Vec<Watch>> {
    let titans = match &args.device {
        Some(device) => vec![Titan::open(ns, device)?],
        None => {
            let states = Titan::all(Some(ns))?;
            states.iter().map(|state| Titan::open(ns, &state.device)).collect::<Result<_, _>>()?
        }
    };
    Ok(titans.into_iter().map(Watch::new).collect::<Result<_, _>>()?)
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    require_network_rights()?;
    let json = OutputTarget::open(args.json.as_deref())?;
    let stop = Stop::install(Removes::Nothing)?;
    let ns = namespace(args.netns.as_ref())?;
    let mut watches = watches(args, &ns)?;
    let begin = Instant::now();
    let clear = args.watch && output::stdout_color();
    loop {
        if !watches.is_empty() {
            wait(args.window.into(), &stop);
        }
        if stop.asked() {
            return Ok(stop.exit_code());
        }
        let devices = watches.iter_mut().map(Watch::look).collect::<Result<_, _>>()?;
        let document =
            TitanStatus { schema: TitanStatus::SCHEMA.to_owned(), host: host_facts::detect(), devices };
        if clear {
            // Cursor home, and clear to the end: the tables replace the previous ones.
            output::print("\x1b[H\x1b[J")?;
        }
        output::tables(&document.tables(), &json)?;
        let over = args.duration.is_some_and(|limit| begin.elapsed() >= Duration::from(limit));
        if !args.watch || over || watches.is_empty() {
            json.write_json(&document)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Disable queue assignment, and undo all changes to the device.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft titan detach eth0")]
struct DetachArgs {
    #[command(flatten)]
    interface: Interface,
}

fn detach(args: &DetachArgs) -> anyhow::Result<ExitCode> {
    require_network_rights()?;
    let ns = namespace(args.interface.netns.as_ref())?;
    let titan = Titan::open(&ns, &args.interface.device)?;
    let age = titan.state().since();
    titan.detach()?;
    output::message(&format!("{}: queue assignment is off, after {age}", args.interface.device));
    Ok(ExitCode::SUCCESS)
}

/// Keep a driver's queue weights and segment size up to date with its flows, until Ctrl-C.
///
/// For devices other than the software NIC: weights through the kernel's net-shaper interface if the driver has it,
/// segment sizes through the device's gso_max_size, for all its queues while any is shared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft titan actuate eth0
  weft titan actuate eth0 --duration 60")]
struct ActuateArgs {
    #[command(flatten)]
    interface: Interface,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = values::span)]
    duration: Option<Nanos>,
}

fn actuate(args: &ActuateArgs) -> anyhow::Result<ExitCode> {
    require_network_rights()?;
    let ns = namespace(args.interface.netns.as_ref())?;
    let stop = Stop::install(Removes::Nothing)?;
    let mut sync = DriverSync::new(Titan::open(&ns, &args.interface.device)?)?;
    for line in sync.describe() {
        output::message(&line);
    }
    let begin = Instant::now();
    while !stop.asked() && args.duration.is_none_or(|limit| begin.elapsed() < Duration::from(limit)) {
        for change in sync.look()? {
            output::message(&format!("{:8.2} s: {change}", begin.elapsed().as_secs_f64()));
        }
        std::thread::sleep(sync.pause());
    }
    let report = sync.finish()?;
    output::message(&report);
    Ok(stop.exit_code())
}

/// Sleeps in short intervals, so that Ctrl-C is noticed.
fn wait(time: Duration, stop: &Stop) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.asked() {
        std::thread::sleep(Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())));
    }
}
