//! Results of plugins: those of address management, those of the plugins before this one, and ours.
//!
//! A result stays the JSON object that it was, so that keys of later versions of the specification survive. What the plugin
//! itself needs is read from it.

use crate::error::{CniError, ErrorCode};
use crate::version::Version;
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use weft_host::Mac;
use weft_text::quoted;

/// The properties of a route (since 1.1.0) that are not applied.
const ROUTE_EXTRAS: [&str; 5] = ["mtu", "advmss", "priority", "table", "scope"];

/// An address with the length of its network's prefix.
pub type Cidr = (IpAddr, u8);

/// A route of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultRoute {
    /// The destination.
    pub to: Cidr,
    /// The next hop; `None` for a directly reachable network.
    pub gateway: Option<IpAddr>,
}

/// The addresses and routes of a result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addressing {
    /// The addresses.
    pub addresses: Vec<Cidr>,
    /// The routes.
    pub routes: Vec<ResultRoute>,
}

/// An interface of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultInterface {
    /// Its name.
    pub name: String,
    /// The path of the container's namespace; empty for an interface of the host.
    pub sandbox: String,
}

fn invalid(text: String) -> CniError {
    CniError::new(ErrorCode::Decoding, text)
}

/// Reads `10.1.0.5/16`.
fn cidr(text: &str) -> Result<Cidr, CniError> {
    let parts = text.split_once('/').and_then(|(address, length)| {
        let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
    });
    parts.ok_or_else(|| invalid(format!("{} is not an address such as 10.1.0.5/16", quoted(text))))
}

fn address(text: &str) -> Result<IpAddr, CniError> {
    text.parse().map_err(|_| invalid(format!("{} is not an address", quoted(text))))
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The entries of a list; a missing list is empty.
fn list<'a>(result: &'a Value, key: &str) -> Result<&'a [Value], CniError> {
    match result.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) => Err(invalid(format!("`{key}` of the result is not a list"))),
    }
}

fn route(entry: &Value, gateways: &[IpAddr]) -> Result<ResultRoute, CniError> {
    let extra = ROUTE_EXTRAS.iter().find(|key| entry.get(**key).is_some_and(|value| !value.is_null()));
    if let Some(key) = extra {
        let value = entry.get(*key).map(Value::to_string).unwrap_or_default();
        return Err(CniError::new(
            ErrorCode::UnsupportedField,
            format!("route with {key} {}", quoted(&value)),
        )
        .details("routes have `dst` and `gw` only"));
    }
    let to = cidr(text(entry, "dst").ok_or_else(|| invalid("a route has no `dst`".to_owned()))?)?;
    let family = |gateway: &&IpAddr| gateway.is_ipv4() == to.0.is_ipv4();
    let gateway = match text(entry, "gw") {
        Some(gateway) => Some(address(gateway)?),
        None => gateways.iter().find(family).copied(),
    };
    Ok(ResultRoute { to, gateway })
}

impl Addressing {
    /// Reads the addresses and routes of a result. Routes without a gateway go by that of the addresses.
    ///
    /// # Errors
    /// When an address is invalid, or a route has a property that is not supported.
    pub fn read(result: &Value) -> Result<Self, CniError> {
        let (mut addresses, mut gateways) = (Vec::new(), Vec::new());
        for entry in list(result, "ips")? {
            let of = text(entry, "address")
                .ok_or_else(|| invalid("an entry of `ips` has no address".to_owned()))?;
            addresses.push(cidr(of)?);
            gateways.extend(text(entry, "gateway").map(address).transpose()?);
        }
        let routes = list(result, "routes")?.iter().map(|entry| route(entry, &gateways));
        Ok(Self { addresses, routes: routes.collect::<Result<_, _>>()? })
    }
}

/// The interfaces of a result.
///
/// # Errors
/// When they are not a list of objects with names.
pub fn interfaces(result: &Value) -> Result<Vec<ResultInterface>, CniError> {
    let one = |entry: &Value| {
        let name =
            text(entry, "name").ok_or_else(|| invalid("an interface of `prevResult` has no name".to_owned()));
        Ok(ResultInterface {
            name: name?.to_owned(),
            sandbox: text(entry, "sandbox").unwrap_or_default().to_owned(),
        })
    };
    list(result, "interfaces")?.iter().map(one).collect()
}

/// The result of ADD for a port: that of address management, with the interface.
///
/// # Errors
/// When the given result is not an object.
pub fn of_port(
    version: Version,
    addresses: Option<Value>,
    interface: &ResultInterface,
    mac: Option<Mac>,
) -> Result<Value, CniError> {
    let mut result = match addresses {
        None => Map::new(),
        Some(Value::Object(result)) => result,
        Some(_) => return Err(invalid("the result of address management is not an object".to_owned())),
    };
    let mut entry = json!({ "name": interface.name, "sandbox": interface.sandbox });
    if let Some(mac) = mac {
        entry["mac"] = json!(mac.to_string());
    }
    result.insert("cniVersion".to_owned(), json!(version.text()));
    result.insert("interfaces".to_owned(), json!([entry]));
    if let Some(Value::Array(addresses)) = result.get_mut("ips") {
        for address in addresses.iter_mut().filter_map(Value::as_object_mut) {
            address.insert("interface".to_owned(), json!(0));
        }
    }
    Ok(Value::Object(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of `host-local` for the example in the specification, section 5.
    fn host_local() -> Value {
        json!({
            "ips": [ { "address": "10.1.0.5/16", "gateway": "10.1.0.1" } ],
            "routes": [ { "dst": "0.0.0.0/0" }, { "dst": "10.9.0.0/16", "gw": "10.1.0.9" } ],
            "dns": { "nameservers": [ "10.1.0.1" ] }
        })
    }

    #[test]
    fn addresses_and_routes_are_read() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let read = Addressing::read(&host_local()).expect("valid");
        assert_eq!(read.addresses, [(ip("10.1.0.5"), 16)]);
        assert_eq!(read.routes[0], ResultRoute { to: (ip("0.0.0.0"), 0), gateway: Some(ip("10.1.0.1")) });
        assert_eq!(read.routes[1].gateway, Some(ip("10.1.0.9")));
        let six = json!({ "ips": [ { "address": "fd00::5/64" } ], "routes": [ { "dst": "::/0" } ] });
        assert_eq!(Addressing::read(&six).expect("valid").routes[0].gateway, None);
        assert_eq!(Addressing::read(&json!({})).expect("valid"), Addressing::default());
    }

    #[test]
    fn invalid_results_are_refused() {
        for (result, code) in [
            (json!({ "ips": [ { "address": "10.1.0.5" } ] }), 6),
            (json!({ "ips": [ { "address": "10.1.0.5/33" } ] }), 6),
            (json!({ "ips": [ {} ] }), 6),
            (json!({ "ips": {} }), 6),
            (json!({ "routes": [ { "gw": "10.1.0.1" } ] }), 6),
            (json!({ "routes": [ { "dst": "0.0.0.0/0", "gw": "x" } ] }), 6),
            (json!({ "routes": [ { "dst": "0.0.0.0/0", "table": 100 } ] }), 2),
        ] {
            assert_eq!(Addressing::read(&result).expect_err("refused").code, code, "{result}");
        }
    }

    #[test]
    fn the_result_of_a_port_has_its_interface() {
        let interface = ResultInterface { name: "eth0".to_owned(), sandbox: "/run/netns/x".to_owned() };
        let result =
            of_port(Version::V1_0_0, Some(host_local()), &interface, Some(Mac::local(1))).expect("an object");
        assert_eq!(result["ips"][0]["interface"], 0);
        assert_eq!(result["interfaces"][0]["mac"], "02:00:00:00:00:01");
        assert_eq!(result["dns"]["nameservers"][0], "10.1.0.1");
        assert_eq!(interfaces(&result).expect("valid"), [interface]);
    }
}
