//! `weft policy import`: steering policies of the former format, as policies.

use anyhow::anyhow;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use weft_cli::output;
use weft_policy::import_steering;

/// The largest file that is read, in bytes: more than a steering policy may have.
const LARGEST: u64 = 2 << 20;

/// Print a steering policy of the former format in the policy language.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy import old.policy > new.weft
  weft policy import 'isolate hp on 4 queues'

`weft steer` reads both. Classes of the former format describe packets as they are received, those of a policy packets as this host
sends them: source and destination change places.")]
pub(crate) struct Args {
    /// The steering policy: its text, or a file with it.
    #[arg(value_name = "POLICY")]
    policy: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = Path::new(&args.policy);
    let new = match path.is_file() {
        true => import_steering(&text(path)?, &args.policy)?,
        false => import_steering(&args.policy, "policy")?,
    };
    output::print(&new)?;
    Ok(ExitCode::SUCCESS)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let wrong = |error| anyhow!("cannot read {}: {error}", path.display());
    let mut text = String::new();
    std::fs::File::open(path).map_err(wrong)?.take(LARGEST).read_to_string(&mut text).map_err(wrong)?;
    Ok(text)
}
