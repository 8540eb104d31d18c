//! `weft policy explain`: the fate of one packet under a policy.

use crate::commands::apply::AtDevice;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_cli::values;
use weft_control::Client;
use weft_facts::human;
use weft_facts::policy_explain::{
    ExplainedLimit, ExplainedRank, ExplainedStep, ExplainedWaiting, PolicyExplainReport,
};
use weft_facts::record::Document;
use weft_facts::status::ServiceStatus;
use weft_policy::explain::{DescribedPacket, Explanation, PacketRank, Step, Turn};
use weft_policy::{CompileOptions, CompiledPolicy, Source, explain_with};
use weft_rank::Eligibility;
use weft_run::host_facts;
use weft_sched::program::LeafDiscipline;
use weft_service::policy;
use weft_service::wait_reasons::reasons;
use weft_units::{BitsPerSec, Bytes, LaneId, Nanos};

/// Explain what a policy does with a packet: class, row, path, limits, guaranteed rate.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy explain my.weft 'tcp 192.0.2.1:1234 > 192.0.2.2:80'
  weft policy explain my.weft 'tcp from 192.0.2.1 sport 1234 to 192.0.2.2 dport 80'
  weft policy explain my.weft --packet 'udp [2001:db8::1]:9 > [2001:db8::2]:53 mark 3 cgroup /web'
  weft policy explain my.weft --packet 'icmp 192.0.2.1 > 192.0.2.2' --rate 10gbps --json -
  weft policy explain --live --packet 'tcp 192.0.2.1:1234 > 192.0.2.2:80'

With --live it asks the daemon for the policy in force, and says why packets of the class wait now. With --device it does
so for a policy in the kernel.")]
pub(crate) struct Args {
    /// The policy; with --live that of the daemon if none is given.
    #[arg(required_unless_present_any = ["live", "device"])]
    file: Option<PathBuf>,
    /// The packet: protocol, addresses with their ports, and what else is known (mark, priority, cgroup, port; for algorithms
    /// length, deadline, slack, late, txtime, left, pace).
    #[arg(long, value_name = "TEXT", required_unless_present = "described")]
    packet: Option<DescribedPacket>,
    /// The packet, as `--packet` takes it.
    #[arg(value_name = "PACKET", conflicts_with = "packet")]
    described: Option<DescribedPacket>,
    /// The link's rate, in place of the policy's `link`.
    #[arg(long, value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// Ask the running daemon for what waits now, and why.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
    #[command(flatten)]
    at: AtDevice,
    /// Write the explanation to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The time over which rates at an interface are measured.
const WINDOW: Nanos = Nanos::from_millis(250);

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let status = match args.at.status(WINDOW)? {
        None if args.live => Some(told(daemon(args)?.status())?),
        other => other,
    };
    let text = match (&args.file, args.at.policy()?) {
        (Some(file), _) => PolicyText::read(file)?,
        (None, Some(text)) => text,
        (None, None) => {
            let reply = told(daemon(args)?.config())?;
            PolicyText { name: reply.policy, text: reply.text }
        }
    };
    let of_daemon = status.as_ref().and_then(|status| status.uplink.rate_bps);
    let link = args.rate.or_else(|| of_daemon.map(|bps| BitsPerSec(bps as u64)));
    let (policy, tenants) = text.load_whole(&CompileOptions { link, ..CompileOptions::default() })?;
    let source = Source { name: &text.name, text: &text.text };
    let Some(packet) = args.packet.as_ref().or(args.described.as_ref()) else {
        anyhow::bail!("a packet is missing; give one as `--packet TEXT`");
    };
    let explanation = explain_with(source, &tenants, &policy, packet);
    let waiting = status.map(|status| waiting(&text, &policy, &explanation, &status)).transpose()?;
    if !json.is_stdout() {
        let now = waiting.as_ref().map_or_else(String::new, described);
        output::print(&format!("{explanation}{now}"))?;
    }
    json.write_json(&report(&text.name, explanation, waiting))?;
    Ok(ExitCode::SUCCESS)
}

fn daemon(args: &Args) -> anyhow::Result<Client> {
    args.socket.connect_about(&args.uplink)
}

/// The packets of the class that wait, by the daemon's counters.
fn waiting(
    text: &PolicyText,
    policy: &CompiledPolicy,
    explanation: &Explanation,
    status: &ServiceStatus,
) -> anyhow::Result<ExplainedWaiting> {
    if status.policy_hash != policy::hash(&text.text) {
        anyhow::bail!(
            "there is another policy in force, {} of generation {}; leave {} out to explain that one",
            status.policy,
            status.generation,
            text.name
        );
    }
    let class = status.classes.iter().find(|class| class.class == explanation.class);
    let class = class.cloned().unwrap_or_default();
    let reasons = reasons(policy, LaneId::from_index(explanation.lane), status);
    Ok(ExplainedWaiting {
        backlog_bytes: class.backlog_bytes,
        bps: class.bps,
        entitled_bps: class.entitled_bps,
        sojourn_p99_s: class.sojourn_s.map(|sojourn| sojourn.p99),
        reasons: reasons.iter().map(ToString::to_string).collect(),
    })
}

fn described(waiting: &ExplainedWaiting) -> String {
    let ExplainedWaiting { backlog_bytes, bps, entitled_bps, sojourn_p99_s, reasons } = waiting;
    let entitled = entitled_bps.map_or_else(String::new, |due| format!(" of {} due", human::rate(due)));
    let sojourn =
        sojourn_p99_s.map_or_else(String::new, |s| format!(", 99 of 100 packets within {}", human::time(s)));
    let mut text = format!(
        "now        {} wait, {} leave{entitled}{sojourn}\n",
        Bytes(*backlog_bytes),
        human::rate(*bps)
    );
    for (number, reason) in reasons.iter().enumerate() {
        let title = if number == 0 { "because" } else { "" };
        text += &format!("{title:<10} {reason}\n");
    }
    text
}

fn report(file: &str, e: Explanation, waiting: Option<ExplainedWaiting>) -> PolicyExplainReport {
    let limits = e.limits.into_iter().map(|limit| ExplainedLimit {
        name: limit.name,
        limit_bps: limit.rate.get(),
        burst_bytes: limit.burst.get(),
    });
    PolicyExplainReport {
        schema: PolicyExplainReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        file: file.to_owned(),
        packet: e.packet,
        class: e.class,
        line: e.definition.as_ref().map(|definition| definition.line),
        definition_file: e.definition.as_ref().and_then(|definition| definition.file.clone()),
        definition: e.definition.map(|definition| definition.text),
        row: e.row,
        tests: e.tests,
        to: e.to.map(|to| to.to_string()),
        lane: e.lane,
        path: e.path.into_iter().map(step).collect(),
        leaf: e.leaf,
        fair: e.discipline == LeafDiscipline::Fair,
        beside: e.beside,
        ranks: e.ranks.into_iter().map(rank).collect(),
        limits: limits.collect(),
        link_bps: e.link.map(BitsPerSec::get),
        guaranteed_bps: e.guaranteed.map(BitsPerSec::get),
        bound_packets: e.bound.get(),
        notes: e.notes,
        waiting,
    }
}

fn rank(of: PacketRank) -> ExplainedRank {
    let (first, second) = of.rank.unzip();
    let (from_ns, from_virtual) = match of.from {
        Some(Eligibility::Time(time)) => (Some(time.as_nanos()), None),
        Some(Eligibility::VirtualTime(time)) => (None, Some(time)),
        None => (None, None),
    };
    let (node, algorithm, sees_packet) = (of.node, of.algorithm, of.sees_packet);
    ExplainedRank { node, algorithm, first, second, from_ns, from_virtual, sees_packet }
}

fn step(step: Step) -> ExplainedStep {
    let algorithm = match &step.turn {
        Turn::Algorithm { .. } => Some(step.turn.to_string()),
        _ => None,
    };
    let (place, children, weight, weights) = match step.turn {
        Turn::Priority { place, of } => (Some(place), Some(of), None, None),
        Turn::Weight { weight, of } => (None, None, Some(weight), Some(of)),
        Turn::Algorithm { .. } => (None, None, None, None),
    };
    ExplainedStep { node: step.node, place, children, weight, weights, algorithm }
}
