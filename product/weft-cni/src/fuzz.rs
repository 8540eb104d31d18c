//! The fuzz target: the properties that must hold for any configuration.

use crate::bandwidth::Limit;
use crate::config::version_of;
use crate::plugin::PluginRequest;
use crate::result::{self, Addressing};
use crate::{name, version::Version};
use serde_json::Value;
use weft_units::Bytes;

/// The verbs, with the variables of a valid call.
const VERBS: [&str; 6] = ["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"];

/// Reads `data` as the configuration of every verb, as a result, and as the value of every variable. Panics when an error is
/// not an object of one line, a limit has no burst, or a name does not fit.
pub fn fuzz_cni(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for verb in VERBS {
        let get = |name: &str| match name {
            "CNI_COMMAND" => Some(verb.to_owned()),
            "CNI_CONTAINERID" => Some("c".to_owned()),
            "CNI_NETNS" => Some("/run/netns/n".to_owned()),
            _ => Some("eth0".to_owned()),
        };
        check(PluginRequest::read(&get, data), data);
        for odd in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH", "CNI_COMMAND"] {
            let get = |name: &str| if name == odd { Some(text.to_string()) } else { get(name) };
            check(PluginRequest::read(&get, b"{}"), data);
        }
    }
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        let _ = Addressing::read(&value);
        let _ = result::interfaces(&value);
    }
}

fn check(request: Result<PluginRequest, crate::CniError>, data: &[u8]) {
    match request {
        Err(error) => {
            let json = error.to_json(version_of(data).text());
            assert!(error.code > 0 && !json.contains('\n'), "{json}");
            let read: Value = serde_json::from_str(&json).expect("an object");
            assert!(Version::read(read["cniVersion"].as_str().unwrap_or_default()).is_ok(), "{json}");
        }
        Ok(PluginRequest::Version) => {}
        Ok(PluginRequest::Operation(_, config)) => {
            let limits = [config.bandwidth.ingress, config.bandwidth.egress];
            let deep = |limit: Limit| limit.depth(Bytes(1538)) >= Bytes(1538);
            assert!(limits.into_iter().flatten().all(deep), "{config:?}");
            assert!(name::prefix(&config.network).len() < name::LENGTH);
            assert!(config.port.is_none_or(|port| port.len() <= name::LENGTH));
        }
    }
}
