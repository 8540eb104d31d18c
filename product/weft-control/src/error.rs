//! The errors of the interface, with their names on the wire.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_facts::diagnostic::PolicyDiagnostic;

/// An error that the daemon returns.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "parameters")]
pub enum ControlError {
    /// The policy does not compile; nothing has changed.
    #[error("{}", refusal(diagnostics))]
    #[serde(rename = "io.weft.PolicyRefused")]
    PolicyRefused {
        /// The generation in force.
        generation: u64,
        /// The messages of the compiler.
        diagnostics: Vec<PolicyDiagnostic>,
    },
    /// The file of a tenant is refused; what the tenant has stays in force.
    #[error("{}", refusal(diagnostics))]
    #[serde(rename = "io.weft.TenantRefused")]
    TenantRefused {
        /// The generation in force.
        generation: u64,
        /// The tenant.
        tenant: String,
        /// The file that stays in force; `None` for a FIFO.
        keeps: Option<String>,
        /// The errors of the compiler.
        diagnostics: Vec<PolicyDiagnostic>,
    },
    /// The policy has no tenant of this name.
    #[error("the policy has no tenant {tenant}; {}", there_are(tenants))]
    #[serde(rename = "io.weft.NoSuchTenant")]
    NoSuchTenant {
        /// The name.
        tenant: String,
        /// Some of the tenants that there are.
        tenants: Vec<String>,
    },
    /// The tenant has a file already.
    #[error("tenant {tenant} has the file {file}; `weft tenant replace` replaces it")]
    #[serde(rename = "io.weft.TenantHasFile")]
    TenantHasFile {
        /// The tenant.
        tenant: String,
        /// Its file.
        file: String,
    },
    /// The tenant has no file.
    #[error("tenant {tenant} has no file; `weft tenant attach` gives it one")]
    #[serde(rename = "io.weft.TenantHasNoFile")]
    TenantHasNoFile {
        /// The tenant.
        tenant: String,
    },
    /// Another generation is in force than the caller expected.
    #[error("the policy has changed meanwhile: generation {generation} is in force; nothing was changed")]
    #[serde(rename = "io.weft.StaleGeneration")]
    StaleGeneration {
        /// The generation in force.
        generation: u64,
    },
    /// The name of the port is in use.
    #[error("a port {name} exists already")]
    #[serde(rename = "io.weft.PortExists")]
    PortExists {
        /// The name.
        name: String,
    },
    /// No port has the name.
    #[error("there is no port {name}; `weft port list` lists them")]
    #[serde(rename = "io.weft.NoSuchPort")]
    NoSuchPort {
        /// The name.
        name: String,
    },
    /// No uplink has the name.
    #[error("there is no uplink {name}; there are: {}", uplinks.join(", "))]
    #[serde(rename = "io.weft.NoSuchUplink")]
    NoSuchUplink {
        /// The name.
        name: String,
        /// The uplinks that exist.
        uplinks: Vec<String>,
    },
    /// The call names no uplink, and there are several.
    #[error("there are several uplinks: {}; name one with --uplink", uplinks.join(", "))]
    #[serde(rename = "io.weft.UplinkNeeded")]
    UplinkNeeded {
        /// The uplinks.
        uplinks: Vec<String>,
    },
    /// The port belongs to another user.
    #[error("port {name} belongs to user {uid}; only that user and root may remove it")]
    #[serde(rename = "io.weft.PortOfAnotherUser")]
    PortOfAnotherUser {
        /// The name.
        name: String,
        /// The user who added it.
        uid: u32,
    },
    /// The caller may not do this.
    #[error("not permitted to {action}: {message}")]
    #[serde(rename = "io.weft.NotPermitted")]
    NotPermitted {
        /// The action, in words.
        action: String,
        /// The reason, and the remedy.
        message: String,
    },
    /// The daemon has too much to do for this call.
    #[error("the daemon is busy: {message}; try again")]
    #[serde(rename = "io.weft.Busy")]
    Busy {
        /// The reason.
        message: String,
    },
    /// The data path cannot do this.
    #[error("{message}; nothing was changed")]
    #[serde(rename = "io.weft.Unsupported")]
    Unsupported {
        /// The reason.
        message: String,
    },
    /// The action failed.
    #[error("{message}")]
    #[serde(rename = "io.weft.Failed")]
    Failed {
        /// The reason.
        message: String,
    },
    /// The service has no such interface.
    #[error("the daemon has no interface {interface}")]
    #[serde(rename = "org.varlink.service.InterfaceNotFound")]
    InterfaceNotFound {
        /// The interface.
        interface: String,
    },
    /// The interface has no such method.
    #[error("the daemon has no method {method}")]
    #[serde(rename = "org.varlink.service.MethodNotFound")]
    MethodNotFound {
        /// The method.
        method: String,
    },
    /// A parameter is missing, unknown or of another type.
    #[error("invalid parameter: {parameter}")]
    #[serde(rename = "org.varlink.service.InvalidParameter")]
    InvalidParameter {
        /// The parameter.
        parameter: String,
    },
    /// The method must be called with `more`.
    #[error("the method answers more than once and must be called with `more`")]
    #[serde(rename = "org.varlink.service.ExpectedMore")]
    ExpectedMore {},
}

/// The first error of a refused policy, in one line.
fn refusal(diagnostics: &[PolicyDiagnostic]) -> String {
    let first = diagnostics.iter().find(|d| d.severity == "error").or(diagnostics.first());
    first.map_or_else(|| "the policy is refused".to_owned(), PolicyDiagnostic::to_string)
}

/// The tenants of a policy in words.
fn there_are(tenants: &[String]) -> String {
    if tenants.is_empty() { "it has none".to_owned() } else { format!("it has: {}", tenants.join(", ")) }
}

impl ControlError {
    /// An error for a failure without a separate name.
    pub fn failed(error: &dyn core::fmt::Display) -> Self {
        Self::Failed { message: error.to_string() }
    }

    /// The name and the parameters of the error on the wire.
    pub fn to_wire(&self) -> (String, Value) {
        match serde_json::to_value(self) {
            Ok(Value::Object(mut object)) => {
                let name = object.get("error").and_then(Value::as_str).unwrap_or_default().to_owned();
                (name, object.remove("parameters").unwrap_or_else(|| json!({})))
            }
            _ => ("io.weft.Failed".to_owned(), json!({ "message": self.to_string() })),
        }
    }

    /// The error with this name and these parameters. One that this version does not have becomes
    /// [`Failed`](Self::Failed), with its name.
    pub fn from_wire(name: &str, parameters: Option<Value>) -> Self {
        let parameters = parameters.filter(|p| !p.is_null()).unwrap_or_else(|| json!({}));
        let known = serde_json::from_value(json!({ "error": name, "parameters": parameters }));
        known.unwrap_or_else(|_| Self::Failed { message: format!("the daemon answers {name}: {parameters}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_return_from_the_wire() {
        for error in [
            ControlError::StaleGeneration { generation: 7 },
            ControlError::PortOfAnotherUser { name: "weft0".to_owned(), uid: 1000 },
            ControlError::ExpectedMore {},
            ControlError::NoSuchTenant { tenant: "a".to_owned(), tenants: vec!["b".to_owned()] },
            ControlError::TenantRefused {
                generation: 1,
                tenant: "a".to_owned(),
                keeps: None,
                diagnostics: Vec::new(),
            },
            ControlError::PolicyRefused { generation: 1, diagnostics: vec![PolicyDiagnostic::default()] },
        ] {
            let (name, parameters) = error.to_wire();
            assert_eq!(ControlError::from_wire(&name, Some(parameters)), error);
        }
        let (name, parameters) = ControlError::StaleGeneration { generation: 7 }.to_wire();
        assert_eq!((name.as_str(), parameters), ("io.weft.StaleGeneration", json!({ "generation": 7 })));
    }

    #[test]
    fn an_unknown_error_is_shown_with_its_name() {
        let error = ControlError::from_wire("org.example.Odd", Some(json!({ "why": "x" })));
        assert_eq!(error.to_string(), "the daemon answers org.example.Odd: {\"why\":\"x\"}");
    }

    #[test]
    fn a_refusal_is_one_line_with_a_place() {
        let note = PolicyDiagnostic { severity: "note".to_owned(), ..PolicyDiagnostic::default() };
        let bad = PolicyDiagnostic {
            file: "p.weft".to_owned(),
            line: 2,
            column: 8,
            severity: "error".to_owned(),
            code: "E0101".to_owned(),
            message: "no class `x`".to_owned(),
            ..PolicyDiagnostic::default()
        };
        let error = ControlError::PolicyRefused { generation: 1, diagnostics: vec![note, bad] };
        assert_eq!(error.to_string(), "p.weft:2:8: error[E0101]: no class `x`");
    }
}
