//! `weft config`: the policy that a running daemon enforces.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output::{self, OutputTarget};
use weft_facts::config::ConfigReport;
use weft_facts::ports::PortLimit;
use weft_facts::record::Document;
use weft_facts::status::StatusPort;
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
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
    /// Write the policy to a file as JSON (`-` for standard output), in place of the text.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let mut daemon = args.socket.connect_about(&args.uplink)?;
    let config = told(daemon.config())?;
    let ports = told(daemon.list_ports())?.ports;
    if args.json.is_none() {
        output::print(&limits(&ports))?;
        output::print(&config.loadable())?;
    }
    let (schema, host) = (ConfigReport::SCHEMA.to_owned(), host_facts::detect());
    json.write_json(&ConfigReport { schema, host, config })?;
    Ok(ExitCode::SUCCESS)
}

/// The limits of ports beside the policy, as comments, so that the policy below them can be loaded.
fn limits(ports: &[StatusPort]) -> String {
    let mut text = String::new();
    for port in ports {
        for (option, limit) in [("egress", port.egress_limit), ("ingress", port.ingress_limit)] {
            let Some(PortLimit { rate, burst }) = limit else { continue };
            let (rate, burst) = (rate.get(), burst.get());
            text += &format!("# port {}: --{option}-limit {rate}bps,{burst}\n", port.port);
        }
    }
    text
}
