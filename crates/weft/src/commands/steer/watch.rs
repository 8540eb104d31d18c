//! `weft steer watch`.

use super::Problem;
use crate::output;
use crate::signals::Stop;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_host::NetNs;
use weft_run::steering::input;
use weft_run::steering::watch::Watch;
use weft_steer::Configuration;
use weft_steer::search::Planner;
use weft_units::Nanos;

/// Follow the sockets of a network namespace with a plan, and print its changes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer watch --nic virtio-net --policy balance
  weft steer watch --nic e810 --policy 'isolate hp on 4 queues' --netns web --interval 200ms --duration 60

It only says what it would change. `weft steer apply` brings a plan to a NIC.")]
pub(super) struct Args {
    #[command(flatten)]
    problem: Problem,
    /// The network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Interval between readings of the sockets; a bare number is seconds.
    #[arg(long, default_value = "1s", value_parser = crate::values::span)]
    interval: Nanos,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = crate::values::span)]
    duration: Option<Nanos>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let planner = Planner::new(nic, policy, args.problem.options())?;
    let ns = match &args.netns {
        Some(name) => NetNs::named(name)?,
        None => NetNs::current()?,
    };
    let mut watch = Watch::new(&ns, planner, Configuration::default())?;
    let stop = Stop::install()?;
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
