//! `weft policy load`, `diff` and `restore`: the policy of a running daemon.

use crate::control::{Socket, told};
use crate::output;
use crate::policy_file::PolicyText;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_control::interface::{ChangeReply, LoadPolicy, PolicySource};

/// Put a policy in force at a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy load my.weft
  weft policy load my.weft --generation 3

A policy that is refused changes nothing. With --generation it is loaded only if that generation is still in force, so
that two operators cannot undo each other's work unseen. The policy is in force until the daemon ends or reloads its
configuration.")]
pub(crate) struct LoadArgs {
    /// The policy.
    file: PathBuf,
    /// Load only if this generation is in force.
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    #[command(flatten)]
    socket: Socket,
}

/// Print what loading a policy would change at a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  weft policy diff my.weft")]
pub(crate) struct DiffArgs {
    /// The policy.
    file: PathBuf,
    #[command(flatten)]
    socket: Socket,
}

/// Put the configured policy in force again at a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  weft policy restore")]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    socket: Socket,
}

/// Runs `weft policy load`.
pub(crate) fn load(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let PolicyText { name, text } = PolicyText::read(&args.file)?;
    let policy = LoadPolicy { name, text, generation: args.generation };
    show(&told(args.socket.connect()?.load_policy(policy))?)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `weft policy diff`.
pub(crate) fn diff(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let PolicyText { name, text } = PolicyText::read(&args.file)?;
    let reply = told(args.socket.connect()?.diff_policy(PolicySource { name, text }))?;
    messages(&reply);
    let steps = if reply.steps.is_empty() { vec!["no difference".to_owned()] } else { reply.steps };
    output::print(&steps.into_iter().map(|step| step + "\n").collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `weft policy restore`.
pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    show(&told(args.socket.connect()?.restore_policy())?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a change that was made.
fn show(reply: &ChangeReply) -> std::io::Result<()> {
    messages(reply);
    let hash: String = reply.policy_hash.chars().take(12).collect();
    let mut text: String = reply.steps.iter().map(|step| format!("{step}\n")).collect();
    text.push_str(&format!("generation {} is in force ({hash})\n", reply.generation));
    output::print(&text)
}

fn messages(reply: &ChangeReply) {
    reply.diagnostics.iter().for_each(|diagnostic| output::message(&diagnostic.to_string()));
    reply.warnings.iter().for_each(|warning| output::warn(warning));
}
