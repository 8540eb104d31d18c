//! `weft steer import`, `probe`, `apply` and `undo`: the receive steering of a NIC of this host.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_cli::steering::Problem;
use weft_facts::record::Document;
use weft_host::ethtool::{Kernel, Nic as Ethtool};
use weft_host::{NetNs, link};
use weft_run::steering::device::record::{self, OpenRecord};
use weft_run::steering::device::{self, WantedSteering};
use weft_run::steering::input;
use weft_steer::change::Change;

/// Options that name the interface.
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
    fn namespace(&self) -> anyhow::Result<NetNs> {
        Ok(match &self.netns {
            Some(name) => NetNs::named(name)?,
            None => NetNs::current()?,
        })
    }

    fn open(&self) -> anyhow::Result<Ethtool<Kernel>> {
        Ok(Ethtool::open(&self.namespace()?, &self.device)?)
    }

    /// Returns the record of our settings in it.
    fn kept(&self) -> anyhow::Result<OpenRecord> {
        let ns = self.namespace()?;
        let ifindex = link::index(&ns, &self.device)?;
        Ok(OpenRecord::open(Path::new(record::FOLDER), ns.inode()?, ifindex, &self.device)?)
    }
}

/// Show a NIC's settings: its rules and RSS contexts, in terms of a model.
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

/// Shows the settings.
pub(super) fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let nic = input::model(&args.nic)?;
    let mut ethtool = args.interface.open()?;
    let imported = device::import(&nic, &mut ethtool)?;
    let report = imported.report(&nic, &args.interface.device);
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Test which rules a NIC's driver accepts: insert rules for unused addresses, and delete them again.
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
    /// Write the model, as the driver behaved, to a file.
    #[arg(long, value_name = "FILE")]
    learn: Option<PathBuf>,
    /// Write it to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Probes the driver.
pub(super) fn probe(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let nic = input::model(&args.nic)?;
    let mut ethtool = args.interface.open()?;
    // A driver without rules fails here at once.
    ethtool.rules()?;
    let report = device::probe(&nic, &mut ethtool);
    let document = report.report(&nic, &args.interface.device);
    output::tables(&document.tables(), &json)?;
    json.write_json(&document)?;
    if let Some(path) = &args.learn {
        let text = weft_steer::nic::write(&device::refine(&nic, &report));
        std::fs::write(path, text)
            .map_err(|error| anyhow::anyhow!("cannot write to {}: {error}", path.display()))?;
        output::note(&format!("the model, as the driver behaved: {}", path.display()));
    }
    Ok(if report.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plan for flows and set the plan in a NIC, next to others' settings. On a refusal all changes are undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer apply eth0 --nic virtio-net --flows flows.csv --policy balance --dry-run
  weft steer apply eth0 --nic e810 --flows flows.csv --policy 'isolate hp on 4 queues'

Only rules that an earlier `weft steer apply` set are replaced; other rules and RSS contexts stay as they are. `weft steer undo`
undoes the changes. The search uses at most as many queues as the interface has.")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    interface: Interface,
    #[command(flatten)]
    problem: Problem,
    /// The flows, as CSV.
    #[arg(long, value_name = "FILE")]
    flows: PathBuf,
    /// Print the changes without making them.
    #[arg(long)]
    dry_run: bool,
}

/// Plans, and applies the changes.
pub(super) fn apply(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let flows = input::flows(&args.flows)?;
    let mut ethtool = args.interface.open()?;
    let mut kept = args.interface.kept()?;
    let wanted = WantedSteering { policy, flows, options: args.problem.options() };
    let prepared = device::prepare(&nic, &mut ethtool, &mut kept, wanted)?;
    for note in &prepared.notes {
        output::note(note);
    }
    for sentence in &prepared.degraded {
        output::warn(&format!("given up: {sentence}"));
    }
    if args.dry_run {
        let changes = prepared.changes.changes.iter();
        output::print(&changes.map(|change| format!("would {change}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let of = prepared.changes.changes.len();
    let told = |at: usize, change: &Change| output::message(&format!("{} of {of}: {change}", at + 1));
    let made = prepared.apply(&mut ethtool, &mut kept, told)?;
    output::note(&format!("{made} changes made"));
    Ok(ExitCode::SUCCESS)
}

/// Undo `weft steer apply` in a NIC: remove its rules, and restore the table.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer undo eth0

Later settings of others are kept. The changes of a killed `apply` are undone too.")]
pub(super) struct UndoArgs {
    #[command(flatten)]
    interface: Interface,
}

/// Undoes our settings.
pub(super) fn undo(args: &UndoArgs) -> anyhow::Result<ExitCode> {
    let mut ethtool = args.interface.open()?;
    let mut kept = args.interface.kept()?;
    if kept.is_empty() {
        output::note(&format!("{}: weft has set nothing here", args.interface.device));
        return Ok(ExitCode::SUCCESS);
    }
    for sentence in device::undo(&mut ethtool, &mut kept)? {
        output::message(&sentence);
    }
    Ok(ExitCode::SUCCESS)
}
