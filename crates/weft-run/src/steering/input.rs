//! The user's input: NIC models, flows and policies, from files or by name.

use std::io::Read;
use std::path::Path;
use thiserror::Error;
use weft_steer::Flow;
use weft_steer::flows_csv::{self, FlowsError};
use weft_steer::nic::{self, Nic};
use weft_steer::policy::{self, PolicyFile};
use weft_text::LocatedError;

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
    /// A model or a policy is invalid.
    #[error(transparent)]
    Text(#[from] LocatedError),
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

/// Reads a policy: a file, or the text itself where no such file exists.
///
/// # Errors
/// When it is invalid.
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
