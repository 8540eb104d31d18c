//! `weft steer`: receive queues of flows.

mod device;
mod plan;
mod watch;

use crate::commands::laboratory::{self, Words};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_facts::record::Document;
use weft_run::steering::{input, planning};
use weft_steer::emit;

/// Plan a NIC's receive queues by a policy, and apply the plan to the NIC.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft steer models
  weft steer plan --nic intel-82599 --flows flows.csv --policy 'isolate hp on 4 queues'
  weft steer plan --nic e810 --flows flows.csv --policy balance --script ethtool --device eth0
  weft steer explain udp,192.0.2.1,7777,192.0.2.9,53 --nic mlx5 --flows flows.csv --policy balance
  weft steer verify --nic intel-82599 --flows flows.csv --policy balance
  weft steer plan --nic mlx5 --flows flows.csv --policy host.weft
  weft steer watch --nic virtio-net --policy balance

Flow files are CSV with the columns proto,src,sport,dst,dport and optionally weight, rate_bps, class, core. See docs/steering.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Models(ModelsArgs),
    Draw(DrawArgs),
    Plan(plan::Args),
    Explain(plan::ExplainArgs),
    /// Send flows through the software NIC, and count their packets by queue (weft-lab)
    Verify(Words),
    Import(device::ImportArgs),
    Probe(device::ProbeArgs),
    Apply(device::ApplyArgs),
    Undo(device::UndoArgs),
    Watch(watch::Args),
}

/// List the built-in NIC models.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft steer models
  weft steer models --text intel-82599 > my-nic.nic")]
struct ModelsArgs {
    /// Print a model's text, with its facts and their sources.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(input::model_names()))]
    text: Option<String>,
    /// Write the models to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Draw a NIC's model as a graph for Graphviz.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  weft steer draw intel-82599 | dot -Tsvg > intel-82599.svg")]
struct DrawArgs {
    /// The model: a name, or a file.
    #[arg(value_name = "NIC")]
    nic: String,
}

/// The dialects of a plan's commands.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Script {
    /// `ethtool -N` and `-X`.
    Ethtool,
    /// `tc filter ... flower`.
    Flower,
    /// testpmd's `flow`.
    RteFlow,
}

impl From<Script> for emit::Dialect {
    fn from(script: Script) -> Self {
        match script {
            Script::Ethtool => Self::Ethtool,
            Script::Flower => Self::Flower,
            Script::RteFlow => Self::RteFlow,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Models(args) => models(&args),
        Command::Draw(args) => {
            output::print(&weft_steer::nic::draw(&input::model(&args.nic)?, None))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => plan::explain(&args),
        Command::Verify(_) => laboratory::run(),
        Command::Import(args) => device::import(&args),
        Command::Probe(args) => device::probe(&args),
        Command::Apply(args) => device::apply(&args),
        Command::Undo(args) => device::undo(&args),
        Command::Watch(args) => watch::run(&args),
    }
}

fn models(args: &ModelsArgs) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.text {
        let text = weft_steer::nic::shipped().iter().find(|(known, _)| known == name);
        output::print(text.map_or("", |(_, text)| text))?;
        return Ok(ExitCode::SUCCESS);
    }
    let json = OutputTarget::open(args.json.as_deref())?;
    let nics: Vec<_> = input::model_names().map(input::model).collect::<Result<_, _>>()?;
    let report = planning::models(&nics);
    output::tables(&report.tables(), &json)?;
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}
