//! `weft tenant`: the files of tenants at a running daemon.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_control::interface::{TenantFile, TenantName, TenantReply};
use weft_facts::record::Document;
use weft_facts::tenants::TenantsReport;
use weft_run::host_facts;

/// Attach, replace, detach and list the files of tenants at a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft tenant attach vm1 vm1.weft
  weft tenant replace vm1 new.weft
  weft tenant list
  weft tenant detach vm1

A tenant is a place that the operator's policy names: `vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"`. What is attached stays in
force when the operator's policy is replaced and when the daemon is restarted. Root may do this, and whoever owns the tenant's
cgroup.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// The action.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Attach a file to a tenant that has none.
    #[command(after_help = "\
Examples:
  weft tenant attach vm1 vm1.weft
  weft tenant attach vm1.db db.weft --uplink wan")]
    Attach(FileArgs),
    /// Replace the file of a tenant. One that is refused leaves the former in force.
    #[command(after_help = "Example:\n  weft tenant replace vm1 new.weft --generation 3")]
    Replace(FileArgs),
    /// Take the file of a tenant away: its packets share one FIFO.
    #[command(after_help = "Example:\n  weft tenant detach vm1")]
    Detach {
        /// The tenant's name in the operator's policy.
        name: String,
        #[command(flatten)]
        at: At,
    },
    /// List the tenants: file, quotas with their use, the last refusal.
    #[command(after_help = "\
Examples:
  weft tenant list
  weft tenant list --json -")]
    List {
        /// Write the tenants to a file as JSON (`-` for standard output).
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        #[command(flatten)]
        uplink: UplinkName,
        #[command(flatten)]
        socket: ControlSocket,
    },
}

/// A tenant and its file.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The tenant's name in the operator's policy, such as `vm1`, or `vm1.db` below it.
    name: String,
    /// The file. Tenants that it names are attached by themselves.
    file: PathBuf,
    #[command(flatten)]
    at: At,
}

/// The place of a change.
#[derive(Debug, clap::Args)]
struct At {
    /// Change only if this generation is in force.
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    #[command(flatten)]
    uplink: UplinkName,
    #[command(flatten)]
    socket: ControlSocket,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Attach(args) => {
            let (file, at) = args.read()?;
            show(&told(at.socket.connect_about(&at.uplink)?.attach_tenant(file))?)?;
        }
        What::Replace(args) => {
            let (file, at) = args.read()?;
            show(&told(at.socket.connect_about(&at.uplink)?.replace_tenant(file))?)?;
        }
        What::Detach { name, at } => {
            let of = TenantName { tenant: name, generation: at.generation, uplink: None };
            show(&told(at.socket.connect_about(&at.uplink)?.detach_tenant(of))?)?;
        }
        What::List { json, uplink, socket } => {
            let json = OutputTarget::open(json.as_deref())?;
            let reply = told(socket.connect_about(&uplink)?.list_tenants())?;
            let (schema, host) = (TenantsReport::SCHEMA.to_owned(), host_facts::detect());
            let (generation, tenants) = (reply.generation, reply.tenants);
            let report = TenantsReport { schema, host, generation, tenants };
            if !json.is_stdout() {
                output::tables(&report.tables(), &json)?;
            }
            json.write_json(&report)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl FileArgs {
    /// The file with its text, which the user reads and not the daemon.
    fn read(self) -> anyhow::Result<(TenantFile, At)> {
        let Self { name: tenant, file, at } = self;
        let PolicyText { name, text } = PolicyText::read(&file)?;
        Ok((TenantFile { tenant, name, text, generation: at.generation, uplink: None }, at))
    }
}

/// Prints a change that was made.
fn show(reply: &TenantReply) -> std::io::Result<()> {
    reply.diagnostics.iter().for_each(|diagnostic| output::message(&diagnostic.to_string()));
    reply.warnings.iter().for_each(|warning| output::warn(warning));
    let mut text: String = reply.steps.iter().map(|step| format!("{step}\n")).collect();
    let of = &reply.tenant;
    let hash = of.hash.as_ref().map_or_else(String::new, |hash| format!(" ({hash:.12})"));
    let uplink = of.uplink.as_ref().map_or_else(String::new, |name| format!("uplink {name}: "));
    let (tenant, generation, file) = (&of.tenant, reply.generation, of.file.as_deref());
    let has = file.map_or_else(|| "has no file: one FIFO".to_owned(), |file| format!("has {file}{hash}"));
    text.push_str(&format!("{uplink}tenant {tenant} {has}; generation {generation} is in force\n"));
    output::print(&text)
}
