//! `weft daemon`: a policy enforced as a service, controlled over a socket.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::failure::{self, Reported};
use weft_cli::output;
use weft_host::require_network_rights;
use weft_service::daemon::gate::{self, GateReport};
use weft_service::daemon::{self, DaemonError, DaemonOptions};

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
    /// Check the configuration, its policies, and the interfaces, namespaces and names on this host, and change nothing. The exit
    /// code is 1 if the daemon would not start, or start without a port.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = DaemonOptions { config: args.config.clone(), socket: args.socket.clone() };
    if args.check {
        return check(&options);
    }
    require_network_rights()?;
    daemon::run(&options).map_err(told)?;
    // A service that was asked to stop has not failed.
    Ok(ExitCode::SUCCESS)
}

/// Says what would run, or all that is wrong. The last line is the reason of a failure.
fn check(options: &DaemonOptions) -> anyhow::Result<ExitCode> {
    let GateReport { lines, notes, mistakes } = gate::report(options);
    if mistakes.is_empty() {
        output::print(&lines.into_iter().map(|line| line + "\n").collect::<String>())?;
    }
    notes.iter().for_each(|note| output::note(note));
    let failed = !mistakes.is_empty();
    for mistake in mistakes {
        failure::report(&told(mistake));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// An error of the daemon. One that has its place in a file is printed as it is.
fn told(error: DaemonError) -> anyhow::Error {
    if error.has_place() {
        output::message(&error.to_string());
        return Reported.into();
    }
    error.into()
}
