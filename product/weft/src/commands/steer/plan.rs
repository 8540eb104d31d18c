//! `weft steer plan` and `weft steer explain`.

use super::Script;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::failure::usage;
use weft_cli::output::{self, OutputTarget};
use weft_cli::steering::Problem;
use weft_facts::record::Document;
use weft_run::steering::{input, planning};
use weft_steer::{Configuration, emit};

/// Plan the queues of flows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer plan --nic intel-82599 --flows flows.csv --policy balance
  weft steer plan --nic mlx5 --flows flows.csv --policy 'isolate hp on 4 queues' --json plan.json
  weft steer plan --nic ethtool-generic --flows flows.csv --policy balance --script ethtool --device eth0

The exit code is 1 when the policy rejects the best plan found.")]
pub(super) struct Args {
    #[command(flatten)]
    problem: Problem,
    /// The flows, as CSV.
    #[arg(long, value_name = "FILE")]
    flows: PathBuf,
    /// Print the plan as commands.
    #[arg(long, value_enum)]
    script: Option<Script>,
    /// The interface in the commands.
    #[arg(long, default_value = "eth0", requires = "script")]
    device: String,
    /// Write the plan to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Plans.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let flows = input::flows(&args.flows)?;
    let from = Configuration::default();
    let planned = planning::plan(&nic, policy, flows, args.problem.options(), &from)?;
    let report = planned.report();
    match args.script {
        Some(dialect) => {
            let script = emit::script(&nic, &from, &planned.changes, &args.device, dialect.into());
            output::print(&script.text())?;
        }
        None => output::tables(&report.tables(), &json)?,
    }
    json.write_json(&report)?;
    Ok(if report.rejected.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Explain a flow's queue: node by node through the NIC.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft steer explain udp,192.0.2.1,7777,192.0.2.9,53 --nic intel-82599 --flows flows.csv --policy balance
  weft steer explain 'tcp,*,*,192.0.2.9,80' --nic e810 --flows flows.csv --policy balance")]
pub(super) struct ExplainArgs {
    /// The flow: PROTO,SRC,SPORT,DST,DPORT, with `*` for any.
    #[arg(value_name = "FLOW")]
    flow: String,
    #[command(flatten)]
    problem: Problem,
    /// The flows to plan for, as CSV; none without it.
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
}

/// Explains a flow's queue.
pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let flow = input::flow(&args.flow)?;
    let nic = input::model(&args.problem.nic)?;
    let policy = input::policy(&args.problem.policy)?;
    let flows = args.flows.as_deref().map(input::flows).transpose()?.unwrap_or_default();
    let planned = planning::plan(&nic, policy, flows, args.problem.options(), &Configuration::default())?;
    let routes = nic.walk(&planned.plan.configuration, &flow.headers);
    if routes.is_empty() {
        return Err(usage(format!("no packet of {} reaches the NIC's graph", args.flow)));
    }
    let mut text = String::new();
    for route in &routes {
        for line in route.explain(&nic, &planned.plan.configuration) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
