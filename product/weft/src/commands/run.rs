//! `weft run`: a policy enforced on this host's own traffic, or a plain multiqueue NIC in its way.
//!
//! 1. Flags and policy are read and checked; `Settings` and the plan follow. Nothing has been changed on the host so
//!    far, and `--dry-run` ends here.
//! 2. The JSON file is opened and signals are caught, before any device exists: a wrong path costs no run, and Ctrl-C
//!    never leaves a device behind.
//! 3. Devices of killed runs are removed, since one may have the port's name. Then the uplink is checked.
//! 4. `Session::start` makes port, rings and NIC. From here on the session owns everything on the host; drop removes
//!    it.
//! 5. The loop polls the session every 100 ms, until a signal, the end of `--duration`, or the NIC's own end. It only
//!    reads counters: no packet waits for it.
//! 6. `Session::finish` drains the port for up to 2 s, removes everything, and returns the report. It runs also after
//!    an error in the loop, so that the counters are written and the error is reported last.
//!
//! The exit code is 1 if the report's accounting does not balance: a lost packet must not look like success. After a
//! signal it is the signal's.
//!
//! Rare branches: missing cgroups warn, by name; failed readings, drops and a worker at its limit have counters in
//! [`ServiceStatus`], shown in each line; strays, lost packets and drops by reason are in the report. An early end of the
//! NIC is an error.

mod log;

use crate::live::run::RunView;
use core::net::IpAddr;
use core::num::NonZeroUsize;
use log::Log;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::screen::Screen;
use weft_cli::signals::{Removes, Stop};
use weft_cli::terminal;
use weft_cli::{failure, values};
use weft_facts::human;
use weft_facts::record::Document;
use weft_facts::status::ServiceStatus;
use weft_host::{Mac, NetNs, cleanup_stale, require_network_rights};
use weft_nic::departures::DepartureLog;
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::promise::{About, Refusal};
use weft_policy::{CompileOptions, CompiledPolicy};
use weft_run::place::{Place, refusal};
use weft_run::session::{Inner, ONE_CLASS, PortKind, Queues, Receive};
use weft_run::session::{
    Session, SessionSettings, UNKNOWN_RATE, describe_plan, missing_cgroups, sees_cgroups,
};
use weft_units::{BitsPerSec, Nanos};

/// Interval between readings of the counters.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit for the port to drain at the end.
const GRACE: Nanos = Nanos::from_secs(2);

/// Enforce a policy on a port that applications and containers can use, or make that port a plain multiqueue NIC.
///
/// Makes a network device (the port) whose packets are scheduled by the policy and leave through an existing
/// interface. The policy is enforced until Ctrl-C, which removes everything again. Needs root. A policy's cgroups are
/// relative to the root of the cgroup hierarchy; they may be made and removed while it runs.
///
/// With --queues the NIC has no policy, but hardware queues that are filled by hash and served in turn. `weft titan
/// attach` then assigns flows to the queues and weights them.
#[derive(Debug, clap::Args)]
#[command(override_usage = "weft run <POLICY> --uplink <INTERFACE> [OPTIONS]
       weft run --queues <N> --uplink <INTERFACE> --rate <RATE> [OPTIONS]")]
#[command(after_help = "\
Examples:
  weft run my.weft --uplink eth0 --dry-run
  weft run my.weft --uplink eth0 --address 192.0.2.10/24
  weft run my.weft --uplink eth0 --address 192.0.2.10/24 --rate 900mbps
  weft run my.weft --uplink eth0 --netns web --name eth1 --duration 60 --json counters.json
  weft run my.weft --uplink eth0 --duration 10 --trace way.pftrace --departures departures.parquet
  weft run my.weft --uplink eth0 --rate 900mbps --workers 2 --dry-run
  weft run --queues 8 --uplink eth0 --rate 900mbps --address 192.0.2.10/24
  weft titan attach weft0          # in another terminal, while that runs

Without a rate, packets wait until the uplink has room, and the policy decides their order. With the rate of the
real link, or a little less, they wait here only. An uplink that drops what it cannot send (a TAP) needs a rate.
The port follows its uplink's MTU and carrier. As with any
macvlan, the host itself reaches the port only through the network.

The exit code is 1 when packets or bytes are not accounted for at the end.")]
pub(crate) struct Args {
    /// The policy.
    #[arg(required_unless_present = "queues", conflicts_with = "queues")]
    policy: Option<PathBuf>,
    /// Number of hardware queues, served in turn, in place of a policy.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    queues: Option<u16>,
    /// Sharing of a hardware queue among its flows: first in first out, or fair by bytes [default: fifo]
    #[arg(long, value_name = "fifo|sfq", requires = "queues", conflicts_with = "policy", value_parser = inner)]
    inner: Option<Inner>,
    /// The existing interface that packets leave through.
    #[arg(long, value_name = "INTERFACE")]
    uplink: String,
    /// The port's name.
    #[arg(long, default_value = "weft0")]
    name: String,
    /// The network namespace for the port, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// The network namespace of the uplink's interface [default: this one]
    #[arg(long, value_name = "NAME")]
    uplink_netns: Option<String>,
    /// An address for the port; may be repeated.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = values::address)]
    address: Vec<(IpAddr, u8)>,
    /// The port's hardware address [default: a random one]
    #[arg(long)]
    mac: Option<Mac>,
    /// The link's rate; without it the policy's `link`. Without both, packets leave as fast as the uplink takes them.
    /// Required with --queues.
    #[arg(long, value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// The most link time that a super-packet takes in one turn; the rest waits for the next [default: the least
    /// `latency` of the policy's classes, or 1ms while a class that is below its share also sends]
    #[arg(long, value_name = "TIME", value_parser = values::span, conflicts_with = "queues")]
    piece: Option<Nanos>,
    /// The most segments of a super-packet that are sent per turn: a number, or `whole`.
    #[arg(long, alias = "grain", default_value = "whole", value_parser = values::segments_per_turn, conflicts_with = "queues")]
    segments_per_turn: SegmentsPerTurn,
    /// Number of transmit workers (threads) that share the policy. Each port belongs to one, so the one port of this command keeps one
    /// busy; a daemon's ports are divided among them. Several need a rate, and no user-defined algorithms.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64), conflicts_with = "queues")]
    workers: u8,
    /// Number of the port's descriptor rings.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=256), conflicts_with = "queues")]
    rings: u16,
    /// The most that the link's clock may lag behind the wall clock; link time beyond it is lost.
    #[arg(long, default_value = "10ms", value_parser = values::span)]
    catch_up: Nanos,
    /// The kind of port: a veth with a macvtap, or a TAP that holds senders back (Linux 7.3).
    #[arg(long, value_name = "veth|tap|auto", default_value = "auto", value_parser = port, hide = true)]
    port: PortKind,
    /// The carrier of received packets to the port: the kernel where it can (auto), the kernel only, or a thread.
    #[arg(long, value_name = "auto|kernel|thread", default_value = "auto", value_parser = receive)]
    receive: Receive,
    /// Stop after this time (a bare number is seconds).
    #[arg(long, value_parser = values::span)]
    duration: Option<Nanos>,
    /// Write the counters to a file as JSON at the end (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a row for each departure to a file, while it runs: as Parquet (.parquet), otherwise as CSV. Columns: docs/traces.md
    #[arg(long, value_name = "FILE")]
    departures: Option<PathBuf>,
    /// Write the packets' way through the NIC to a file as a Perfetto trace (.pftrace), while it runs.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print what would be created and enforced, and change nothing. Where the run would fail, the exit code is 1 and the last
    /// line has the reason.
    #[arg(long)]
    dry_run: bool,
    /// Print plain lines instead of the live view.
    #[arg(long)]
    plain: bool,
}

fn inner(text: &str) -> Result<Inner, String> {
    match text {
        "fifo" => Ok(Inner::Fifo),
        "sfq" => Ok(Inner::Fair),
        _ => Err("the queue discipline is `fifo` or `sfq`".to_owned()),
    }
}

fn port(text: &str) -> Result<PortKind, String> {
    match text {
        "veth" => Ok(PortKind::Veth),
        "tap" => Ok(PortKind::Tap),
        "auto" => Ok(PortKind::Auto),
        _ => Err("the kind of port is `veth`, `tap` or `auto`".to_owned()),
    }
}

fn receive(text: &str) -> Result<Receive, String> {
    match text {
        "auto" => Ok(Receive::Auto),
        "kernel" => Ok(Receive::Kernel),
        "thread" => Ok(Receive::Thread),
        _ => Err("the receive direction is `auto`, `kernel` or `thread`".to_owned()),
    }
}

/// Warns of missing cgroups, and notes the packets that no cgroup class matches.
fn warn_of_cgroups(policy: &CompiledPolicy) {
    if policy.cgroups.is_empty() {
        return;
    }
    if !sees_cgroups() {
        output::warn(
            "the cgroup hierarchy is not visible here and cannot be mounted, so no rule of a cgroup matches; mount it with: \
             mount -t cgroup2 none /sys/fs/cgroup",
        );
        return;
    }
    for cgroup in missing_cgroups(policy) {
        output::warn(&format!(
            "this host has no cgroup {cgroup} yet: its rules match nothing until it is created"
        ));
    }
    output::note(
        "cgroup classes match packets from sockets of this host; packets that are only routed through it, such as those of a \
         container with its own network, have no socket here",
    );
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = CompileOptions { link: args.rate, ..CompileOptions::default() };
    let text = match &args.policy {
        Some(path) => PolicyText::read(path)?,
        None => PolicyText::built_in("multiqueue", ONE_CLASS),
    };
    let policy = text.load(&options)?;
    let settings = args.settings(&policy)?;
    let plan = settings.plan(&policy).map_err(|error| match refusal(&error, &policy) {
        Refusal { about: About::Surroundings, .. } => error.into(),
        refusal => text.refused_by(Place::Port, &refusal),
    })?;
    warn_of_cgroups(&policy);
    if args.dry_run {
        output::print(&describe_plan(&settings, &plan))?;
        match require_network_rights() {
            Ok(()) => settings.check_host()?,
            // Not even a namespace can be read then.
            Err(error) => {
                output::note(&format!("interfaces, namespaces and names were not looked at: {error}"))
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    require_network_rights()?;
    let json = OutputTarget::open(args.json.as_deref())?;
    let mut log = Log::open(args.departures.as_deref(), args.trace.as_deref(), &args.uplink)?;
    let stop = Stop::install(Removes::Made)?;
    // Before anything is made: a device of a killed run may have the port's name.
    clean(&args)?;
    settings.check_host()?;
    let mut session = Session::start(&policy, &settings)?;
    session.notes().iter().for_each(|note| output::note(note));
    // Otherwise among the notes.
    if let Some(path) = session.receive_path().filter(|path| path.fallback().is_none()) {
        output::message(&format!("receive: {path}"));
    }
    let mut later = Vec::new();
    let result = watch(&args, &settings, (&mut session, &mut log), &stop, json.is_stdout(), &mut later);
    later.iter().for_each(|line| output::warn(line));
    let classes = session.class_names().to_vec();
    let finished = session.finish_with_log(GRACE);
    let none = DepartureLog::default();
    // Also after an error: what was written can then be read.
    let logged = log.finish(finished.as_ref().map_or(&none, |(_, rest)| rest), &classes);
    let (report, _) = finished?;
    output::tables(&report.tables(), &json)?;
    if let Some(path) = json.write_json(&report)? {
        output::message(&format!("counters: {}", path.display()));
    }
    result?;
    logged?;
    if stop.asked() {
        output::message("interrupted; everything was removed");
    }
    let broken = report.conservation.imbalances();
    broken.iter().for_each(|violation| output::warn(&format!("the accounting is broken: {violation}")));
    Ok(if broken.is_empty() { stop.exit_code() } else { ExitCode::FAILURE })
}

/// Removes the remains of killed runs, here and in the namespaces of this run.
fn clean(args: &Args) -> anyhow::Result<()> {
    let mut reports = vec![cleanup_stale()];
    for name in [&args.netns, &args.uplink_netns].into_iter().flatten() {
        reports.push(NetNs::named(name)?.run(cleanup_stale)?);
    }
    for report in reports.iter().filter(|report| !report.is_empty()) {
        output::note(&report.to_string());
    }
    Ok(())
}

/// The changes at the port since the last call, and the warnings that hold now and did not before.
fn news(session: &Session, warned: &mut Vec<String>) -> Vec<String> {
    let warnings = session.warnings();
    let new = warnings.iter().filter(|warning| !warned.contains(warning)).cloned();
    let news = session.take_changes().into_iter().chain(new).collect();
    *warned = warnings;
    news
}

/// Shows the counters until the run is to end. A live view has no room for news, which are for `later` then.
fn watch(
    args: &Args,
    settings: &SessionSettings,
    (session, log): (&mut Session, &mut Log),
    stop: &Stop,
    quiet: bool,
    later: &mut Vec<String>,
) -> anyhow::Result<()> {
    let rate = match settings.link {
        LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }) => "its own rate".to_owned(),
        _ => settings.rate.to_string(),
    };
    let title = format!("weft run · {} by {} at {rate}", settings.name, settings.uplink);
    let live = !args.plain && !quiet && terminal::possible();
    let screen = match live {
        true => Some(Screen::open(RunView { title, status: ServiceStatus::default() }, stop)?),
        false => {
            output::message(&title);
            None
        }
    };
    let end = args.duration.map(|span| Instant::now() + Duration::from(span));
    let (mut next_line, mut warned) = (1.0, session.warnings());
    while !stop.asked() && end.is_none_or(|end| Instant::now() < end) {
        if !session.is_running() {
            anyhow::bail!("the devices of port {} were deleted; everything was removed", settings.name);
        }
        let status = session.status()?;
        let news = news(session, &mut warned);
        match live {
            true => later.extend(news),
            false => news.iter().for_each(|line| output::warn(line)),
        }
        log.write(&session.take_departures(), session.class_names());
        match &screen {
            Some(screen) => screen.update(|view| view.status = status),
            None if status.uptime_s >= next_line => {
                next_line += 1.0;
                output::message(&line(&status));
            }
            None => {}
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Formats the counters in a line.
fn line(status: &ServiceStatus) -> String {
    let mut line = format!("{:>5} s ", status.uptime_s as u64);
    for class in &status.classes {
        line.push_str(&format!(" {} {} ({} packets)", class.class, human::rate(class.bps), class.packets));
    }
    let waiting = human::bytes(status.classes.iter().map(|class| class.backlog_bytes as f64).sum());
    let (dropped, received) = (status.dropped, status.received_packets);
    line.push_str(&format!(", {waiting} in the NIC, {dropped}, {received} received"));
    if let Some(rate) = status.uplink.observed_bps {
        line.push_str(&format!(", the uplink carries {}", human::rate(rate)));
    }
    if status.worker_bound {
        line.push_str(", limited by the worker and not the link");
    }
    if status.failed_readings > 0 {
        line.push_str(&format!(", {} readings of counters failed", status.failed_readings));
    }
    line
}

impl Args {
    /// Whether departures are written.
    fn logs(&self) -> bool {
        self.departures.is_some() || self.trace.is_some()
    }

    fn settings(&self, policy: &CompiledPolicy) -> anyhow::Result<SessionSettings> {
        if policy.link.is_none() && self.policy.is_none() {
            return Err(failure::usage("--queues needs the link's rate: give --rate 900mbps"));
        }
        let piece = self.piece.or_else(|| policy.least_latency());
        let link = match (self.queues, policy.link) {
            (Some(_), _) => LinkKind::Emulated,
            (None, Some(_)) => LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece }),
            (None, None) => LinkKind::Device(DeviceLink { rate: LinkRate::Observed, piece }),
        };
        Ok(SessionSettings {
            name: self.name.clone(),
            port_netns: self.netns.clone(),
            uplink: self.uplink.clone(),
            uplink_netns: self.uplink_netns.clone(),
            addresses: self.address.clone(),
            mac: self.mac.unwrap_or_else(random_mac),
            rate: policy.link.unwrap_or(UNKNOWN_RATE),
            queues: self.queues.map(|count| Queues { count, inner: self.inner.unwrap_or(Inner::Fifo) }),
            workers: NonZeroUsize::new(usize::from(self.workers)).unwrap_or(NonZeroUsize::MIN),
            link,
            segments_per_turn: self.segments_per_turn,
            rings: usize::from(self.rings),
            catch_up: self.catch_up,
            log: self.logs(),
            port: self.port,
            receive: self.receive,
        })
    }
}

/// Returns a random locally administered address. Two ports on one network must not share one.
fn random_mac() -> Mac {
    let [a, b, c, d, e, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    Mac([2, a, b, c, d, e])
}
