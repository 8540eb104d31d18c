//! Names of results: hashes of what they depend on.

use core::fmt;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use weft_sim::scenario::{self, Scenario};

/// The first line of what is hashed; another one for another form.
const FORM: &str = "weft campaign result 1";

/// The hash of a scenario as it is simulated, with all defaults; its name and its seed do not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioHash(String);

impl ScenarioHash {
    /// Hashes a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let nameless = Scenario { name: String::new(), seed: 0, ..scenario.clone() };
        Self(hex(&Sha256::digest(scenario::write(&nameless))))
    }

    /// Takes the hash of a stored result.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns it in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// All that a result depends on.
#[derive(Clone, PartialEq, Debug)]
pub struct Identity {
    /// The kind of its figures.
    pub kind: String,
    /// The version of the model, [`weft_sim::MODEL_VERSION`].
    pub model: u32,
    /// The scenario, with the parameters.
    pub scenario: ScenarioHash,
    /// The parameters by the scenario's key.
    pub parameters: Map<String, Value>,
    /// The seed.
    pub seed: u64,
}

impl Identity {
    /// Returns the name of the result.
    pub fn key(&self) -> ResultKey {
        let Self { kind, model, scenario, parameters, seed } = self;
        // The parameters are JSON in one line, so lines cannot be confused.
        let parameters = Value::Object(parameters.clone());
        let text = format!("{FORM}\n{kind}\n{model}\n{}\n{parameters}\n{seed}\n", scenario.as_str());
        ResultKey(hex(&Sha256::digest(text)))
    }
}

/// The name of a result.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResultKey(String);

impl ResultKey {
    /// Takes a name of 64 hexadecimal digits.
    pub(crate) fn from_hex(text: String) -> Option<Self> {
        let digits = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (text.len() == 64 && digits).then_some(Self(text))
    }

    /// Returns it in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
