//! `weft policy load` and `restore`: the policy of a running daemon.

use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::control::{ControlSocket, UplinkName, told};
use weft_cli::output;
use weft_cli::policy_file::PolicyText;
use weft_cli::values;
use weft_control::interface::{ChangeReply, LoadPolicy};
use weft_policy::CompileOptions;
use weft_run::place::Place;
use weft_units::Nanos;

/// Put a policy in force at a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy load my.weft
  weft policy load my.weft --generation 3
  weft policy load my.weft --uplink wan
  weft policy load my.weft --drain 2s

A policy that is refused changes nothing. With --generation it is loaded only if that generation is still in force, so
that two operators cannot undo each other's work unseen. The policy is in force until the daemon ends or reloads its
configuration.")]
pub(crate) struct LoadArgs {
    /// The policy.
    file: PathBuf,
    /// Load only if this generation is in force.
    #[arg(long, value_name = "N", value_parser = values::generation)]
    generation: Option<u64>,
    /// The time that flows that change their class wait for packets that they have left in the former one. Then the new
    /// class sends what is ahead of it, at its own expense.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::span)]
    drain: Nanos,
    #[command(flatten)]
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
}

/// Put the configured policy in force again at a running daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  weft policy restore")]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    socket: ControlSocket,
    #[command(flatten)]
    uplink: UplinkName,
}

/// Runs `weft policy load`.
pub(crate) fn load(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let policy = PolicyText::read(&args.file)?;
    // The daemon asks the same, and has no place in the text. What does not compile it says itself.
    if let Some(compiled) = policy.compile(&CompileOptions::default()).policy
        && let Some(refusal) = policy.ask(Place::Daemon, &compiled).refusal
    {
        return Err(policy.refused_by(Place::Daemon, &refusal));
    }
    let tenants = policy.tenants();
    let PolicyText { name, text } = policy;
    let policy = LoadPolicy {
        name,
        text,
        generation: args.generation,
        tenants,
        uplink: None,
        drain_ms: Some(args.drain.get().div_ceil(1_000_000)),
    };
    show(&told(args.socket.connect_about(&args.uplink)?.load_policy(policy))?)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `weft policy restore`.
pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    show(&told(args.socket.connect_about(&args.uplink)?.restore_policy())?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a change that was made.
fn show(reply: &ChangeReply) -> std::io::Result<()> {
    messages(reply);
    let hash: String = reply.policy_hash.chars().take(12).collect();
    let mut text: String = reply.steps.iter().map(|step| format!("{step}\n")).collect();
    let of = reply.uplink.as_ref().map_or_else(String::new, |name| format!("uplink {name}: "));
    text.push_str(&format!("{of}generation {} is in force ({hash})\n", reply.generation));
    output::print(&text)
}

pub(super) fn messages(reply: &ChangeReply) {
    reply.diagnostics.iter().for_each(|diagnostic| output::message(&diagnostic.to_string()));
    reply.warnings.iter().for_each(|warning| output::warn(warning));
}
