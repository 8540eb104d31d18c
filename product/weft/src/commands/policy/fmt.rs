//! `weft policy fmt`: the standard form of policies.

use anyhow::anyhow;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_cli::failure::Reported;
use weft_cli::output;
use weft_cli::policy_file::PolicyText;
use weft_policy::{Source, reformat};

/// Write policies in the standard form: spaces, aligned `=`, broken lines. Comments and order stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy fmt my.weft
  weft policy fmt --check policies/*.weft
  weft policy fmt --diff my.weft
  weft policy fmt - < my.weft")]
pub(crate) struct Args {
    /// The policies, which are rewritten in place; `-` reads standard input and writes standard output.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write nothing; name the files that would change, exit code 1 if there are any.
    #[arg(long)]
    check: bool,
    /// Write nothing; print the changes.
    #[arg(long)]
    diff: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut refused, mut changed) = (false, false);
    for file in &args.files {
        let stdin = file == Path::new("-");
        let text = if stdin { PolicyText::from_stdin()? } else { PolicyText::read(file)? };
        let new = match reformat(Source { name: &text.name, text: &text.text }) {
            Ok(new) => new,
            Err(errors) => {
                let pretty = std::io::stderr().is_terminal();
                output::message(text.drawn(&errors, pretty, output::stderr_style()).trim_end());
                refused = true;
                continue;
            }
        };
        let differs = new != text.text;
        changed |= differs;
        if args.diff {
            output::print(&weft_text::unified(&text.name, &text.text, &new))?;
        }
        match (args.check, args.diff) {
            (true, false) if differs => output::print(&format!("{}\n", text.name))?,
            (false, false) if stdin => output::print(&new)?,
            (false, false) if differs => {
                std::fs::write(file, &new).map_err(|e| anyhow!("cannot write to {}: {e}", text.name))?;
            }
            _ => {}
        }
    }
    if refused {
        return Err(Reported.into());
    }
    Ok(if args.check && changed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
