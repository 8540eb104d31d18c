//! Stored results as text: one line of JSON with its own checksum.
//!
//! A result has nothing of the process that made it, no time, host or path, so it is the same whichever
//! process made it.

use crate::key::{Identity, ResultKey, ScenarioHash, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use thiserror::Error;

/// The figures of a run by name; `None` for one that the run does not give.
pub type NamedFigures = BTreeMap<String, Option<f64>>;

/// A result.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultRecord {
    /// All that it depends on.
    pub identity: Identity,
    /// Its figures.
    pub figures: NamedFigures,
}

/// The reason that a file is not a result.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ResultRecordError {
    /// It is torn or another file.
    #[error("it is not whole")]
    Torn,
    /// It has been changed.
    #[error("its checksum is wrong")]
    Checksum,
    /// It has another form than this version writes.
    #[error("it is no result: {0}")]
    Form(String),
    /// It is the result of another run.
    #[error("it is the result of another run")]
    Foreign,
}

/// The form of a file, field by field in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    kind: String,
    model: u32,
    scenario: String,
    parameters: Map<String, Value>,
    seed: u64,
    figures: NamedFigures,
}

const HEAD: &str = "{\"sha256\":\"";
const MIDDLE: &str = "\",\"result\":";
const END: &str = "}\n";
/// Hexadecimal digits of a checksum.
const DIGITS: usize = 64;

impl ResultRecord {
    /// Writes the file of the result; `None` if a figure is not finite, which JSON cannot say.
    pub fn write(&self) -> Option<String> {
        if self.figures.values().flatten().any(|figure| !figure.is_finite()) {
            return None;
        }
        let Identity { kind, model, scenario, parameters, seed } = self.identity.clone();
        let scenario = scenario.as_str().to_owned();
        let body = Body { kind, model, scenario, parameters, seed, figures: self.figures.clone() };
        let body = serde_json::to_string(&body).ok()?;
        Some(format!("{HEAD}{}{MIDDLE}{body}{END}", hex(&Sha256::digest(&body))))
    }

    /// Reads the file of the result with this name.
    ///
    /// # Errors
    /// If the file is not whole, was changed, or is another's.
    pub fn read(text: &[u8], key: &ResultKey) -> Result<Self, ResultRecordError> {
        let text = std::str::from_utf8(text).map_err(|_| ResultRecordError::Torn)?;
        let inner =
            text.strip_prefix(HEAD).and_then(|rest| rest.strip_suffix(END)).ok_or(ResultRecordError::Torn)?;
        let (checksum, rest) = inner.split_at_checked(DIGITS).ok_or(ResultRecordError::Torn)?;
        let body = rest.strip_prefix(MIDDLE).ok_or(ResultRecordError::Torn)?;
        if hex(&Sha256::digest(body)) != checksum {
            return Err(ResultRecordError::Checksum);
        }
        let body: Body =
            serde_json::from_str(body).map_err(|error| ResultRecordError::Form(error.to_string()))?;
        let identity = Identity {
            kind: body.kind,
            model: body.model,
            scenario: ScenarioHash::stored(&body.scenario),
            parameters: body.parameters,
            seed: body.seed,
        };
        if identity.key() != *key {
            return Err(ResultRecordError::Foreign);
        }
        Ok(Self { identity, figures: body.figures })
    }
}
