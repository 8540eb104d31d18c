//! The CNI plugin: `weft` in a folder of CNI_PATH. Container runtimes run it.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::process::ExitCode;
use weft_cni::config::CONFIG_MAX;
use weft_cni::plugin::{PluginOutcome, run};
use weft_cni::{CniError, control};

/// The text for people who run the program by hand.
const ABOUT: &str = "\
weft, the CNI plugin of weftline: container runtimes run it, with a network configuration on standard input and CNI_COMMAND
in the environment. See weft-cni(8).";

/// Reads the configuration, and no more than a byte beyond its bound.
fn input() -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(CONFIG_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn main() -> ExitCode {
    let get = |name: &str| std::env::var(name).ok();
    if get("CNI_COMMAND").is_none() {
        // A person, who has no configuration to type either.
        let _ = writeln!(std::io::stderr(), "{ABOUT}");
    }
    let outcome = match get("CNI_COMMAND").is_some().then(input).transpose() {
        Ok(text) => run(&get, &text.unwrap_or_default(), &mut |socket| control::connect(socket)),
        Err(error) => PluginOutcome::Failed(CniError::unreadable(&error).to_json("1.1.0")),
    };
    let (text, code) = match outcome {
        PluginOutcome::Done(text) => (text, ExitCode::SUCCESS),
        PluginOutcome::Failed(text) => (text, ExitCode::FAILURE),
    };
    match text.is_empty() || writeln!(std::io::stdout(), "{text}").is_ok() {
        true => code,
        false => ExitCode::FAILURE,
    }
}
