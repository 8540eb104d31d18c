//! The subcommands, and the options of the program itself.

use crate::commands;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use weft_cli::manual::{Completions, Manual};

/// The laboratory of weftline: experiments on real packets and in virtual time, benchmarks and profiles.
#[derive(Debug, Parser)]
#[command(
    name = "weft-lab",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Each command is also one of weft: `weft sim` runs `weft-lab sim`.

Examples:
  weft demo                                  a policy holds on real traffic
  weft sim my-scenario.toml                  hosts, NICs and a network, simulated
  weft campaign run grid.toml --out results  a scenario over a grid of parameters
  weft reproduce titan-tr-table3             a paper's table beside the simulator's
  weft bench engine                          packets per second of the engine
  weft profile single                        where does the processors' time go?
  weft tune --for fairness                   which settings would be better?

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not shown on this machine (with --strict), 130 after Ctrl-C, 143 after SIGTERM."
)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::Args),
    Sim(commands::sim::Args),
    Campaign(commands::campaign::Args),
    Reproduce(commands::reproduce::Args),
    Bench(commands::bench::Args),
    Profile(commands::profile::Args),
    Tune(commands::tune::Args),
    #[command(subcommand)]
    Steer(Steer),
    Completions(Completions),
    Man(Manual),
}

/// Receive queues of flows, on packets.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weft steer verify --nic intel-82599 --flows flows.csv --policy balance")]
pub(crate) enum Steer {
    Verify(commands::verify::Args),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Demo(args) => commands::demo::run(args),
            Self::Sim(args) => commands::sim::run(args),
            Self::Campaign(args) => commands::campaign::run(args),
            Self::Reproduce(args) => commands::reproduce::run(args),
            Self::Bench(args) => commands::bench::run(args),
            Self::Profile(args) => commands::profile::run(args),
            Self::Tune(args) => commands::tune::run(args),
            Self::Steer(Steer::Verify(args)) => commands::verify::run(&args),
            Self::Completions(args) => args.run(Cli::command()),
            Self::Man(args) => args.run(Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    /// The README's examples name each command as `weft NAME`, as those of its help do.
    #[test]
    fn every_subcommand_has_an_example_and_stands_in_the_readme() {
        let without = weft_cli::testing::without_example(&mut Cli::command(), "weft");
        assert_eq!(without, Vec::<String>::new(), "no example in the help");
        let readme = weft_cli::testing::README;
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "`weft-lab help` does not say what `{name}` does");
            assert!(readme.contains(&format!("weft {name}")), "README.md does not name `weft {name}`");
        }
    }
}
