//! The user's input: NIC models, flows and policies, from files or by name.

use crate::tenant_files::Beside;
use std::io::Read;
use std::path::Path;
use thiserror::Error;
use weft_policy::{CompileOptions, Diagnostic, Source, read_goals, steer_with};
use weft_steer::Flow;
use weft_steer::flows_csv::{self, FlowsError};
use weft_steer::nic::{self, Nic};
use weft_steer::policy::PolicyFile;
use weft_text::LocatedError;
use weft_titan::host_users::host_users;

/// Errors in the input.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The path of the file.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The given name is neither a built-in model nor a file.
    #[error("the NIC model {given} does not exist; give a file, or one of {known}")]
    NoModel {
        /// The name given.
        given: String,
        /// The names of the built-in models.
        known: String,
    },
    /// A model is invalid.
    #[error(transparent)]
    Text(#[from] LocatedError),
    /// A policy is refused.
    #[error("{0}")]
    Refused(String),
    /// A policy does not steer.
    #[error(
        "{0} has no steering clause; write one, such as `steer balance` or `steer isolate NAME on 4 queues`"
    )]
    NoGoal(String),
    /// A flow file is invalid.
    #[error(transparent)]
    Flows(#[from] FlowsError),
    /// A flow on the command line is invalid.
    #[error("`{given}` is not a flow: {reason}; write PROTO,SRC,SPORT,DST,DPORT, with `*` for any")]
    Flow {
        /// The text given.
        given: String,
        /// The error.
        reason: String,
    },
}

/// The maximum size of a model or a policy, and of flows, which may number millions.
const TEXT_MAX: u64 = 1 << 20;
const FLOWS_MAX: u64 = 1 << 30;

/// Reads a file up to a maximum size: it may be the wrong one, or a device without an end.
fn read(path: &Path, most: u64) -> Result<String, InputError> {
    let wrong = |error| InputError::Read { path: path.display().to_string(), error };
    let mut text = String::new();
    // One more byte detects a larger file, but it may cut a character; the size is therefore checked before the
    // encoding.
    let mut bytes = std::fs::File::open(path).map_err(wrong)?.take(most + 1);
    let read = bytes.read_to_string(&mut text);
    if bytes.limit() == 0 {
        let error = std::io::Error::other(format!("it has more than {most} bytes"));
        return Err(wrong(error));
    }
    read.map_err(wrong)?;
    Ok(text)
}

/// The names of the built-in models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    nic::shipped().iter().map(|(name, _)| *name)
}

/// Loads a model by name, or from a file.
///
/// # Errors
/// When it does not exist, or the file is invalid.
pub fn model(given: &str) -> Result<Nic, InputError> {
    if let Some((name, text)) = nic::shipped().iter().find(|(name, _)| *name == given) {
        return Ok(nic::read(text, name)?);
    }
    let path = Path::new(given);
    // A name that is neither is more likely a misspelt model than a missing file.
    if !path.exists() && !given.contains(['/', '.']) {
        let known: Vec<&str> = model_names().collect();
        return Err(InputError::NoModel { given: given.to_owned(), known: known.join(", ") });
    }
    Ok(nic::read(&read(path, TEXT_MAX)?, given)?)
}

/// Reads the flows of a CSV file.
///
/// # Errors
/// When the file cannot be read or is invalid.
pub fn flows(path: &Path) -> Result<Vec<Flow>, InputError> {
    Ok(flows_csv::read(read(path, FLOWS_MAX)?.as_bytes(), &path.display().to_string())?)
}

/// Parses one flow: `PROTO,SRC,SPORT,DST,DPORT`.
///
/// # Errors
/// When the text is not a flow.
pub fn flow(given: &str) -> Result<Flow, InputError> {
    let wrong = |reason: String| InputError::Flow { given: given.to_owned(), reason };
    let flow = flows_csv::read_flow(given).map_err(|error| wrong(error.to_string()))?;
    flow.ok_or_else(|| wrong("it is empty".to_owned()))
}

/// Reads a policy with steering clauses from a file, or the goals themselves where no such file exists.
///
/// # Errors
/// When it is invalid.
pub fn policy(given: &str) -> Result<PolicyFile, InputError> {
    let path = Path::new(given);
    if path.is_file() {
        return steered(given, &read(path, TEXT_MAX)?);
    }
    if given.ends_with(".weft") {
        return Err(InputError::Read {
            path: given.to_owned(),
            error: std::io::Error::from(std::io::ErrorKind::NotFound),
        });
    }
    read_goals(Source { name: "policy", text: given }).map_err(|errors| refused(&errors))
}

/// The goals of a policy's steering clauses, with its classes. `name` is that of its file.
fn steered(name: &str, text: &str) -> Result<PolicyFile, InputError> {
    let options = CompileOptions { users: host_users(), ..CompileOptions::default() };
    let (goals, compilation) = steer_with(Source { name, text }, &Beside, &options);
    match goals {
        _ if compilation.has_errors() => Err(refused(&compilation.diagnostics)),
        None => Err(InputError::NoGoal(name.to_owned())),
        Some(goals) => Ok(goals),
    }
}

/// The errors among the diagnostics, each with its hint.
fn refused(diagnostics: &[Diagnostic]) -> InputError {
    let line = |error: &Diagnostic| format!("{}\n  hint: {}", error.one_line(), error.help);
    let errors: Vec<String> = diagnostics.iter().filter(|found| found.is_error()).map(line).collect();
    InputError::Refused(errors.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "class kvs = tcp and sport 11211\nclass web = tcp\nroot = fifo { kvs, web }\n";

    #[test]
    fn a_policy_is_a_file_with_clauses_or_the_goals_alone() {
        let weft = format!("{POLICY}steer isolate kvs on 2 queues\n");
        let flow = flow("tcp,192.0.2.1,999,198.51.100.1,11211").expect("a flow");
        let read = steered("p", &weft).expect("a policy");
        assert_eq!(read.policy.name(), "isolate kvs on 2 queues");
        assert_eq!(read.classes.of(&flow), "kvs", "a request, which the class's packets answer");
        assert_eq!(policy("isolate kvs on 2 queues").expect("goals").policy.name(), read.policy.name());
        for (given, said) in [
            (
                "isolate kvs on two queues",
                "policy:1:16: error[E0001]: expected a number of queues, found `two`",
            ),
            ("absent.weft", "cannot read absent.weft"),
        ] {
            let error = policy(given).expect_err("wrong").to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            (POLICY.to_owned(), "p.weft has no steering clause; write one"),
            (
                format!("{POLICY}steer isolate kv on 2 queues\n"),
                "p.weft:4:15: error[E0201]: nothing in the policy has the name `kv`",
            ),
            (
                "class a = mark 1\nroot = a\nsteer isolate a on 1 queue\n".to_owned(),
                "p.weft:1:11: error[E0702]: `steer` names `a`",
            ),
        ] {
            let error = steered("p.weft", &text).expect_err("wrong").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
