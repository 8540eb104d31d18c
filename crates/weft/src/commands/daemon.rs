//! `weft daemon`: a policy enforced as a service, controlled over a socket.

use crate::output;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_host::require_network_rights;
use weft_service::daemon::{self, Options};

/// Enforce a policy as a service, with ports that come and go, until SIGTERM.
///
/// Reads /etc/weft/weft.toml and its drop-ins. SIGHUP reads them again. `weft status`, `weft top`, `weft policy load` and
/// `weft port` talk to it over its control socket. It writes log lines to standard error, and needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft daemon --check
  weft daemon
  weft daemon --config my.toml --socket /run/my/io.weft

A configuration:
  uplink = \"eth0\"
  policy = \"tenants\"        # /etc/weft/policies/tenants.weft
  [[ports]]
  name = \"weft0\"
  addresses = [\"192.0.2.10/24\"]

docs/operating.md is the guide.")]
pub(crate) struct Args {
    /// The configuration, in place of /etc/weft/weft.toml; its drop-ins are FILE.d/*.conf.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The control socket, in place of the configured one.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Check the configuration and its policy, and change nothing.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options { config: args.config.clone(), socket: args.socket.clone() };
    if args.check {
        let lines = daemon::check(&options)?;
        output::print(&lines.into_iter().map(|line| line + "\n").collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    require_network_rights()?;
    daemon::run(&options)?;
    // A service that was asked to stop has not failed.
    Ok(ExitCode::SUCCESS)
}
