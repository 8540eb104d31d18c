//! The methods of `io.weft`: parameters and replies.

use crate::error::ControlError;
pub use crate::tenants::{
    ConfigTenant, ListTenantsReply, StatusTenant, TenantFile, TenantName, TenantOrigin, TenantReply,
    TenantText,
};
use crate::wire::{self, Call, Continues};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use weft_facts::config::ServiceConfig;
use weft_facts::diagnostic::PolicyDiagnostic;
pub use weft_facts::ports::PortLimit;
pub use weft_facts::status::{ServiceStatus, StatusPort};

/// The shortest interval of [`Request::Monitor`], in milliseconds.
pub const MONITOR_MIN_MS: u64 = 100;
/// The default interval of [`Request::Monitor`], in milliseconds.
pub const MONITOR_DEFAULT_MS: u64 = 1000;
/// The longest interval of [`Request::Monitor`], in milliseconds: an hour.
pub const MONITOR_MAX_MS: u64 = 3_600_000;

/// The parameters of calls about one uplink.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OfUplink {
    /// The uplink; `None` for the default one, or for all where the call says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// A policy's text, and its name in diagnostics.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PolicySource {
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
    /// The files of its tenants; a tenant without one has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantText>,
    /// The uplink; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// The parameters of `LoadPolicy`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LoadPolicy {
    /// The name of the policy.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The generation that must be in force, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The files of its tenants; a tenant without one has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantText>,
    /// The uplink; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
    /// The time that flows that change their class wait for packets that they have left, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
}

/// The parameters of `AddPort`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AddPort {
    /// The name of the port.
    pub name: String,
    /// Its namespace; `None` for the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Its addresses, each with its prefix length.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Its hardware address; `None` for a random one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The limit of what it sends; `None` for that of the policy only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_limit: Option<PortLimit>,
    /// The limit of what it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_limit: Option<PortLimit>,
    /// The uplink; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// The parameters of `RemovePort`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortName {
    /// The name of the port.
    pub name: String,
}

/// The parameters of `Monitor`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Monitor {
    /// The time between two replies, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// The uplink; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// A call of the interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// The counters; of all uplinks, if none is named.
    Status(OfUplink),
    /// The policy in force.
    Config(OfUplink),
    /// Puts a policy in force.
    LoadPolicy(LoadPolicy),
    /// The change that a policy would make.
    DiffPolicy(PolicySource),
    /// Puts the configured policy in force.
    RestorePolicy(OfUplink),
    /// Makes a port.
    AddPort(AddPort),
    /// Removes a port.
    RemovePort(PortName),
    /// The ports; of all uplinks, if none is named.
    ListPorts(OfUplink),
    /// Attaches a file to a tenant that has none.
    AttachTenant(TenantFile),
    /// Replaces the file of a tenant.
    ReplaceTenant(TenantFile),
    /// Takes a tenant's file away.
    DetachTenant(TenantName),
    /// The tenants; of all uplinks, if none is named.
    ListTenants(OfUplink),
    /// Reads the configuration again.
    Reload,
    /// The counters, repeatedly.
    Monitor(Monitor),
}

/// The right that a call needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Every user who may open the socket.
    Read,
    /// Root, the daemon's own user, or whom polkit allows.
    Write,
    /// As [`Write`](Self::Write), or the user to whom the tenant's cgroup is delegated.
    Tenant,
}

/// Each method with the names of its parameters, sorted by name.
const METHODS: [(&str, &[&str]); 14] = [
    ("AddPort", &["name", "netns", "addresses", "mac", "egress_limit", "ingress_limit", "uplink"]),
    ("AttachTenant", &["tenant", "name", "text", "generation", "uplink"]),
    ("Config", &["uplink"]),
    ("DetachTenant", &["tenant", "generation", "uplink"]),
    ("DiffPolicy", &["name", "text", "tenants", "uplink"]),
    ("ListPorts", &["uplink"]),
    ("ListTenants", &["uplink"]),
    ("LoadPolicy", &["name", "text", "generation", "tenants", "uplink", "drain_ms"]),
    ("Monitor", &["interval_ms", "uplink"]),
    ("Reload", &[]),
    ("RemovePort", &["name"]),
    ("ReplaceTenant", &["tenant", "name", "text", "generation", "uplink"]),
    ("RestorePolicy", &["uplink"]),
    ("Status", &["uplink"]),
];

impl Request {
    /// The name of the method without its interface.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Status(_) => "Status",
            Self::Config(_) => "Config",
            Self::LoadPolicy(_) => "LoadPolicy",
            Self::DiffPolicy(_) => "DiffPolicy",
            Self::RestorePolicy(_) => "RestorePolicy",
            Self::AddPort(_) => "AddPort",
            Self::RemovePort(_) => "RemovePort",
            Self::ListPorts(_) => "ListPorts",
            Self::AttachTenant(_) => "AttachTenant",
            Self::ReplaceTenant(_) => "ReplaceTenant",
            Self::DetachTenant(_) => "DetachTenant",
            Self::ListTenants(_) => "ListTenants",
            Self::Reload => "Reload",
            Self::Monitor(_) => "Monitor",
        }
    }

    /// The right that it needs.
    pub fn right(&self) -> Right {
        match self {
            Self::Status(_)
            | Self::Config(_)
            | Self::DiffPolicy(_)
            | Self::ListPorts(_)
            | Self::ListTenants(_)
            | Self::Monitor(_) => Right::Read,
            Self::AttachTenant(_) | Self::ReplaceTenant(_) | Self::DetachTenant(_) => Right::Tenant,
            Self::LoadPolicy(_)
            | Self::RestorePolicy(_)
            | Self::AddPort(_)
            | Self::RemovePort(_)
            | Self::Reload => Right::Write,
        }
    }

    /// The action in words, as in "not permitted to ...".
    pub fn action(&self) -> String {
        match self {
            Self::Status(_) | Self::Monitor(_) => "read the status".to_owned(),
            Self::Config(_) => "read the policy".to_owned(),
            Self::DiffPolicy(_) => "compare a policy".to_owned(),
            Self::ListPorts(_) => "list the ports".to_owned(),
            Self::LoadPolicy(_) => "load a policy".to_owned(),
            Self::RestorePolicy(_) => "restore the policy".to_owned(),
            Self::AddPort(port) => format!("add port {}", port.name),
            Self::RemovePort(port) => format!("remove port {}", port.name),
            Self::AttachTenant(of) => format!("attach a file to tenant {}", of.tenant),
            Self::ReplaceTenant(of) => format!("replace the file of tenant {}", of.tenant),
            Self::DetachTenant(of) => format!("detach the file of tenant {}", of.tenant),
            Self::ListTenants(_) => "list the tenants".to_owned(),
            Self::Reload => "reload the configuration".to_owned(),
        }
    }

    /// Reads the method `name`, without its interface.
    ///
    /// # Errors
    /// When there is no such method, or a parameter is missing, unknown or of another type.
    pub fn read(name: &str, parameters: Map<String, Value>) -> Result<Self, ControlError> {
        let method = METHODS.iter().find(|(method, _)| *method == name);
        let (_, known) =
            method.ok_or_else(|| ControlError::MethodNotFound { method: format!("io.weft.{name}") })?;
        if let Some(unknown) = parameters.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(ControlError::InvalidParameter { parameter: unknown.clone() });
        }
        Ok(match name {
            "AddPort" => Self::AddPort(typed(parameters)?),
            "AttachTenant" => Self::AttachTenant(typed(parameters)?),
            "Config" => Self::Config(typed(parameters)?),
            "DetachTenant" => Self::DetachTenant(typed(parameters)?),
            "DiffPolicy" => Self::DiffPolicy(typed(parameters)?),
            "ListPorts" => Self::ListPorts(typed(parameters)?),
            "ListTenants" => Self::ListTenants(typed(parameters)?),
            "LoadPolicy" => Self::LoadPolicy(typed(parameters)?),
            "Monitor" => Self::Monitor(typed(parameters)?),
            "Reload" => Self::Reload,
            "RemovePort" => Self::RemovePort(typed(parameters)?),
            "ReplaceTenant" => Self::ReplaceTenant(typed(parameters)?),
            "RestorePolicy" => Self::RestorePolicy(typed(parameters)?),
            _ => Self::Status(typed(parameters)?),
        })
    }

    /// The call on the wire, with one answer expected.
    pub fn to_call(&self) -> Call {
        let parameters = match self {
            Self::LoadPolicy(p) => object(p),
            Self::DiffPolicy(p) => object(p),
            Self::AddPort(p) => object(p),
            Self::RemovePort(p) => object(p),
            Self::Monitor(p) => object(p),
            Self::AttachTenant(p) | Self::ReplaceTenant(p) => object(p),
            Self::DetachTenant(p) => object(p),
            Self::Status(p)
            | Self::Config(p)
            | Self::RestorePolicy(p)
            | Self::ListPorts(p)
            | Self::ListTenants(p) => object(p),
            Self::Reload => None,
        }
        .filter(|parameters| !parameters.is_empty());
        Call {
            method: format!("{}.{}", crate::INTERFACE, self.method()),
            parameters,
            oneway: None,
            more: None,
            upgrade: None,
        }
    }
}

fn typed<T: DeserializeOwned>(parameters: Map<String, Value>) -> Result<T, ControlError> {
    serde_json::from_value(Value::Object(parameters))
        .map_err(|error| ControlError::InvalidParameter { parameter: error.to_string() })
}

fn object<T: Serialize>(parameters: &T) -> Option<Map<String, Value>> {
    match serde_json::to_value(parameters) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// The reply of `LoadPolicy`, `DiffPolicy` and `RestorePolicy`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ChangeReply {
    /// The generation in force, after the change.
    pub generation: u64,
    /// The SHA-256 of the policy in force; of `DiffPolicy`, of the given text.
    pub policy_hash: String,
    /// The changes, one line each; empty if nothing changes.
    pub steps: Vec<String>,
    /// Warnings about the change, one line each.
    pub warnings: Vec<String>,
    /// The messages of the compiler, warnings and notes.
    #[serde(default)]
    pub diagnostics: Vec<PolicyDiagnostic>,
    /// The uplink, if the configuration names its uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// The reply of `AddPort`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AddPortReply {
    /// The generation in force.
    pub generation: u64,
    /// The port.
    pub port: StatusPort,
    /// Notes for the operator.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The reply of `RemovePort`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GenerationReply {
    /// The generation in force.
    pub generation: u64,
}

/// The reply of `ListPorts`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ListPortsReply {
    /// The generation in force.
    pub generation: u64,
    /// The ports.
    pub ports: Vec<StatusPort>,
}

/// The reply of `Reload`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReloadReply {
    /// The generation in force.
    pub generation: u64,
    /// The SHA-256 of the policy in force.
    pub policy_hash: String,
    /// The changes, one line each.
    pub steps: Vec<String>,
    /// Warnings, one line each: settings that need a restart, changes that failed.
    pub warnings: Vec<String>,
}

/// A reply of the interface.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// Of `Status` and `Monitor`.
    Status(Box<ServiceStatus>),
    /// Of `Config`.
    Config(ServiceConfig),
    /// Of `LoadPolicy`, `DiffPolicy` and `RestorePolicy`.
    Change(ChangeReply),
    /// Of `AddPort`.
    AddPort(Box<AddPortReply>),
    /// Of `RemovePort`.
    Generation(GenerationReply),
    /// Of `ListPorts`.
    Ports(ListPortsReply),
    /// Of `AttachTenant`, `ReplaceTenant` and `DetachTenant`.
    Tenant(Box<TenantReply>),
    /// Of `ListTenants`.
    Tenants(ListTenantsReply),
    /// Of `Reload`.
    Reload(ReloadReply),
}

impl Reply {
    /// The message on the wire.
    pub fn to_message(&self, continues: Continues) -> Vec<u8> {
        match self {
            Self::Status(reply) => wire::reply(reply, continues),
            Self::Config(reply) => wire::reply(reply, continues),
            Self::Change(reply) => wire::reply(reply, continues),
            Self::AddPort(reply) => wire::reply(reply, continues),
            Self::Generation(reply) => wire::reply(reply, continues),
            Self::Ports(reply) => wire::reply(reply, continues),
            Self::Tenant(reply) => wire::reply(reply, continues),
            Self::Tenants(reply) => wire::reply(reply, continues),
            Self::Reload(reply) => wire::reply(reply, continues),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    /// One request of each method.
    fn requests() -> Vec<Request> {
        let uplink = Some("wan".to_owned());
        let of = OfUplink { uplink: uplink.clone() };
        let tenant =
            TenantText { tenant: "vm1".to_owned(), name: "t".to_owned(), text: "root = default".to_owned() };
        let policy = PolicySource {
            name: "p".to_owned(),
            text: "root = default".to_owned(),
            tenants: vec![tenant],
            uplink: None,
        };
        let file = TenantFile {
            tenant: "vm1".to_owned(),
            name: "vm1.weft".to_owned(),
            text: "root = default".to_owned(),
            ..TenantFile::default()
        };
        vec![
            Request::Status(of.clone()),
            Request::Config(OfUplink::default()),
            Request::LoadPolicy(LoadPolicy {
                name: "p".to_owned(),
                text: "x".to_owned(),
                generation: Some(3),
                tenants: Vec::new(),
                uplink: uplink.clone(),
                drain_ms: Some(2000),
            }),
            Request::DiffPolicy(policy),
            Request::RestorePolicy(of.clone()),
            Request::AddPort(AddPort {
                name: "weft0".to_owned(),
                netns: Some("a".to_owned()),
                ..AddPort::default()
            }),
            Request::RemovePort(PortName { name: "weft0".to_owned() }),
            Request::ListPorts(of.clone()),
            Request::AttachTenant(file.clone()),
            Request::ReplaceTenant(TenantFile { generation: Some(2), ..file }),
            Request::DetachTenant(TenantName { tenant: "vm1.db".to_owned(), ..TenantName::default() }),
            Request::ListTenants(of),
            Request::Reload,
            Request::Monitor(Monitor { interval_ms: Some(500), uplink }),
        ]
    }

    #[test]
    fn every_method_returns_from_the_wire() {
        for request in requests() {
            let call = request.to_call();
            let name = call.method.strip_prefix("io.weft.").expect("the interface");
            assert_eq!(Request::read(name, call.parameters.unwrap_or_default()), Ok(request));
        }
        assert_eq!(requests().len(), METHODS.len());
    }

    #[test]
    fn the_definition_has_every_method_and_its_parameters() {
        for (method, parameters) in METHODS {
            let line = crate::DEFINITION
                .lines()
                .find(|l| l.starts_with(&format!("method {method}(")))
                .expect(method);
            let given =
                line.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect("parameters").0;
            let names: Vec<&str> = given
                .split(',')
                .filter_map(|p| p.split(':').next())
                .map(str::trim)
                .filter(|p| !p.is_empty())
                .collect();
            assert_eq!(names, parameters, "{method}");
        }
        let methods = crate::DEFINITION.lines().filter(|line| line.starts_with("method ")).count();
        assert_eq!(methods, METHODS.len());
    }

    #[test]
    fn wrong_parameters_are_named() {
        let wrong = |name, value| Request::read(name, map(value)).unwrap_err().to_string();
        assert_eq!(wrong("Status", json!({ "x": 1 })), "invalid parameter: x");
        assert!(wrong("LoadPolicy", json!({ "name": "p" })).contains("`text`"));
        assert!(wrong("LoadPolicy", json!({ "name": "p", "text": "", "generation": -1 })).contains("-1"));
        assert!(wrong("AddPort", json!({ "name": 7 })).contains("invalid type"));
        assert_eq!(wrong("Explode", json!({})), "the daemon has no method io.weft.Explode");
    }
}
