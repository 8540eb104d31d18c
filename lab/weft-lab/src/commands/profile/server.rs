//! `weft profile server`: the receiving host of measurements between two hosts.

use super::restore::guarded;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output;
use weft_cli::signals::{Removes, Stop};
use weft_host::cleanup_stale;
use weft_profile::hosts::server::{Offered, ProfileServer, ServerEvent};
use weft_profile::hosts::{HostPort, HostsError, protocol};

/// Receive for `weft profile PATTERN --to` of another host, until Ctrl-C.
///
/// When a client asks, it starts iperf3 or sockperf servers, samples this host's processors while the client measures, and returns
/// the figures of this side. It opens no connections, and changes no setting but, with --device, that device's. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weft profile server
  sudo weft profile server --listen 192.0.2.2
  sudo weft profile server --listen '[2001:db8::2]:6000'
  sudo weft profile server --device eth0            # levels of the client apply here too, and are restored

It listens at port 5200, and its applications at TCP ports from 5201 on. It asks nobody who they are: listen at an address that
only the other host reaches, and stop it after the measurement. One client is served at a time.")]
pub(super) struct Args {
    /// Listen at this address, and port if not 5200 [default: all addresses]
    #[arg(long, value_name = "ADDR[:PORT]")]
    listen: Option<HostPort>,
    /// Let clients set levels at this device, which is restored when they go.
    #[arg(long, value_name = "DEV")]
    device: Option<String>,
    /// A file of rules to read over the table of categories; the client must have the same.
    #[arg(long, value_name = "FILE")]
    categories: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let categories = super::run::categories(args.categories.as_deref())?;
    let stop = Stop::install(Removes::Nothing)?;
    cleanup_stale();
    super::restore::after_a_kill();
    let server = listen(args.listen.as_ref())?;
    output::note(&format!("listening at {}; Ctrl-C ends", server.address()));
    let offered = Offered { categories: &categories, device: args.device.as_deref().map(guarded) };
    server.serve(offered, &|| stop.asked(), &|event| output::note(&line(event)))?;
    Ok(stop.exit_code())
}

fn listen(at: Option<&HostPort>) -> Result<ProfileServer, HostsError> {
    if let Some(place) = at {
        let mut addresses = place.addresses()?;
        return ProfileServer::listen(addresses.swap_remove(0));
    }
    let any = |address: SocketAddr| ProfileServer::listen(address);
    // A kernel without IPv6 has no such address.
    any((Ipv6Addr::UNSPECIFIED, protocol::PORT).into())
        .or_else(|_| any((Ipv4Addr::UNSPECIFIED, protocol::PORT).into()))
}

fn line(event: &ServerEvent) -> String {
    match event {
        ServerEvent::Came(peer) => format!("{peer} came"),
        ServerEvent::Gone(peer, None) => format!("{peer} is done"),
        ServerEvent::Gone(peer, Some(why)) => format!("{peer} is gone: {why}"),
        ServerEvent::Busy(peer) => format!("{peer} was sent away: another client is served"),
    }
}
