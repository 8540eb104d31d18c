//! `weft apply` and `weft remove`: a policy in the kernel, on an interface that exists.

use super::titan::{namespace, refuse_passing_mounts};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use weft_cli::failure;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::values;
use weft_facts::apply::{ApplyAction, ApplyReport};
use weft_facts::policy_check::PlacePromise;
use weft_facts::record::Document;
use weft_facts::status::ServiceStatus;
use weft_host::{NetNs, require_network_rights};
use weft_policy::promise::{Kept, Promise};
use weft_policy::{CompileOptions, CompiledPolicy};
use weft_run::host_facts;
use weft_run::kernel::{KernelPath, KernelPlan};
use weft_run::place::Place;
use weft_run::session::missing_cgroups;
use weft_service::kernel::{compile, open};
use weft_service::policy::ServicePolicy;
use weft_units::{BitsPerSec, Nanos};

/// The rate below which a terminal over the network is hardly usable.
const SSH_LEAST: BitsPerSec = BitsPerSec(1_000_000);

/// Put a policy into the kernel, on an interface that exists. It holds when the command has ended, and needs no process.
///
/// The policy becomes a tree of the kernel's own qdiscs at the interface, and a program at its egress chooses the class of each packet. A
/// policy that is there already is changed in place: what waits is not lost. `weft remove` gives back what was there before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft apply my.weft --device eth0
  weft apply my.weft --device eth0 --check      what does the kernel keep of it?
  weft apply my.weft --device eth0 --dry-run    what would be made?
  weft apply my.weft --device eth0 --rate 940mbps --confirm 60s
  weft status --device eth0
  weft remove eth0

The link needs a rate, in the policy or by --rate: a little less than that of the next link that is full, since packets wait where
the link is full. docs/kernel-path.md is the guide.")]
pub(crate) struct Args {
    /// The policy.
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    /// The interface by which packets leave.
    #[arg(long, value_name = "DEV")]
    device: String,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// The link's rate, in place of the policy's.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// Say what the kernel keeps of the policy, and change nothing. Exit code 1 if it does not keep a statement.
    #[arg(long)]
    check: bool,
    /// Print the objects that would be made, and make none.
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    /// Apply the policy although the kernel does not keep all of its statements.
    #[arg(long)]
    accept_less: bool,
    /// Replace a root qdisc that cannot be given back, and make the policy's tree anew where it cannot be changed in place.
    #[arg(long)]
    replace: bool,
    /// Take the change back after this time, unless it is confirmed by Enter.
    #[arg(long, value_name = "TIME", value_parser = values::span)]
    confirm: Option<Nanos>,
    /// Write what was done to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `weft apply`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let text = PolicyText::read(&args.policy)?;
    let policy = text.load(&CompileOptions { link: args.rate, ..CompileOptions::default() })?;
    let plan = KernelPlan::new(&policy, KernelPlan::qdiscs_here())?;
    let promises = plan.lowered.promises();
    let mut report = ApplyReport {
        schema: ApplyReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        device: args.device.clone(),
        netns: args.netns.clone(),
        policy: text.name.clone(),
        action: ApplyAction::Checked,
        generation: None,
        promises: promises.iter().map(|of| shown(&text.name, of)).collect(),
        objects: None,
    };
    if args.check {
        if !json.is_stdout() {
            output::print(&kept_lines(&promises))?;
        }
        json.write_json(&report)?;
        let kept = promises.iter().all(|promise| promise.kept != Kept::No);
        return Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if let Some(refusal) = plan.lowered.refusal().filter(|_| !args.accept_less) {
        let error = text.refused_by(Place::Kernel, &refusal);
        output::note("--accept-less applies what the kernel keeps of the policy; `--check` lists it");
        return Err(error);
    }
    if args.dry_run {
        report.action = ApplyAction::Planned;
        let objects = plan.objects(&args.device);
        if !json.is_stdout() {
            output::print(&objects)?;
        }
        report.objects = Some(objects);
        json.write_json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    require_network_rights()?;
    refuse_passing_mounts()?;
    refuse_slow_over_ssh(args, &policy)?;
    let ns = namespace(args.netns.as_ref())?;
    warn(&policy, &promises);
    let source = ServicePolicy::read(&args.policy, args.rate)?;
    let (action, generation) = put(args, &ns, plan, source)?;
    (report.action, report.generation) = (action, Some(generation));
    let rate = policy.link.map_or_else(|| "its own rate".to_owned(), |rate| rate.to_string());
    output::message(&format!("{}: {} is in force at {rate} ({})", args.device, text.name, action.as_str()));
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Applies or changes the policy, and takes it back if it is not confirmed.
fn put(
    args: &Args,
    ns: &NetNs,
    plan: KernelPlan,
    source: ServicePolicy,
) -> anyhow::Result<(ApplyAction, u64)> {
    let _repairer = Repairer::start()?;
    repair()?;
    if !KernelPath::is_at(ns, &args.device)? {
        let path = KernelPath::apply(ns, &args.device, source.authored(), plan, args.replace)?;
        let generation = path.record().generation;
        if !confirmed(args.confirm)? {
            KernelPath::remove(ns, &args.device)?;
            anyhow::bail!("not confirmed in time: {} is as it was before", args.device);
        }
        return Ok((ApplyAction::Applied, generation));
    }
    let mut path = open(ns, &args.device)?;
    let former = path.record().policy.clone();
    let plan = path.plan_change(plan.policy)?;
    path.change(source.authored(), plan, args.replace)?;
    if !confirmed(args.confirm)? {
        let policy = ServicePolicy::of_authored(&former)?;
        let plan = path.plan_change(policy.compiled)?;
        path.change(former, plan, true)?;
        anyhow::bail!("not confirmed in time: {} has its former policy", args.device);
    }
    Ok((ApplyAction::Changed, path.record().generation))
}

/// Undoes what killed commands have left, and says so.
fn repair() -> anyhow::Result<()> {
    for repaired in KernelPath::repair(&compile)? {
        output::note(&format!("{}: {}", repaired.device, repaired.result));
    }
    Ok(())
}

/// The statements with what is kept of them. The reasons are too long for a table.
fn kept_lines(promises: &[Promise]) -> String {
    let lines = promises.iter().map(|Promise { promise, kept, within, instead }| {
        let within = within.as_ref().map(|within| format!("        {within}\n")).unwrap_or_default();
        let instead =
            instead.as_ref().map(|instead| format!("        instead: {instead}\n")).unwrap_or_default();
        format!("{:<7} {promise}\n{within}{instead}", kept.as_str())
    });
    lines.collect()
}

fn shown(file: &str, promise: &Promise) -> PlacePromise {
    PlacePromise {
        file: file.to_owned(),
        place: Place::Kernel.name().to_owned(),
        promise: promise.promise.clone(),
        kept: promise.kept.as_str().to_owned(),
        within: promise.within.clone(),
        instead: promise.instead.clone(),
    }
}

/// Warns of what the policy names and this host does not have.
fn warn(policy: &CompiledPolicy, promises: &[Promise]) {
    for cgroup in missing_cgroups(policy) {
        output::warn(&format!(
            "this host has no cgroup {cgroup}: its rules match nothing until it is created and the policy applied again"
        ));
    }
    for promise in promises.iter().filter(|promise| promise.kept == Kept::No) {
        let reason = promise.within.as_deref().unwrap_or("the kernel has nothing for it");
        output::warn(&format!("not kept: {}: {reason}", promise.promise));
    }
}

/// Refuses a rate at which a terminal over this network would hardly answer, unless the change is taken back by itself.
fn refuse_slow_over_ssh(args: &Args, policy: &CompiledPolicy) -> anyhow::Result<()> {
    let remote = std::env::var_os("SSH_CONNECTION").is_some();
    match policy.link {
        Some(rate) if remote && rate < SSH_LEAST && args.confirm.is_none() => Err(failure::usage(format!(
            "{rate} may cut off this SSH session: say --confirm 60s, which takes the policy back unless you press Enter"
        ))),
        _ => Ok(()),
    }
}

/// Whether the user confirms within `time`; without a time, yes.
fn confirmed(time: Option<Nanos>) -> anyhow::Result<bool> {
    let Some(time) = time else { return Ok(true) };
    output::message(&format!("in force; press Enter within {time} to keep it"));
    let (send, receive) = std::sync::mpsc::channel();
    // The thread ends with the process: a read from a terminal cannot be given up.
    std::thread::Builder::new().name("weft-confirm".to_owned()).spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let _ = send.send(read.is_ok_and(|bytes| bytes > 0));
    })?;
    Ok(receive.recv_timeout(Duration::from(time)).unwrap_or(false))
}

/// A process that undoes an incomplete change if this one is killed.
struct Repairer {
    child: Child,
}

impl Repairer {
    fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.args(["remove", "--interrupted", "--after-input"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not in the group that a terminal's Ctrl-C ends.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self { child: command.spawn()? })
    }
}

impl Drop for Repairer {
    fn drop(&mut self) {
        // It ends when its input does, and finds nothing to undo.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The options of commands that ask about a policy in the kernel in place of a daemon.
#[derive(Debug, clap::Args)]
pub(crate) struct AtDevice {
    /// An interface with a policy in the kernel (`weft apply`). No daemon is asked.
    #[arg(long, value_name = "DEV", conflicts_with_all = ["socket", "uplink"])]
    device: Option<String>,
    /// The network namespace of the interface, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME", requires = "device")]
    netns: Option<String>,
}

impl AtDevice {
    /// The status at the interface, with rates over `window`; `None` where none is named.
    pub(crate) fn status(&self, window: Nanos) -> anyhow::Result<Option<ServiceStatus>> {
        let Some(device) = &self.device else { return Ok(None) };
        require_network_rights()?;
        let ns = namespace(self.netns.as_ref())?;
        Ok(Some(weft_service::kernel::status(&ns, device, window.into())?))
    }

    /// The policy at the interface; `None` where none is named.
    pub(crate) fn policy(&self) -> anyhow::Result<Option<PolicyText>> {
        let Some(device) = &self.device else { return Ok(None) };
        let path = open(&namespace(self.netns.as_ref())?, device)?;
        let policy = &path.record().policy;
        Ok(Some(PolicyText { name: policy.name.clone(), text: policy.text.clone() }))
    }
}

/// Remove a policy from the kernel: the interface gets back the qdisc that it had before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft remove eth0
  weft remove --interrupted     undo what a killed `weft apply` has left")]
pub(crate) struct RemoveArgs {
    /// The interface.
    #[arg(value_name = "DEV", required_unless_present = "interrupted")]
    device: Option<String>,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Undo the changes of commands that were killed before they had completed them.
    #[arg(long, conflicts_with = "device")]
    interrupted: bool,
    /// Wait until the standard input ends.
    #[arg(long, hide = true, requires = "interrupted")]
    after_input: bool,
}

/// Runs `weft remove`.
pub(crate) fn remove(args: &RemoveArgs) -> anyhow::Result<ExitCode> {
    if args.after_input {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    }
    require_network_rights()?;
    let Some(device) = &args.device else {
        repair()?;
        return Ok(ExitCode::SUCCESS);
    };
    let ns = namespace(args.netns.as_ref())?;
    let _repairer = Repairer::start()?;
    match KernelPath::remove(&ns, device)? {
        None => output::message(&format!("{device}: the policy is removed, and the former qdisc is back")),
        Some(kind) => output::message(&format!(
            "{device}: the policy is removed; the root is {kind}, which another program has put there, and stays"
        )),
    }
    Ok(ExitCode::SUCCESS)
}
