//! The `CNI_*` variables, checked.

use crate::error::{CniError, ErrorCode};
use std::path::PathBuf;
use weft_text::quoted;

/// The longest name of an interface (`IFNAMSIZ` less the terminating zero).
const INTERFACE_MAX: usize = 15;
/// The longest name of a container. The specification gives no bound; this one bounds messages.
const CONTAINER_MAX: usize = 256;

/// A container's interface, as the runtime names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// The container's name.
    pub container: String,
    /// The interface in the container.
    pub interface: String,
}

/// The parameters of a call that concerns one container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerTarget {
    /// The container and its interface.
    pub attachment: Attachment,
    /// The path of the container's network namespace.
    pub netns: String,
}

/// An operation of the specification, with the variables that it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Connect a container.
    Add(ContainerTarget),
    /// Disconnect a container. Its namespace may be gone.
    Del(Attachment),
    /// Check that a container is connected as before.
    Check(ContainerTarget),
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Report whether ADD requests can be served.
    Status,
    /// Report the supported versions.
    Version,
}

/// The environment of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Environment {
    /// The operation.
    pub verb: Verb,
    /// The folders with plugins, to which address management is delegated.
    pub path: Vec<PathBuf>,
}

/// The value of a variable; empty counts as missing.
fn value(get: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<String, CniError> {
    get(name).filter(|value| !value.is_empty()).ok_or_else(|| {
        CniError::new(ErrorCode::InvalidEnvironment, format!("required variable {name} is missing"))
            .details("container runtimes set it; this program is not run by hand")
    })
}

fn invalid(name: &str, value: &str, rule: &str) -> CniError {
    CniError::new(ErrorCode::InvalidEnvironment, format!("{name}={} is invalid", quoted(value))).details(rule)
}

fn container(get: &dyn Fn(&str) -> Option<String>) -> Result<String, CniError> {
    let name = value(get, "CNI_CONTAINERID")?;
    let letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let good = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(letter);
    match good && name.len() <= CONTAINER_MAX {
        true => Ok(name),
        false => Err(invalid(
            "CNI_CONTAINERID",
            &name,
            "a letter or digit, then letters, digits, dots, underscores, hyphens",
        )),
    }
}

fn interface(get: &dyn Fn(&str) -> Option<String>) -> Result<String, CniError> {
    let name = value(get, "CNI_IFNAME")?;
    let separates = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    match name.len() > INTERFACE_MAX || name == "." || name == ".." || name.contains(separates) {
        true => Err(invalid("CNI_IFNAME", &name, "1 to 15 bytes without space, slash and colon")),
        false => Ok(name),
    }
}

fn target(get: &dyn Fn(&str) -> Option<String>) -> Result<ContainerTarget, CniError> {
    let attachment = Attachment { container: container(get)?, interface: interface(get)? };
    let netns = value(get, "CNI_NETNS")?;
    match netns.starts_with('/') && !netns.contains('\0') {
        true => Ok(ContainerTarget { attachment, netns }),
        false => Err(invalid("CNI_NETNS", &netns, "the absolute path of a network namespace")),
    }
}

impl Environment {
    /// Reads the variables by `get`.
    ///
    /// # Errors
    /// When one is missing or invalid.
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, CniError> {
        let command = value(get, "CNI_COMMAND")?;
        let verb = match command.as_str() {
            "ADD" => Verb::Add(target(get)?),
            "CHECK" => Verb::Check(target(get)?),
            "DEL" => Verb::Del(Attachment { container: container(get)?, interface: interface(get)? }),
            "GC" => Verb::Gc,
            "STATUS" => Verb::Status,
            "VERSION" => Verb::Version,
            _ => return Err(invalid("CNI_COMMAND", &command, "ADD, DEL, CHECK, GC, STATUS, VERSION")),
        };
        let folders = get("CNI_PATH").unwrap_or_default();
        Ok(Self { verb, path: folders.split(':').filter(|f| !f.is_empty()).map(PathBuf::from).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, CniError> {
        let get =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        Environment::read(&get)
    }

    const ADD: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "a1.b_c-d"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/usr/lib/cni:/opt/cni/bin"),
    ];

    #[test]
    fn a_call_has_its_variables() {
        let environment = read(&ADD).expect("valid");
        assert_eq!(environment.path.len(), 2);
        let Verb::Add(target) = environment.verb else { panic!("ADD") };
        assert_eq!((target.netns.as_str(), target.attachment.interface.as_str()), ("/run/netns/x", "eth0"));
        // The namespace is gone after a reboot.
        let del =
            [("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "a"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "")];
        assert!(matches!(read(&del).expect("valid").verb, Verb::Del(_)));
        assert_eq!(read(&[("CNI_COMMAND", "STATUS")]).expect("valid").verb, Verb::Status);
    }

    #[test]
    fn what_is_missing_or_invalid_is_named() {
        for without in 0..4 {
            let mut variables = ADD.to_vec();
            let (name, _) = variables.remove(without);
            let error = read(&variables).expect_err("missing");
            assert_eq!(error.code, 4);
            assert!(error.message.contains(name), "{error}");
        }
        for (name, value) in [
            ("CNI_COMMAND", "PUSH"),
            ("CNI_CONTAINERID", "-a"),
            ("CNI_CONTAINERID", "a/b"),
            ("CNI_NETNS", "x"),
            ("CNI_IFNAME", "a/b"),
            ("CNI_IFNAME", "sixteen-letters-"),
            ("CNI_IFNAME", ".."),
        ] {
            let mut variables = ADD.to_vec();
            variables.retain(|(other, _)| *other != name);
            variables.push((name, value));
            let error = read(&variables).expect_err(value);
            assert_eq!(error.code, 4);
            assert!(error.message.contains(name), "{error}");
        }
    }
}
