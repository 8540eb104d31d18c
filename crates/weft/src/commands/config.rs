//! `weft config`: the policy that a running daemon enforces.

use crate::control::{Socket, UplinkName, told};
use crate::output::{self, Target};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_report::config::ConfigReport;
use weft_report::record::Document;
use weft_run::host_facts;

/// Print the policy that a running daemon enforces, as text that `weft policy load` accepts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft config
  weft config > now.weft
  weft config --uplink wan
  weft config --json -")]
pub(crate) struct Args {
    #[command(flatten)]
    socket: Socket,
    #[command(flatten)]
    uplink: UplinkName,
    /// Write the policy to a file as JSON (`-` for standard output), in place of the text.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = Target::open(args.json.as_deref())?;
    let reply = told(args.socket.connect_about(&args.uplink)?.config())?;
    let report = ConfigReport {
        schema: ConfigReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        generation: reply.generation,
        policy_hash: reply.policy_hash,
        policy: reply.policy,
        text: reply.text,
        default_policy: reply.default_policy,
        is_default: reply.is_default,
        uplink: reply.uplink,
    };
    if args.json.is_none() {
        output::print(&report.loadable())?;
    }
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}
