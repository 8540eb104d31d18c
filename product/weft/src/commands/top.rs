//! `weft top`: what a running daemon or a policy in the kernel does, again and again.
//!
//! A separate thread waits for the readings, so that a key or a signal ends the command at once.

use super::apply::AtDevice;
use crate::live::top::{TopView, events};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output;
use weft_cli::screen::Screen;
use weft_cli::signals::{Removes, Stop};
use weft_cli::{terminal, values};
use weft_control::interface::ServiceStatus;
use weft_facts::human;
use weft_facts::status::reasons;
use weft_units::Nanos;

/// The longest time that a signal waits.
const LOOK: Duration = Duration::from_millis(100);

/// Watch a running daemon, or a policy in the kernel: rates against shares, backlogs, delays and drops, for classes, limits and ports.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft top
  weft top --interval 500ms
  weft top --uplink wan
  weft top --device eth0
  weft top --plain --count 3")]
pub(crate) struct Args {
    #[command(flatten)]
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
    #[command(flatten)]
    at: AtDevice,
    /// The time between two readings.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::span)]
    interval: Nanos,
    /// End after this number of readings.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print plain lines instead of the live view.
    #[arg(long)]
    plain: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let args = Arc::new(args);
    let mut next = readings(&args)?;
    let (send, replies) = channel();
    std::thread::Builder::new()
        .name("weft-top".to_owned())
        .spawn(move || while send.send(next()).is_ok() {})
        .map_err(|e| anyhow::anyhow!("cannot start the thread that waits for readings: {e}"))?;
    let stop = Stop::install(Removes::Nothing)?;
    let result = watch(&args, &replies, &stop);
    result?;
    // Ending it is how it is used.
    Ok(ExitCode::SUCCESS)
}

/// A function that waits for the next reading, of the interface that is named, or of the daemon.
fn readings(args: &Arc<Args>) -> anyhow::Result<Box<dyn FnMut() -> anyhow::Result<ServiceStatus> + Send>> {
    // The first reading shows whether there is something to watch.
    if args.at.status(Nanos::ZERO)?.is_some() {
        let args = Arc::clone(args);
        return Ok(Box::new(move || {
            args.at.status(args.interval)?.ok_or_else(|| anyhow::anyhow!("no interface is named"))
        }));
    }
    let mut client = args.socket.connect_about(&args.uplink)?;
    let interval = Duration::from(args.interval);
    told(client.monitor(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)))?;
    Ok(Box::new(move || told(client.next_status())))
}

fn watch(args: &Args, replies: &Receiver<anyhow::Result<ServiceStatus>>, stop: &Stop) -> anyhow::Result<()> {
    let live = !args.plain && terminal::possible();
    let screen = live.then(|| Screen::open(TopView::default(), stop)).transpose()?;
    let mut count = 0;
    while !stop.asked() && args.count.is_none_or(|most| count < most) {
        let status = match replies.recv_timeout(LOOK) {
            Ok(status) => status?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the readings ended"),
        };
        count += 1;
        match &screen {
            Some(screen) => screen.update(|view| view.status = status),
            None => output::print(&status.each().into_iter().map(lines).collect::<String>())?,
        }
    }
    Ok(())
}

/// A reading of an uplink in plain lines: the daemon, and each class, limit and port.
fn lines(status: &ServiceStatus) -> String {
    let rate = |bps: Option<f64>| human::or_none(bps, human::rate);
    let mut text = format!("{}\n", status.headline());
    for c in &status.classes {
        text.push_str(&format!(
            "class {} {} of {}, waiting {}, delay p99 {}, dropped {}\n",
            c.class,
            human::rate(c.bps),
            rate(c.entitled_bps),
            human::bytes(c.backlog_bytes as f64),
            human::or_none(c.sojourn_s, |s| human::time(s.p99)),
            reasons(&c.dropped)
        ));
    }
    if let Some(events) = events(status) {
        text.push_str(&format!("counted {events}\n"));
    }
    for l in &status.limits {
        text.push_str(&format!("limit {} {} of {}\n", l.limit, rate(l.bps), human::rate(l.limit_bps)));
    }
    for p in &status.ports {
        text.push_str(&format!(
            "port {} sent {}, received {}, dropped {}\n",
            p.port,
            human::count(p.sent_packets),
            human::count(p.received_packets),
            human::count(p.dropped_packets)
        ));
    }
    text
}
