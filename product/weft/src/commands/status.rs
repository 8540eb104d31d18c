//! `weft status`: the counters of a running daemon, or of a policy in the kernel.

use super::apply::AtDevice;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output::{self, OutputTarget};
use weft_cli::values;
use weft_facts::record::Document;
use weft_facts::status::StatusReport;
use weft_run::host_facts;
use weft_units::Nanos;

/// Show what a running daemon does: classes, limits, ports. With --device, what a policy in the kernel does there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft status
  weft status --uplink wan
  weft status --device eth0
  weft status --json -")]
pub(crate) struct Args {
    #[command(flatten)]
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
    #[command(flatten)]
    at: AtDevice,
    /// The time over which the rates of a policy in the kernel are measured.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::span)]
    window: Nanos,
    /// Write the counters to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let status = match args.at.status(args.window)? {
        Some(status) => status,
        None => told(args.socket.connect_about(&args.uplink)?.status())?,
    };
    let schema = StatusReport::SCHEMA.to_owned();
    let report = StatusReport { schema, host: host_facts::detect(), status };
    if !json.is_stdout() {
        output::tables(&report.tables(), &json)?;
    }
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}
