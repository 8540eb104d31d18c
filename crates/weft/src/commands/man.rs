//! `weft man`: manual pages.

use crate::output;
use anyhow::anyhow;
use clap_mangen::Man;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the manual page, or write those of all subcommands to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft man | man -l -
  weft man --folder /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// Write weft.1 and a page for each subcommand to this folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs the command; `command` is the definition of the whole command line.
pub(crate) fn run(args: Args, command: clap::Command) -> anyhow::Result<ExitCode> {
    match args.folder {
        Some(folder) => clap_mangen::generate_to(command, &folder)
            .map_err(|e| anyhow!("cannot write manual pages to {}: {e}", folder.display()))?,
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            output::print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
