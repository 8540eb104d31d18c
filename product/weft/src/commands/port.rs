//! `weft port`: the ports of a running daemon.

use core::net::IpAddr;
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::{output, values};
use weft_control::interface::{AddPort, PortLimit};
use weft_facts::status::ServiceStatus;
use weft_host::Mac;

/// Make, remove and list the ports of a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft port add weft1 --netns web --address 192.0.2.11/24
  weft port list
  weft port remove weft1")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// The events that end a port, in one sentence. The guide to operating has the table of all events, and other documents repeat the sentence.
const LIFE: &str = "A port outlives a restart, an upgrade and a crash of the daemon; it ends with `weft port remove`, with a stop of the \
    daemon, and with its network namespace.";

/// The action.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a port in a network namespace.
    #[command(after_help = format!("\
Examples:
  weft port add weft1 --netns web --address 192.0.2.11/24
  weft port add weft2 --uplink wan
  weft port add vm1 --netns web --egress-limit 100mbps,30kb --ingress-limit 200mbps

{LIFE} With `hold = \"off\"`, or with `workers` above 1, restarts and crashes end it, too. After a stop, ports of the configuration \
come back."))]
    Add {
        /// The name of the port, 1 to 15 characters.
        name: String,
        /// The port's network namespace [default: the daemon's]
        #[arg(long, value_name = "NAME")]
        netns: Option<String>,
        /// An address of the port; may be repeated.
        #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = values::address)]
        address: Vec<(IpAddr, u8)>,
        /// The port's hardware address [default: a random one]
        #[arg(long)]
        mac: Option<Mac>,
        /// A limit of what the port sends, beside those of the policy [default burst: 2 ms and two frames]
        #[arg(long, value_name = "RATE[,BURST]", value_parser = values::port_limit)]
        egress_limit: Option<PortLimit>,
        /// A limit of what the port receives; a packet waits for it at most 25 ms
        #[arg(long, value_name = "RATE[,BURST]", value_parser = values::port_limit)]
        ingress_limit: Option<PortLimit>,
        #[command(flatten)]
        uplink: UplinkName,
        #[command(flatten)]
        socket: ControlSocket,
    },
    /// Remove a port, after its packets were sent.
    #[command(aliases = ["rm", "del", "delete"], after_help = "Example:\n  weft port remove weft1")]
    Remove {
        /// The name of the port.
        name: String,
        #[command(flatten)]
        socket: ControlSocket,
    },
    /// List the ports.
    #[command(alias = "ls", after_help = "Example:\n  weft port list")]
    List {
        #[command(flatten)]
        uplink: UplinkName,
        #[command(flatten)]
        socket: ControlSocket,
    },
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Add { name, netns, address, mac, egress_limit, ingress_limit, uplink, socket } => {
            let addresses = address.iter().map(|(ip, length)| format!("{ip}/{length}")).collect();
            let mac = mac.map(|mac| mac.to_string());
            let port =
                AddPort { name, netns, addresses, mac, egress_limit, ingress_limit, ..AddPort::default() };
            let reply = told(socket.connect_about(&uplink)?.add_port(port))?;
            reply.notes.iter().for_each(|note| output::note(note));
            output::print(&format!(
                "port {} is there, hardware address {}\n",
                reply.port.port, reply.port.mac
            ))?;
        }
        What::Remove { name, socket } => {
            told(socket.connect()?.remove_port(&name))?;
            output::print(&format!("port {name} is removed\n"))?;
        }
        What::List { uplink, socket } => {
            let ports = told(socket.connect_about(&uplink)?.list_ports())?.ports;
            let status = ServiceStatus { ports, ..ServiceStatus::default() };
            output::print(&status.port_table().render(output::stdout_color()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_documents_say_the_same_about_the_end_of_a_port() {
        let operating = include_str!("../../../../docs/operating.md");
        let containers = include_str!("../../../../docs/containers.md");
        let debian = include_str!("../../../../packaging/debian/weftline.README.Debian");
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [operating, containers, debian] {
            let text = one_line(text);
            assert!(text.contains(LIFE), "{text}");
            for wrong in [
                "gone when the daemon ends",
                "would end with it",
                "would vanish with it",
                "ports end with the daemon |",
            ] {
                assert!(!text.contains(wrong), "{wrong}");
            }
        }
        assert!(
            operating.contains("### What ends a port")
                && containers.contains("operating.md#what-ends-a-port")
        );
    }
}
