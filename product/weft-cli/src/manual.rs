//! `completions` and `man` of a command, from its description.

use crate::output;
use anyhow::anyhow;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft completions bash > /etc/bash_completion.d/weft
  weft completions zsh > \"${fpath[1]}/_weft\"
  weft completions fish > ~/.config/fish/completions/weft.fish
  weft-lab completions bash > /etc/bash_completion.d/weft-lab")]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Prints the completions of `command`.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn run(self, mut command: clap::Command) -> anyhow::Result<ExitCode> {
        let (mut text, name) = (Vec::new(), command.get_name().to_owned());
        clap_complete::generate(self.shell, &mut command, name, &mut text);
        output::print(&String::from_utf8_lossy(&text))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Print the manual page, or write those of all subcommands to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft man | man -l -
  weft man --folder /usr/local/share/man/man1
  weft-lab man --folder /usr/local/share/man/man1")]
pub struct Manual {
    /// Write the page, and a page for each subcommand, to this folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Manual {
    /// Prints or writes the pages of `command`.
    ///
    /// # Errors
    /// The folder or standard output cannot be written.
    pub fn run(self, command: clap::Command) -> anyhow::Result<ExitCode> {
        match self.folder {
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
}
