//! `weft policy explain`: the fate of one packet under a policy.

use crate::output::{self, Target};
use crate::policy_file::PolicyText;
use crate::values;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_policy::explain::{DescribedPacket, Explanation, Step, Turn};
use weft_policy::{CompileOptions, Source, explain_with};
use weft_report::policy_explain::{ExplainedLimit, ExplainedStep, PolicyExplainReport};
use weft_report::record::Document;
use weft_run::host_facts;
use weft_sched::program::LeafDiscipline;
use weft_units::BitsPerSec;

/// Explain what a policy does with a packet: class, row, path, limits, guaranteed rate.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy explain my.weft --packet 'tcp 192.0.2.1:1234 > 192.0.2.2:80'
  weft policy explain my.weft --packet 'udp [2001:db8::1]:9 > [2001:db8::2]:53 mark 3 cgroup /web'
  weft policy explain my.weft --packet 'icmp 192.0.2.1 > 192.0.2.2' --rate 10gbps --json -")]
pub(crate) struct Args {
    /// The policy.
    file: PathBuf,
    /// The packet: protocol, addresses with their ports, and what else is known (mark, priority, cgroup, port).
    #[arg(long, value_name = "TEXT")]
    packet: DescribedPacket,
    /// The link's rate, in place of the policy's `link`.
    #[arg(long, value_parser = values::rate)]
    rate: Option<BitsPerSec>,
    /// Write the explanation to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = Target::open(args.json.as_deref())?;
    let text = PolicyText::read(&args.file)?;
    let (policy, tenants) =
        text.load_whole(&CompileOptions { link: args.rate, ..CompileOptions::default() })?;
    let source = Source { name: &text.name, text: &text.text };
    let explanation = explain_with(source, &tenants, &policy, &args.packet);
    if !json.is_stdout() {
        output::print(&explanation.to_string())?;
    }
    json.write_json(&report(&text.name, explanation))?;
    Ok(ExitCode::SUCCESS)
}

fn report(file: &str, e: Explanation) -> PolicyExplainReport {
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
        limits: limits.collect(),
        link_bps: e.link.map(BitsPerSec::get),
        guaranteed_bps: e.guaranteed.map(BitsPerSec::get),
        bound_packets: e.bound.get(),
        notes: e.notes,
    }
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
