//! The subcommands, and the options of the program itself.

use crate::commands;
use crate::commands::laboratory::{self, Laboratory};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use weft_cli::manual::{Completions, Manual};

/// A programmable packet scheduler: a policy in a small language, enforced on real traffic by a software NIC.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Examples:
  weft demo                                  a policy holds on real traffic
  weft policy check policies/tenants.weft    is the policy right?
  weft apply my.weft --device eth0           the policy holds on eth0, in the kernel
  weft run my.weft --uplink eth0 --dry-run   what would be created on this host?
  weft daemon                                the policy of /etc/weft, as a service
  weft top                                   rates and shares of a running daemon
  weft sim my-scenario.toml                  hosts, NICs and a network, simulated
  weft campaign run grid.toml --out results  a scenario over a grid of parameters
  weft reproduce titan-tr-table3             a paper's table beside the simulator's
  weft steer plan --help                     receive queues by policy
  weft titan attach eth0                     fair transmit queues on this host
  weft profile single                        where does the processors' time go?
  weft tune --for fairness                   which settings would be better?
  weft doctor                                what does this host offer?

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 after Ctrl-C, 143 after SIGTERM."
)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Apply(commands::apply::Args),
    Remove(commands::apply::RemoveArgs),
    Run(commands::run::Args),
    Daemon(commands::daemon::Args),
    Keeper(commands::keeper::Args),
    Status(commands::status::Args),
    Top(commands::top::Args),
    Port(commands::port::Args),
    Tenant(commands::tenant::Args),
    Config(commands::config::Args),
    Replay(commands::replay::Args),
    Steer(commands::steer::Args),
    Titan(commands::titan::Args),
    Policy(commands::policy::Args),
    Doctor(commands::doctor::Args),
    Completions(Completions),
    Man(Manual),
    #[command(flatten)]
    Laboratory(Laboratory),
}

/// The arguments with `policy` before `check` and `explain`, which no other group of commands has.
pub(crate) fn with_group(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|word| word == "check" || word == "explain") {
        args.insert(1, "policy".into());
    }
    args
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Run(args) => commands::run::run(args),
            Self::Daemon(args) => commands::daemon::run(&args),
            Self::Keeper(args) => commands::keeper::run(&args),
            Self::Apply(args) => commands::apply::run(&args),
            Self::Remove(args) => commands::apply::remove(&args),
            Self::Status(args) => commands::status::run(&args),
            Self::Top(args) => commands::top::run(args),
            Self::Port(args) => commands::port::run(args),
            Self::Tenant(args) => commands::tenant::run(args),
            Self::Config(args) => commands::config::run(&args),
            Self::Replay(args) => commands::replay::run(args),
            Self::Steer(args) => commands::steer::run(args),
            Self::Titan(args) => commands::titan::run(args),
            Self::Policy(args) => commands::policy::run(args),
            Self::Doctor(args) => commands::doctor::run(args),
            Self::Completions(args) => args.run(Cli::command()),
            Self::Man(args) => args.run(Cli::command()),
            Self::Laboratory(_) => laboratory::run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_and_explain_may_stand_without_their_group() {
        let parsed = |args: &[&str]| {
            let args = with_group(args.iter().map(OsString::from));
            format!("{:?}", Cli::try_parse_from(args).expect("right usage"))
        };
        for args in [&["check", "a.weft"][..], &["explain", "a.weft", "udp 192.0.2.1:1 > 192.0.2.2:2"]] {
            let short = [&["weft"], args].concat();
            let whole = [&["weft", "policy"], args].concat();
            assert_eq!(parsed(&short), parsed(&whole));
        }
    }

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_an_example_and_stands_in_the_readme() {
        let without = weft_cli::testing::without_example(&mut Cli::command(), "weft");
        let laboratory = Laboratory::augment_subcommands(clap::Command::new("weft"));
        let names = laboratory.get_subcommands().map(|command| format!("weft {}", command.get_name()));
        let expected: Vec<_> = std::iter::once("weft steer verify".to_owned()).chain(names).collect();
        assert_eq!(without, expected, "no example in the help; those of the laboratory are in its own");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "`weft help` does not say what `{name}` does");
            assert!(
                weft_cli::testing::README.contains(&format!("weft {name}")),
                "README.md does not name `weft {name}`"
            );
        }
    }
}
