//! One file of a configuration, with the place of what is wrong.

use super::ports::read_port;
use super::steer::{SteerLayer, read_steer};
use super::uplinks::{Head, UplinkLayer, under};
use super::values::{Mistakes, each, each_key, interface, list, non_empty, not_read, one_of};
use super::{Config, ConfigError, ConfiguredPort, GROUP, Hold, Metrics, OnFailure, UplinkBackend, Watchdog};
use core::num::NonZeroUsize;
use core::ops::Range;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use weft_nic::nic::WORKERS;
use weft_text::toml::{self, TomlItem, TomlTable};
use weft_text::{LocatedError, ParseError, quoted};
use weft_units::BitsPerSec;

/// The keys of a file.
const KEYS: [&str; 15] = [
    "uplink",
    "uplink-netns",
    "default-uplink",
    "rate",
    "workers",
    "backend",
    "policy",
    "socket",
    "group",
    "metrics",
    "hold",
    "on-failure",
    "watchdog",
    "ports",
    "steer",
];
/// The keys of an uplink's table.
const UPLINK_KEYS: [&str; 7] = ["device", "netns", "rate", "workers", "backend", "policy", "ports"];
/// The longest name of an uplink.
const UPLINK_MAX: usize = 32;
/// Other words for keys.
const SYNONYMS: [(&str, &str); 7] = [
    ("interface", "uplink"),
    ("uplinks", "uplink"),
    ("bandwidth", "rate"),
    ("address", "addresses"),
    ("namespace", "netns"),
    ("listen", "socket"),
    ("port", "ports"),
];

/// The keys that a file sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Layer {
    head: Head,
    uplinks: BTreeMap<String, UplinkLayer>,
    socket: Option<PathBuf>,
    group: Option<String>,
    metrics: Option<Metrics>,
    hold: Option<Hold>,
    on_failure: Option<OnFailure>,
    watchdog: Option<Watchdog>,
    steer: Option<SteerLayer>,
    ports: Vec<ConfiguredPort>,
}

impl Layer {
    /// This layer below another, whose keys count.
    pub(super) fn under(self, above: Self) -> Self {
        let mut ports = self.ports;
        for port in above.ports {
            match ports.iter_mut().find(|p| p.name == port.name) {
                Some(same) => *same = port,
                None => ports.push(port),
            }
        }
        Self {
            head: self.head.under(above.head),
            uplinks: under(self.uplinks, above.uplinks),
            socket: above.socket.or(self.socket),
            group: above.group.or(self.group),
            metrics: above.metrics.or(self.metrics),
            hold: above.hold.or(self.hold),
            on_failure: above.on_failure.or(self.on_failure),
            watchdog: above.watchdog.or(self.watchdog),
            steer: above.steer.or(self.steer),
            ports,
        }
    }

    /// The configuration, if no required key is missing.
    pub(super) fn complete(self, main: &Path) -> Result<Config, ConfigError> {
        let (uplinks, default_uplink) = self.head.complete(self.uplinks, self.ports, main)?;
        let steer = self.steer.map(|steer| steer.complete(&uplinks, main)).transpose()?;
        Ok(Config {
            uplinks,
            default_uplink,
            socket: self.socket.unwrap_or_else(|| weft_control::SOCKET.into()),
            group: self.group.unwrap_or_else(|| GROUP.to_owned()),
            metrics: self.metrics.unwrap_or_default(),
            hold: self.hold.unwrap_or_default(),
            on_failure: self.on_failure.unwrap_or_default(),
            watchdog: self.watchdog.unwrap_or_default(),
            steer,
        })
    }
}

/// Reads a file. `policies` is the folder of policies without a path. Returns all mistakes, in the order of their places.
pub(super) fn read(text: &str, file: &Path, policies: &Path) -> Result<Layer, Vec<LocatedError>> {
    parse(text, file, policies).map_err(|Mistakes(mut found)| {
        found.sort_by_key(|mistake| mistake.span.start);
        found.into_iter().map(|mistake| mistake.locate(&file.display().to_string(), text)).collect()
    })
}

fn parse(text: &str, file: &Path, policies: &Path) -> Result<Layer, Mistakes> {
    let map = toml::parse(text, "write texts in quotes; a port begins with [[ports]]")?;
    let mut layer = Layer::default();
    each_key(&TomlTable::root("the file", &map, &SYNONYMS), &KEYS, |item| {
        set(&mut layer, item, file, policies)
    })?;
    Ok(layer)
}

fn set(layer: &mut Layer, item: TomlItem<'_>, file: &Path, policies: &Path) -> Result<(), Mistakes> {
    match item.key {
        "uplink" => match item.as_table("uplink") {
            Some(tables) => each(tables.entries(), |(span, item)| {
                let name = uplink_name(span, item.key)?;
                let uplink = read_uplink(&name, item.named("uplink"), &mut layer.ports, file, policies)?;
                layer.uplinks.insert(name, uplink);
                Ok(())
            })?,
            None => layer.head.uplink = Some(interface(item)?),
        },
        "uplink-netns" => layer.head.netns = Some(non_empty(item)?),
        "default-uplink" => layer.head.default = Some(non_empty(item)?),
        "rate" => layer.head.rate = Some(rate(item)?),
        "workers" => layer.head.workers = Some(workers(item)?),
        "backend" => layer.head.backend = Some(backend(item)?),
        "policy" => layer.head.policy = Some(policy(&non_empty(item)?, file, policies)),
        "socket" => layer.socket = Some(absolute(item, item.text()?)?),
        "group" => layer.group = Some(non_empty(item)?),
        "metrics" => layer.metrics = Some(metrics(item)?),
        "hold" => {
            let known = [
                ("auto", Hold::Auto),
                ("systemd", Hold::Systemd),
                ("keeper", Hold::Keeper),
                ("off", Hold::Off),
            ];
            layer.hold = Some(one_of(item, &known)?);
        }
        "on-failure" => {
            layer.on_failure = Some(one_of(item, &[("hold", OnFailure::Hold), ("pass", OnFailure::Pass)])?);
        }
        "watchdog" => {
            layer.watchdog = Some(one_of(item, &[("auto", Watchdog::Auto), ("off", Watchdog::Off)])?)
        }
        "steer" => layer.steer = Some(read_steer(item, file)?),
        _ => each(list(item)?, |port| {
            let port = read_port(port, &layer.ports)?;
            layer.ports.push(port);
            Ok(())
        })?,
    }
    Ok(())
}

/// The name of an uplink's table. It is part of file names and labels.
fn uplink_name(span: Range<usize>, name: &str) -> Result<String, ParseError> {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if name.is_empty() || name.len() > UPLINK_MAX || name.contains(odd) {
        let what = format!("{} cannot be the name of an uplink", quoted(name));
        let hint = format!("use at most {UPLINK_MAX} letters, digits, dashes and underscores");
        return Err(ParseError::new(span, what, hint));
    }
    Ok(name.to_owned())
}

/// Reads the table of the uplink `name`. Its ports go to those of the file.
fn read_uplink(
    name: &str,
    item: TomlItem<'_>,
    ports: &mut Vec<ConfiguredPort>,
    file: &Path,
    policies: &Path,
) -> Result<UplinkLayer, Mistakes> {
    let title = format!("[uplink.{name}]");
    let Some(table) = item.as_table(&title) else {
        let hint = format!("write {title} and below it `device = \"eth0\"`");
        return Err(item.error(format!("the uplink {} must be a table", quoted(name)), hint).into());
    };
    let mut uplink = UplinkLayer::default();
    each_key(&table, &UPLINK_KEYS, |item| {
        match item.key {
            "device" => uplink.device = Some(interface(item)?),
            "netns" => uplink.netns = Some(non_empty(item)?),
            "rate" => uplink.rate = Some(rate(item)?),
            "workers" => uplink.workers = Some(workers(item)?),
            "backend" => uplink.backend = Some(backend(item)?),
            "policy" => uplink.policy = Some(policy(&non_empty(item)?, file, policies)),
            _ => each(list(item)?, |item| {
                let port = read_port(item, ports)?;
                if port.uplink.as_ref().is_some_and(|of| of != name) {
                    let what = format!("port {} names another uplink than its table", quoted(&port.name));
                    return Err(item.error(what, "leave its `uplink` out").into());
                }
                ports.push(ConfiguredPort { uplink: Some(name.to_owned()), ..port });
                Ok(())
            })?,
        }
        Ok(())
    })?;
    Ok(uplink)
}

/// A number of transmit workers.
fn workers(item: TomlItem<'_>) -> Result<NonZeroUsize, ParseError> {
    let number = item.whole(&(1..=WORKERS as u64))?;
    Ok(NonZeroUsize::new(number as usize).unwrap_or(NonZeroUsize::MIN))
}

fn backend(item: TomlItem<'_>) -> Result<UplinkBackend, ParseError> {
    let known =
        [("port", UplinkBackend::Port), ("kernel", UplinkBackend::Kernel), ("auto", UplinkBackend::Auto)];
    one_of(item, &known)
}

fn rate(item: TomlItem<'_>) -> Result<BitsPerSec, ParseError> {
    let example = "such as \"900mbps\"";
    if let Some(number) = item.as_number() {
        let hint = format!("write `{} = \"{number}mbps\"`, if megabits per second are meant", item.key);
        return Err(item.error(format!("`{}` needs a unit", item.key), hint));
    }
    match item.text()?.parse() {
        Ok(BitsPerSec::ZERO) => Err(item.error("a rate of zero sends nothing", example)),
        Ok(rate) => Ok(rate),
        Err(error) => Err(not_read(item, &error, example)),
    }
}

/// The file of a policy: a name alone is in the folder of policies, a path counts from the configuration's folder.
fn policy(name: &str, file: &Path, policies: &Path) -> PathBuf {
    if name.contains('/') || name.ends_with(".weft") {
        return file.parent().unwrap_or(Path::new("")).join(name);
    }
    policies.join(format!("{name}.weft"))
}

fn absolute(item: TomlItem<'_>, path: &str) -> Result<PathBuf, ParseError> {
    if path.starts_with('/') {
        return Ok(PathBuf::from(path));
    }
    Err(item.error(format!("{} is no absolute path", quoted(path)), "begin it with a slash"))
}

fn metrics(item: TomlItem<'_>) -> Result<Metrics, ParseError> {
    let text = item.text()?;
    if text == "off" {
        return Ok(Metrics::Off);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return absolute(item, path).map(Metrics::Unix);
    }
    let hint = "write \"off\", \"unix:/run/weft/metrics\" or \"localhost:9905\"";
    let addresses = text.rsplit_once(':').and_then(|(host, port)| {
        let port: u16 = port.parse().ok()?;
        // Only names that need no look-up over a network.
        if host == "localhost" {
            return ("localhost", port).to_socket_addrs().ok()?.find(|a| a.ip().is_loopback());
        }
        host.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port))
    });
    match addresses {
        Some(address) if address.ip().is_loopback() => Ok(Metrics::Loopback(address)),
        Some(_) => Err(item.error(
            format!("{} is no loopback address, and the metrics have no access control", quoted(text)),
            "let a proxy or an agent on this host pass them on",
        )),
        None => Err(item.error(format!("{} is no place for metrics", quoted(text)), hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_facts::ports::PortLimit;
    use weft_units::Bytes;

    fn layer(text: &str) -> Result<Layer, String> {
        read(text, Path::new("/c/weft.toml"), Path::new("/p"))
            .map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn all_mistakes_of_a_file_are_found() {
        let text = "uplnk = \"eth0\"\nrate = \"fast\"\n[[ports]]\nname = \"a/b\"\nmac = \"x\"\n[[ports]]\nnetns = 7\n";
        let all = layer(text).unwrap_err();
        let places: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("/c/weft.toml:")).collect();
        let places: Vec<&str> = places.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(places, ["1:1", "2:8", "4:8", "5:7", "7:9"], "{all}");
    }

    #[test]
    fn every_key_is_read() {
        let text = "uplink = \"eth0\"\nuplink-netns = \"out\"\nrate = \"2gbps\"\nworkers = 3\npolicy = \"tenants\"\n\
            socket = \"/s\"\ngroup = \"ops\"\nmetrics = \"[::1]:9\"\non-failure = \"pass\"\nwatchdog = \"off\"\n\
            [[ports]]\nname = \"w0\"\nnetns = \"web\"\naddresses = [\"192.0.2.1/24\", \"::1/128\"]\n\
            mac = \"02:00:5e:00:53:01\"\negress-limit = \"10mbps,30kb\"\ningress-limit = \"1gbps\"\n";
        let config = layer(text).expect("valid").complete(Path::new("x")).expect("complete");
        let uplink = &config.uplinks[0];
        assert_eq!((uplink.title(), uplink.netns.as_deref()), ("eth0", Some("out")));
        assert_eq!((uplink.policy.as_path(), uplink.workers.get()), (Path::new("/p/tenants.weft"), 3));
        assert_eq!((config.socket, config.group.as_str()), (PathBuf::from("/s"), "ops"));
        assert_eq!(config.metrics.to_string(), "http://[::1]:9/metrics");
        assert_eq!((config.on_failure, config.watchdog), (OnFailure::Pass, Watchdog::Off));
        let port = &uplink.ports[0];
        assert_eq!(
            (port.addresses.len(), port.mac.map(|m| m.to_string())),
            (2, Some("02:00:5e:00:53:01".into()))
        );
        let limit = |rate, burst| Some(PortLimit { rate: BitsPerSec(rate), burst });
        assert_eq!(port.egress, limit(10_000_000, Bytes(30_000)));
        assert_eq!(port.ingress, limit(1_000_000_000, weft_policy::default_burst(BitsPerSec(1_000_000_000))));
    }

    #[test]
    fn errors_have_a_place_and_a_remedy() {
        for (text, expected) in [
            (
                "uplnk = \"eth0\"",
                "1:1: error: unknown key `uplnk` in the file\n  hint: did you mean `uplink`?",
            ),
            (
                "interface = \"e\"",
                "1:1: error: unknown key `interface` in the file\n  hint: did you mean `uplink`?",
            ),
            (
                "uplink = 7",
                "1:10: error: `uplink` must be a text, not the number `7`\n  hint: write `uplink = \"...\"`",
            ),
            ("uplink = \"a/b\"", "1:10: error: `a/b` cannot be the name"),
            ("rate = \"fast\"", "1:8: error: `fast` is not a rate"),
            (
                "rate = \"900M\"",
                "1:8: error: `900M` is not a rate such as 500mbps or 2.5gbps\n  hint: write `rate = \"900mbps\"`",
            ),
            ("rate = 900", "1:8: error: `rate` needs a unit\n  hint: write `rate = \"900mbps\"`"),
            ("rate = \"0bps\"", "1:8: error: a rate of zero"),
            (
                "workers = 0",
                "1:11: error: `workers` cannot be `0`\n  hint: write a whole number from 1 to 64",
            ),
            ("workers = \"2\"", "1:11: error: `workers` must be a whole number, not the text `2`"),
            ("[uplink.a]\nworkers = 65", "2:11: error: `workers` cannot be `65`"),
            ("\nmetrics = \"192.0.2.1:80\"", "2:11: error: `192.0.2.1:80` is no loopback address"),
            ("metrics = \"on\"", "1:11: error: `on` is no place for metrics"),
            (
                "on-failure = \"hld\"",
                "1:14: error: `hld` is no value of `on-failure`\n  hint: did you mean `hold`?",
            ),
            ("socket = \"x\"", "1:10: error: `x` is no absolute path"),
            ("ports = 1", "1:9: error: `ports` must be a list"),
            ("[[ports]]\n", "error: a port needs a name"),
            ("[[ports]]\nname = \"a\"\naddress = \"x\"", "3:1: error: unknown key `address` in [[ports]]"),
            ("[[ports]]\nname = \"a\"\naddresses = [\"x\"]", "3:14: error: `x` is not an address"),
            ("[[ports]]\nname = \"a\"\n[[ports]]\nname = \"a\"", "4:8: error: there are two ports `a`"),
            ("[[ports]]\nname = \"a\"\nmac = \"x\"", "3:7: error: `x` is no hardware address"),
            ("[[ports]]\nname = \"a\"\negress-limit = \"x\"", "3:16: error: `x` is not a rate"),
            ("[[ports]]\nname = \"a\"\negress-limit = \"0bps\"", "3:16: error: a rate of zero"),
            (
                "[[ports]]\nname = \"a\"\ningress-limit = \"1mbps,2gb\"",
                "3:17: error: a burst of at most 1.07 GB",
            ),
            ("a b", "error: this is not TOML"),
            ("uplink.a = 1", "1:12: error: the uplink `a` must be a table"),
            ("uplink.\"a.b\".device = \"e\"", "1:8: error: `a.b` cannot be the name of an uplink"),
            ("[uplink.a]\ninterface = \"e\"", "2:1: error: unknown key `interface` in [uplink.a]"),
            ("[uplink.a]\ndevice = \"a/b\"", "2:10: error: `a/b` cannot be the name"),
            (
                "[[uplink.a.ports]]\nname = \"p\"\nuplink = \"b\"",
                "error: port `p` names another uplink than its table",
            ),
            ("[[ports]]\nname = \"p\"\n[[uplink.a.ports]]\nname = \"p\"", "error: there are two ports `p`"),
        ] {
            let error = layer(text).unwrap_err();
            assert!(error.starts_with("/c/weft.toml:") && error.contains(expected), "{text}: {error}");
        }
    }
}
