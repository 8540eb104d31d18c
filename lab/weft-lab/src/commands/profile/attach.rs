//! `weft profile --attach`: what runs on the host now, its tables and files, with the classes of a running daemon.

use super::class_usage::{PortPlaces, Ran, compiled, policy_use};
use super::{Outputs, RunArgs};
use std::process::ExitCode;
use weft_cli::control::ControlSocket;
use weft_cli::output::{self, OutputTarget};
use weft_cli::signals::{Removes, Stop};
use weft_control::ClientError;
use weft_facts::record::Document;
use weft_facts::status::ServiceStatus;
use weft_host::perf_event::Clock;
use weft_profile::attach::{self, AttachOptions, Attached, By, Of, ProfileCaller};
use weft_profile::stacks;
use weft_report::profile::attached::{AttachedReport, PolicyUse, RowKind, attached_html};
use weft_run::host_facts;

/// The options of a profile of what runs now.
#[derive(Debug, clap::Args)]
pub(super) struct AttachArgs {
    /// Profile what runs on the host now, without generated traffic, for --span or until Ctrl-C
    #[arg(
        long,
        help_heading = "Attached",
        conflicts_with_all = ["pattern", "flows", "rpc", "to", "levels", "repeats", "warm_up", "loaded"]
    )]
    pub(super) attach: bool,
    /// Only the time of this process
    // A pattern waives what `requires` says, since it conflicts with --attach.
    #[arg(
        long,
        value_name = "PID",
        requires = "attach",
        conflicts_with = "pattern",
        help_heading = "Attached"
    )]
    pid: Option<u32>,
    /// Only the time of processes in this cgroup or below, such as /system.slice/nginx.service
    #[arg(long, value_name = "PATH", requires = "attach", conflicts_with_all = ["pattern", "pid"], help_heading = "Attached")]
    cgroup: Option<String>,
    /// Rows of the table: processes or cgroups
    #[arg(
        long,
        value_enum,
        default_value_t,
        requires = "attach",
        conflicts_with = "pattern",
        help_heading = "Attached"
    )]
    by: ByName,
    /// Number of processes or cgroups in the table; the others are one row
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        requires = "attach",
        conflicts_with = "pattern",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        help_heading = "Attached"
    )]
    top: u16,
    #[command(flatten)]
    socket: ControlSocket,
}

/// The rows of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
enum ByName {
    /// Processes.
    #[default]
    Process,
    /// Cgroups.
    Cgroup,
}

/// Runs the command.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let Outputs { json, html, folded, speedscope } = &args.outputs;
    let [json, html, folded, speedscope] =
        [json, html, folded, speedscope].map(|path| OutputTarget::open(path.as_deref()));
    let (json, html, folded, speedscope) = (json?, html?, folded?, speedscope?);
    let categories = super::run::categories(args.categories.as_deref())?;
    let options = options(args);
    let stop = Stop::install(Removes::Nothing)?;
    let before = daemon(&args.attach.socket)?;
    let measuring = || output::note(&format!("measuring for {}; Ctrl-C ends it and reports", options.span));
    let caller = ProfileCaller { measuring: &measuring, stop: &|| stop.asked() };
    let Attached { mut report, flames, senders } =
        attach::run(&options, &categories, host_facts::detect(), caller)?;
    if let Some(before) = &before {
        let ran: Vec<Ran<'_>> =
            senders.iter().map(|sender| Ran { task: sender.task.as_ref(), time: &sender.time }).collect();
        add_policies(&args.attach.socket, before, &ran, &mut report);
    } else if report.rows.iter().any(|row| row.kind == RowKind::Weft) {
        report
            .labels
            .push("a data path runs without a daemon that answers, so its classes have no names".to_owned());
    }
    output::tables(&report.tables(), &json)?;
    html.write(&attached_html(&report, &flames))?;
    folded.write(&stacks::folded(&flames))?;
    speedscope.write(&stacks::speedscope(&flames).to_string())?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &RunArgs) -> AttachOptions {
    let of = match (&args.attach.pid, &args.attach.cgroup, &args.device) {
        (Some(pid), ..) => Of::Process(*pid),
        (None, Some(path), _) => Of::Cgroup(path.clone()),
        (None, None, Some(device)) => Of::Device(device.clone()),
        (None, None, None) => Of::Host,
    };
    AttachOptions {
        of,
        span: args.span,
        clock: args.clock.map(Clock::from),
        rate: args.rate,
        by: match args.attach.by {
            ByName::Process => By::Process,
            ByName::Cgroup => By::Cgroup,
        },
        top: usize::from(args.attach.top),
    }
}

/// The counters of a daemon; `None` if none runs. A daemon that cannot be asked is a note, since the profile needs none.
fn daemon(socket: &ControlSocket) -> anyhow::Result<Option<ServiceStatus>> {
    match socket.try_connect().and_then(|mut client| client.status()) {
        Ok(status) => Ok(Some(status)),
        Err(ClientError::NoDaemon { .. }) => Ok(None),
        Err(error) => {
            output::note(&format!("without classes: {error}"));
            Ok(None)
        }
    }
}

/// Adds the classes of each uplink's policy.
fn add_policies(
    socket: &ControlSocket,
    before: &ServiceStatus,
    ran: &[Ran<'_>],
    report: &mut AttachedReport,
) {
    let after = match socket.try_connect().and_then(|mut client| client.status()) {
        Ok(after) => after,
        Err(error) => return report.labels.push(format!("without classes: {error}")),
    };
    for now in after.each() {
        let was = before.each().into_iter().find(|was| was.uplink.name == now.uplink.name);
        match was.map(|was| of_uplink(socket, was, now, ran)) {
            Some(Ok(policy)) => report.policies.push(policy),
            Some(Err(error)) => report.labels.push(format!("without classes: {error:#}")),
            None => report.labels.push("an uplink came during the span; its classes are left out".to_owned()),
        }
        if was.is_some_and(|was| was.generation != now.generation) {
            report.labels.push(format!("policy {} was replaced during the span", now.policy));
        }
    }
}

fn of_uplink(
    socket: &ControlSocket,
    was: &ServiceStatus,
    now: &ServiceStatus,
    ran: &[Ran<'_>],
) -> anyhow::Result<PolicyUse> {
    let config = socket.try_connect()?.about(now.uplink.name.clone()).config()?;
    Ok(policy_use(&compiled(config)?, &PortPlaces::of(now), (was, now), ran))
}
