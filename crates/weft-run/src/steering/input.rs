//! What the user gives: NIC models, flows and policies, from files or by name.

use std::io::Read;
use std::path::Path;
use thiserror::Error;
use weft_steer::Flow;
use weft_steer::flows_csv::{self, FlowsError};
use weft_steer::nic::{self, Nic};
use weft_steer::policy::{self, PolicyFile};
use weft_text::LocatedError;

/// What is wrong with it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Its path.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Neither a model that is part of the program nor a file.
    #[error("there is no NIC model {given}: give a file, or one of {known}")]
    NoModel {
        /// What was given.
        given: String,
        /// Names.
        known: String,
    },
    /// A model or a policy is wrong.
    #[error(transparent)]
    Text(#[from] LocatedError),
    /// A flow file is wrong.
    #[error(transparent)]
    Flows(#[from] FlowsError),
    /// A flow given on the command line is wrong.
    #[error("`{given}` is no flow: {reason}; write PROTO,SRC,SPORT,DST,DPORT, with `*` for any")]
    Flow {
        /// What was given.
        given: String,
        /// Why.
        reason: String,
    },
}

/// Most bytes of a model or a policy, and of flows, of which there may be millions.
const TEXT_MAX: u64 = 1 << 20;
const FLOWS_MAX: u64 = 1 << 30;

/// Reads a file, but not more than it may have: it may be another one, or a device that has no end.
fn read(path: &Path, most: u64) -> Result<String, InputError> {
    let wrong = |error| InputError::Read { path: path.display().to_string(), error };
    let mut text = String::new();
    // One byte more would be enough, but for a character that it cuts: what is not text is told as that.
    let mut bytes = std::fs::File::open(path).map_err(wrong)?.take(most + 1);
    let read = bytes.read_to_string(&mut text);
    if bytes.limit() == 0 {
        let error = std::io::Error::other(format!("it has more than {most} bytes"));
        return Err(wrong(error));
    }
    read.map_err(wrong)?;
    Ok(text)
}

/// Names of the models that are part of the program.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    nic::shipped().iter().map(|(name, _)| *name)
}

/// A model by name, or from a file.
///
/// # Errors
/// There is none, or the file is wrong.
pub fn model(given: &str) -> Result<Nic, InputError> {
    if let Some((name, text)) = nic::shipped().iter().find(|(name, _)| *name == given) {
        return Ok(nic::read(text, name)?);
    }
    let path = Path::new(given);
    // A name that is neither is more likely a misspelt model than a file that is missing.
    if !path.exists() && !given.contains(['/', '.']) {
        let known: Vec<&str> = model_names().collect();
        return Err(InputError::NoModel { given: given.to_owned(), known: known.join(", ") });
    }
    Ok(nic::read(&read(path, TEXT_MAX)?, given)?)
}

/// Flows of a CSV file.
///
/// # Errors
/// The file cannot be read or is wrong.
pub fn flows(path: &Path) -> Result<Vec<Flow>, InputError> {
    Ok(flows_csv::read(read(path, FLOWS_MAX)?.as_bytes(), &path.display().to_string())?)
}

/// One flow: `PROTO,SRC,SPORT,DST,DPORT`.
///
/// # Errors
/// It is none.
pub fn flow(given: &str) -> Result<Flow, InputError> {
    let wrong = |reason: String| InputError::Flow { given: given.to_owned(), reason };
    let flow = flows_csv::read_flow(given).map_err(|error| wrong(error.to_string()))?;
    flow.ok_or_else(|| wrong("it is empty".to_owned()))
}

/// A policy: a file, or its text where there is no such file.
///
/// # Errors
/// It is wrong.
pub fn policy(given: &str) -> Result<PolicyFile, InputError> {
    let path = Path::new(given);
    if path.is_file() {
        return Ok(policy::read(&read(path, TEXT_MAX)?, given)?);
    }
    if given.ends_with(".policy") {
        return Err(InputError::Read {
            path: given.to_owned(),
            error: std::io::Error::from(std::io::ErrorKind::NotFound),
        });
    }
    Ok(policy::read(given, "policy")?)
}
