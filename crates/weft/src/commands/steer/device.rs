//! `weft steer import`, `probe` and `apply`: a NIC of this host.

use super::Problem;
use crate::output::{self, Target};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_host::NetNs;
use weft_host::ethtool::{Kernel, Nic as Ethtool};
use weft_lab::steer::device;
use weft_lab::steer::{input, planning};
use weft_report::record::Document;
use weft_steer::change::{Change, changes};

/// The interface.
#[derive(Debug, clap::Args)]
struct Interface {
    /// The interface.
    #[arg(value_name = "INTERFACE")]
    device: String,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

impl Interface {
    fn open(&self) -> anyhow::Result<Ethtool<Kernel>> {
        let ns = match &self.netns {
            Some(name) => NetNs::named(name)?,
            None => NetNs::current()?,
        };
        Ok(Ethtool::open(&ns, &self.device)?)
    }
}

/// Show what is set in a NIC: its rules and RSS contexts, as a model sees them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer import eth0
  weft steer import eth0 --nic e810")]
pub(super) struct ImportArgs {
    #[command(flatten)]
    interface: Interface,
    /// The NIC: a model's name, or a file.
    #[arg(long, value_name = "NIC", default_value = "ethtool-generic")]
    nic: String,
    /// Write it to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Shows what is set.
pub(super) fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let json = Target::open(args.json.as_deref())?;
    let nic = input::model(&args.nic)?;
    let mut ethtool = args.interface.open()?;
    let imported = device::import(&nic, &mut ethtool)?;
    let report = imported.report(&nic, &args.interface.device);
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Try which rules a NIC's driver really takes: inserts rules for addresses that nobody uses, and deletes them again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer probe eth0 --nic e810
  weft steer probe eth0 --nic e810 --learn my-e810.nic")]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    interface: Interface,
    /// The NIC: a model's name, or a file.
    #[arg(long, value_name = "NIC", default_value = "ethtool-generic")]
    nic: String,
    /// Write the model as the driver showed it to a file.
    #[arg(long, value_name = "FILE")]
    learn: Option<PathBuf>,
    /// Write it to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Tries.
pub(super) fn probe(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let json = Target::open(args.json.as_deref())?;
    let nic = input::model(&args.nic)?;
    let mut ethtool = args.interface.open()?;
    // A driver that takes no rules at all says so at once.
    ethtool.rules()?;
    let report = device::probe(&nic, &mut ethtool);
    let document = report.report(&nic, &args.interface.device);
    output::tables(&document.tables(), &json)?;
    json.write_json(&document)?;
    if let Some(path) = &args.learn {
        let text = weft_steer::nic::write(&device::refine(&nic, &report));
        std::fs::write(path, text)
            .map_err(|error| anyhow::anyhow!("cannot write to {}: {error}", path.display()))?;
        output::note(&format!("the model as the driver showed it: {}", path.display()));
    }
    Ok(if report.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plan for flows and set the plan in a NIC. What is refused is taken back, with all that was done before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer apply eth0 --nic virtio-net --flows flows.csv --policy balance --dry-run
  weft steer apply eth0 --nic e810 --flows flows.csv --policy 'isolate hp on 4 queues'

Rules that the model does not know are left alone. The search uses at most as many queues as the interface has.")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    interface: Interface,
    #[command(flatten)]
    problem: Problem,
    /// The flows, as CSV.
    #[arg(long, value_name = "FILE")]
    flows: PathBuf,
    /// Only print what would be changed.
    #[arg(long)]
    dry_run: bool,
}

/// Applies.
pub(super) fn apply(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let flows = input::flows(&args.flows)?;
    let mut ethtool = args.interface.open()?;
    let queues = ethtool.rx_queues()?;
    let imported = device::import(&nic, &mut ethtool)?;
    let nic = imported.fitted(&nic);
    for note in &imported.notes {
        output::note(note);
    }
    let mut options = args.problem.options();
    options.key = imported.key.clone();
    options.queues = Some(options.queues.map_or(queues, |most| most.min(queues)));
    let planned = planning::plan(&nic, policy, flows, options, &imported.configuration)?;
    let mut to = planned.plan.configuration.clone();
    // The key stays what it is: changing it would move every flow that is hashed.
    to.key.clone_from(&imported.configuration.key);
    let plan = changes(&nic, &imported.configuration, &to)?;
    for sentence in &planned.plan.degraded {
        output::warn(&format!("given up: {sentence}"));
    }
    if args.dry_run {
        let lines: String = plan.changes.iter().map(|change| format!("would {change}\n")).collect();
        output::print(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let told = |at: usize, change: &Change| {
        output::message(&format!("{} of {}: {change}", at + 1, plan.changes.len()));
    };
    let from = &imported.configuration;
    let applied = device::apply_plan(&nic, &mut ethtool, from, imported.locations, &plan, told)?;
    output::note(&format!("{} changes made", applied.made));
    Ok(ExitCode::SUCCESS)
}
