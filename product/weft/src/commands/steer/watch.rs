//! `weft steer watch`.

use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_cli::output;
use weft_cli::signals::{Removes, Stop};
use weft_cli::steering::Problem;
use weft_host::NetNs;
use weft_run::steering::input;
use weft_run::steering::watch::SocketWatch;
use weft_service::config::{FlowSource, SteerConfig};
use weft_service::steering::{AfterEnd, KeptSteering};
use weft_steer::Configuration;
use weft_steer::search::Planner;
use weft_units::Nanos;

/// Follow the sockets of a network namespace with a plan, and print its changes.
///
/// With --apply the plan is kept in a NIC: flows that come and go are steered, and settings that others have changed are
/// set again. The end undoes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer watch --nic virtio-net --policy balance
  weft steer watch --nic e810 --policy 'isolate hp on 4 queues' --netns web --interval 200ms --duration 60

  weft steer watch --nic e810 --policy balance --apply eth0

Without --apply it only says what it would change.")]
pub(super) struct Args {
    #[command(flatten)]
    problem: Problem,
    /// The network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Keep the plan in this interface of the namespace, and undo it at the end.
    #[arg(long, value_name = "INTERFACE")]
    apply: Option<String>,
    /// Interval between readings of the sockets; a bare number is seconds.
    #[arg(long, default_value = "1s", value_parser = weft_cli::values::span)]
    interval: Nanos,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = weft_cli::values::span)]
    duration: Option<Nanos>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.apply {
        Some(device) => keep(args, device),
        None => follow(args),
    }
}

/// Keeps the plan in a NIC.
fn keep(args: &Args, device: &str) -> anyhow::Result<ExitCode> {
    let stop = Stop::install(Removes::Made)?;
    let steering = KeptSteering::start(&SteerConfig {
        device: device.to_owned(),
        netns: args.netns.clone(),
        nic: args.problem.nic.clone(),
        policy: args.problem.policy.clone(),
        flows: FlowSource::Sockets,
        options: args.problem.options(),
        interval: args.interval,
    })?;
    let begin = Instant::now();
    let over = || args.duration.is_some_and(|limit| begin.elapsed() >= Duration::from(limit));
    let mut told = None;
    let mut printed = Ok(());
    while !stop.asked() && !over() && printed.is_ok() {
        let status = steering.status();
        if told.as_ref() != Some(&status) {
            printed =
                output::print(&format!("{:8.2} s: {}\n", begin.elapsed().as_secs_f64(), status.headline()));
            told = Some(status);
        }
        wait(args.interval.into(), &stop, &over);
    }
    // Also when no reader is left: what was set is undone.
    steering.end(AfterEnd::Undo);
    printed?;
    Ok(stop.exit_code())
}

/// Prints the changes of the plan.
fn follow(args: &Args) -> anyhow::Result<ExitCode> {
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let planner = Planner::new(nic, policy, args.problem.options())?;
    let ns = match &args.netns {
        Some(name) => NetNs::named(name)?,
        None => NetNs::current()?,
    };
    let mut watch = SocketWatch::new(&ns, planner, Configuration::default())?;
    let stop = Stop::install(Removes::Nothing)?;
    let begin = Instant::now();
    let over = || args.duration.is_some_and(|limit| begin.elapsed() >= Duration::from(limit));
    while !stop.asked() && !over() {
        if let Some(update) = watch.look()? {
            let at = begin.elapsed().as_secs_f64();
            let mut text = format!(
                "{at:8.2} s: {} flows added, {} removed, {} others moved, {} in all, cost {}\n",
                update.added.len(),
                update.removed.len(),
                update.moved,
                watch.len(),
                watch.planner().cost()
            );
            for change in &update.changes.changes {
                text.push_str(&format!("           {change}\n"));
            }
            output::print(&text)?;
        }
        wait(args.interval.into(), &stop, &over);
    }
    Ok(stop.exit_code())
}

/// Sleeps in short intervals, so that Ctrl-C is noticed.
fn wait(time: Duration, stop: &Stop, over: &impl Fn() -> bool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.asked() && !over() {
        std::thread::sleep(Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())));
    }
}
