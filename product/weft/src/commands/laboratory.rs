//! Commands of the laboratory: `weft sim` runs `weft-lab sim`, where it is installed, as git and cargo do.

use anyhow::anyhow;
use clap::Subcommand;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The program of the laboratory.
const PROGRAM: &str = "weft-lab";

/// The words of a command, which the laboratory reads.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Words {
    /// Its words; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Laboratory {
    /// Show a policy at work on real traffic (weft-lab)
    Demo(Words),
    /// Simulate hosts, NICs and a network (weft-lab)
    Sim(Words),
    /// Simulate a scenario over a grid of parameters (weft-lab)
    Campaign(Words),
    /// Compare a paper's tables and figures with the simulator's, and with measured ones (weft-lab)
    Reproduce(Words),
    /// Measure speed and cost beside peers (weft-lab)
    Bench(Words),
    /// Measure where the processors' time goes (weft-lab)
    Profile(Words),
    /// Find better settings of this host (weft-lab)
    Tune(Words),
}

/// Runs the laboratory with the words of this command, in place of this process.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let own = if words.is_empty() { OsString::from("weft") } else { words.remove(0) };
    let asked = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let program = program().ok_or_else(|| {
        anyhow!(
            "weft {asked} is a command of {PROGRAM}, which is not installed; build it with `cargo install --locked --path \
             lab/weft-lab`, or install the package weftline-lab"
        )
    })?;
    // It has this program's name, so its messages and the commands that it writes name what was called.
    let error = Command::new(&program).arg0(own).args(words).exec();
    Err(anyhow!("cannot run {}: {error}", program.display()))
}

/// The laboratory's program: the one beside this program, otherwise the first in PATH.
fn program() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).or_else(|| weft_host::programs::find(PROGRAM))
}
