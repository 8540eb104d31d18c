//! The network configuration that the runtime writes to standard input.

use crate::bandwidth::Bandwidth;
use crate::environment::Attachment;
use crate::error::{CniError, ErrorCode};
use crate::version::Version;
use serde_json::{Map, Value};
use std::path::PathBuf;
use weft_host::Mac;
use weft_text::{nearest, quoted};

/// The longest configuration in bytes; results of long chains are part of it.
pub const CONFIG_MAX: usize = 4 << 20;
/// The default path of the daemon's control socket.
pub const SOCKET: &str = "/run/weft/io.weft";
/// The keys of weftline, which a misspelt key may mean.
const OWN_KEYS: [&str; 3] = ["socket", "port", "mark"];
/// The keys that the specification, its conventions and libcni define.
const KNOWN_KEYS: [&str; 13] = [
    "cniVersion",
    "cniVersions",
    "name",
    "type",
    "capabilities",
    "runtimeConfig",
    "prevResult",
    "ipam",
    "dns",
    "args",
    "ipMasq",
    "disableCheck",
    "disableGC",
];
/// The key with the attachments that GC keeps.
const VALID_ATTACHMENTS: &str = "cni.dev/valid-attachments";

/// A packet mark: the bits of `mask` become those of `value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The value; it has no bits outside `mask`.
    pub value: u32,
    /// The bits that are set.
    pub mask: u32,
}

/// The part of the plugin in its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PluginRole {
    /// The first plugin: it makes the container's interface, a port of the daemon. Its configuration has `ipam` or `port`.
    Port,
    /// A later plugin: it acts on the interface of the plugins before it.
    Chained,
}

/// A network configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct PluginConfig {
    /// The version of configuration and result.
    pub version: Version,
    /// The network's name.
    pub network: String,
    /// The plugin's part in its chain.
    pub role: PluginRole,
    /// The path of the control socket.
    pub socket: PathBuf,
    /// The port's name, for networks of one container; otherwise it is derived from the attachment.
    pub port: Option<String>,
    /// The mark of packets from the container, if the plugin is chained.
    pub mark: Option<Mark>,
    /// The plugin that manages addresses; without one the interface has none.
    pub ipam: Option<String>,
    /// The limits that the runtime sets.
    pub bandwidth: Bandwidth,
    /// The hardware address that the runtime sets.
    pub mac: Option<Mac>,
    /// The result of the plugin before this one.
    pub previous: Option<Value>,
    /// The attachments that GC keeps; `None` without the key.
    pub valid: Option<Vec<Attachment>>,
}

fn invalid(text: String) -> CniError {
    CniError::new(ErrorCode::InvalidConfig, text)
}

/// The string `key` of an object, if it is there.
fn string<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, CniError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(invalid(format!("{key} is {}, not a string", quoted(&other.to_string())))),
    }
}

/// The object `key` of an object, if it is there.
fn object<'a>(parent: &'a Map<String, Value>, key: &str) -> Result<Option<&'a Map<String, Value>>, CniError> {
    match parent.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(invalid(format!("{key} is not an object"))),
    }
}

/// Refuses a key that is nearly one of weftline's. Other unknown keys are the runtime's.
fn check_keys(root: &Map<String, Value>) -> Result<(), CniError> {
    let unknown = |key: &&String| {
        !KNOWN_KEYS.contains(&key.as_str()) && !OWN_KEYS.contains(&key.as_str()) && !key.contains(['/', '.'])
    };
    for key in root.keys().filter(unknown) {
        if let Some(meant) = nearest(key, OWN_KEYS, &[]) {
            let value = root.get(key).map(Value::to_string).unwrap_or_default();
            let text = format!("unknown key {} with value {}", quoted(key), quoted(&value));
            return Err(
                CniError::new(ErrorCode::UnsupportedField, text).details(format!("did you mean `{meant}`?"))
            );
        }
    }
    Ok(())
}

fn network(root: &Map<String, Value>) -> Result<String, CniError> {
    let name = string(root, "name")?.unwrap_or_default();
    let letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    match name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(letter) {
        true => Ok(name.to_owned()),
        false => Err(invalid(format!("the network's name {} is invalid", quoted(name)))
            .details("a letter or digit, then letters, digits, dots, underscores, hyphens")),
    }
}

fn port(root: &Map<String, Value>) -> Result<Option<String>, CniError> {
    let Some(name) = string(root, "port")? else { return Ok(None) };
    let letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    match (1..=15).contains(&name.len()) && name.chars().all(letter) && name != "." && name != ".." {
        true => Ok(Some(name.to_owned())),
        false => Err(invalid(format!("port {} is invalid", quoted(name)))
            .details("1 to 15 letters, digits, dots, underscores, hyphens")),
    }
}

/// Reads `16`, `0x10` or `0x10/0xff`.
fn mark(root: &Map<String, Value>) -> Result<Option<Mark>, CniError> {
    let text = match root.get("mark") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (number(value), number(mask)),
        None => (number(&text), Some(u32::MAX)),
    };
    match (value, mask) {
        (Some(value), Some(mask)) if mask != 0 && value & !mask == 0 => Ok(Some(Mark { value, mask })),
        _ => Err(invalid(format!("mark {} is invalid", quoted(&text)))
            .details("a value such as 16 or 0x10, or value and mask such as 0x10/0xff")),
    }
}

/// The name of the plugin that manages addresses.
fn delegate(ipam: Option<&Map<String, Value>>) -> Result<Option<String>, CniError> {
    let Some(ipam) = ipam else { return Ok(None) };
    match string(ipam, "type")?.filter(|kind| !kind.is_empty()) {
        Some(kind) if kind.contains('/') || kind == "." || kind == ".." => {
            Err(invalid(format!("ipam.type {} is a path", quoted(kind)))
                .details("it is the name of a plugin in CNI_PATH"))
        }
        kind => Ok(kind.map(str::to_owned)),
    }
}

fn mac(runtime: Option<&Map<String, Value>>) -> Result<Option<Mac>, CniError> {
    let Some(runtime) = runtime else { return Ok(None) };
    let text = string(runtime, "mac")?;
    let read = |text: &str| text.parse().map_err(|e| invalid(format!("runtimeConfig.mac: {e}")));
    text.filter(|text| !text.is_empty()).map(read).transpose()
}

fn valid_attachments(root: &Map<String, Value>) -> Result<Option<Vec<Attachment>>, CniError> {
    let list = match root.get(VALID_ATTACHMENTS) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(invalid(format!("{VALID_ATTACHMENTS} is not a list"))),
    };
    let one = |value: &Value| {
        let entry = value.as_object();
        let text = |key: &str| entry.and_then(|e| string(e, key).ok().flatten()).map(str::to_owned);
        match (text("containerID"), text("ifname")) {
            (Some(container), Some(interface)) => Ok(Attachment { container, interface }),
            _ => Err(invalid(format!("an entry of {VALID_ATTACHMENTS} lacks containerID or ifname"))),
        }
    };
    list.iter().map(one).collect::<Result<_, _>>().map(Some)
}

/// The version of a configuration that may be invalid otherwise; errors are written in it.
pub fn version_of(text: &[u8]) -> Version {
    let root: Option<Value> = serde_json::from_slice(text).ok();
    let text = root.as_ref().and_then(|root| root.get("cniVersion")).and_then(Value::as_str);
    text.and_then(|text| Version::read(text).ok()).unwrap_or_default()
}

impl PluginConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// When it is no JSON object, or a value is invalid, with the key.
    pub fn read(text: &[u8]) -> Result<Self, CniError> {
        if text.len() > CONFIG_MAX {
            let bound = format!("the network configuration is longer than {CONFIG_MAX} bytes");
            return Err(CniError::new(ErrorCode::Decoding, bound));
        }
        let root: Map<String, Value> = serde_json::from_slice(text).map_err(|error| {
            CniError::new(ErrorCode::Decoding, "the network configuration is not a JSON object")
                .details(error)
        })?;
        // Without the key, the specification assumes 0.1.0, whose results have another form.
        let version = Version::read(string(&root, "cniVersion")?.unwrap_or("0.1.0"))?;
        check_keys(&root)?;
        let runtime = object(&root, "runtimeConfig")?;
        let bandwidth = runtime.and_then(|r| r.get("bandwidth")).filter(|value| !value.is_null());
        let ipam = object(&root, "ipam")?;
        let port = port(&root)?;
        let config = Self {
            version,
            network: network(&root)?,
            role: if ipam.is_some() || port.is_some() { PluginRole::Port } else { PluginRole::Chained },
            socket: PathBuf::from(string(&root, "socket")?.unwrap_or(SOCKET)),
            port,
            mark: mark(&root)?,
            ipam: delegate(ipam)?,
            bandwidth: bandwidth.map(Bandwidth::read).transpose()?.unwrap_or_default(),
            mac: mac(runtime)?,
            previous: root.get("prevResult").filter(|value| !value.is_null()).cloned(),
            valid: valid_attachments(&root)?,
        };
        match (config.role, config.mark) {
            (PluginRole::Port, Some(_)) => {
                Err(invalid("`mark` is for a chained plugin; `ipam` and `port` are for a port".to_owned()))
            }
            _ => Ok(config),
        }
    }
}

#[cfg(test)]
mod tests;
