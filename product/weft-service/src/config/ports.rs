//! A port of the configuration.

use super::ConfiguredPort;
use super::values::{Mistakes, each_key, interface, list, non_empty};
use std::net::IpAddr;
use weft_facts::ports::PortLimit;
use weft_host::Mac;
use weft_text::toml::TomlItem;
use weft_text::{ParseError, quoted};
use weft_units::{BitsPerSec, Bytes, ParseUnitError};

/// The keys of a port.
const PORT_KEYS: [&str; 7] = ["name", "netns", "addresses", "mac", "uplink", "egress-limit", "ingress-limit"];
/// The largest burst of a port's limit.
pub(crate) const BURST_MAX: Bytes = Bytes(1 << 30);

/// Reads a port; `before` are the file's ports so far.
pub(super) fn read_port(item: TomlItem<'_>, before: &[ConfiguredPort]) -> Result<ConfiguredPort, Mistakes> {
    let Some(table) = item.as_table("[[ports]]") else {
        return Err(item.error("a port must be a table", "begin it with [[ports]]").into());
    };
    let mut port = ConfiguredPort::default();
    each_key(&table, &PORT_KEYS, |item| {
        match item.key {
            "name" => port.name = interface(item)?,
            "netns" => port.netns = Some(non_empty(item)?),
            "mac" => port.mac = Some(mac(item)?),
            "uplink" => port.uplink = Some(non_empty(item)?),
            "egress-limit" => port.egress = Some(limit(item)?),
            "ingress-limit" => port.ingress = Some(limit(item)?),
            _ => port.addresses = list(item)?.into_iter().map(address).collect::<Result<_, _>>()?,
        }
        if item.key == "name" && before.iter().any(|p| p.name == port.name) {
            let what = format!("there are two ports {}", quoted(&port.name));
            return Err(item.error(what, "names are unique").into());
        }
        Ok(())
    })?;
    if port.name.is_empty() {
        return Err(item.error("a port needs a name", "write `name = \"weft0\"`").into());
    }
    Ok(port)
}

fn mac(item: TomlItem<'_>) -> Result<Mac, ParseError> {
    let text = item.text()?;
    text.parse()
        .map_err(|_| item.error(format!("{} is no hardware address", quoted(text)), "six bytes with colons"))
}

fn address(item: TomlItem<'_>) -> Result<(IpAddr, u8), ParseError> {
    let text = item.text()?;
    parse_address(text).ok_or_else(|| {
        let what = format!("{} is not an address with a prefix length", quoted(text));
        item.error(what, "such as \"192.0.2.1/24\"")
    })
}

/// An address with its prefix length, such as `192.0.2.1/24`.
pub(crate) fn parse_address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((address, length))
}

fn limit(item: TomlItem<'_>) -> Result<PortLimit, ParseError> {
    let hint = "such as \"100mbps\", or with its burst \"100mbps,30kb\"";
    match parse_limit(item.text()?) {
        Ok(PortLimit { rate: BitsPerSec::ZERO, .. }) => Err(item.error("a rate of zero sends nothing", hint)),
        Ok(limit) if limit.burst > BURST_MAX => {
            Err(item.error(format!("a burst of at most {BURST_MAX} is possible"), hint))
        }
        Ok(limit) => Ok(limit),
        Err(error) => Err(item.error(error.to_string(), hint)),
    }
}

/// A limit of a port: a rate, and a burst behind a comma. Without it the limit has the burst of a policy's limit.
///
/// # Errors
/// If one of them is no number with a unit.
pub fn parse_limit(text: &str) -> Result<PortLimit, ParseUnitError> {
    let (rate, burst) = text.split_once(',').map_or((text, None), |(rate, burst)| (rate, Some(burst)));
    let rate: BitsPerSec = rate.parse()?;
    let burst = burst.map_or_else(|| Ok(weft_policy::default_burst(rate)), str::parse::<Bytes>)?;
    Ok(PortLimit { rate, burst })
}
