//! One file of a configuration, with the place of what is wrong.

use super::ports::read_port;
use super::steer::{SteerLayer, read_steer};
use super::uplinks::{Head, UplinkLayer, under};
use super::{Config, ConfigError, GROUP, Hold, Metrics, OnFailure, PortConfig, Watchdog};
use core::num::NonZeroUsize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weft_nic::nic::WORKERS;
use weft_text::{LocatedError, ParseError, hint, hint_and_all, quoted};
use weft_units::{BitsPerSec, ParseUnitError};

/// The longest name of an interface (`IFNAMSIZ` without its NUL, linux/if.h).
const NAME_MAX: usize = 15;
/// The keys of a file.
const KEYS: [&str; 14] = [
    "uplink",
    "uplink-netns",
    "default-uplink",
    "rate",
    "workers",
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
const UPLINK_KEYS: [&str; 6] = ["device", "netns", "rate", "workers", "policy", "ports"];
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
    ports: Vec<PortConfig>,
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

/// A value with its key.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    pub(super) fn error(&self, what: impl AsRef<str>, hint: impl AsRef<str>) -> ParseError {
        ParseError::new(self.value.span(), what, hint)
    }

    pub(super) fn text(&self) -> Result<&'a str, ParseError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self
                .error(format!("`{}` must be a text", self.key), format!("write `{} = \"...\"`", self.key))),
        }
    }

    /// The error for a quantity that cannot be read, with the text that was meant, or else `hint`.
    pub(super) fn not_read(&self, error: &ParseUnitError, hint: &str) -> ParseError {
        let what = format!("{} is not {}", quoted(&error.given), error.expected);
        let meant = error.meant.as_ref().map(|meant| format!("write `{} = \"{meant}\"`", self.key));
        self.error(what, meant.as_deref().unwrap_or(hint))
    }

    /// A text that is not empty.
    pub(super) fn name(&self) -> Result<String, ParseError> {
        match self.text()? {
            "" => Err(self.error(format!("`{}` is empty", self.key), "leave the key out, or name something")),
            text => Ok(text.to_owned()),
        }
    }

    /// The name of an interface, by the kernel's rules (`dev_valid_name`, net/core/dev.c).
    pub(super) fn interface(&self) -> Result<String, ParseError> {
        let name = self.name()?;
        let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if name.len() > NAME_MAX || name == "." || name == ".." || name.contains(odd) {
            let what = format!("{} cannot be the name of an interface", quoted(&name));
            return Err(self.error(what, format!("use at most {NAME_MAX} letters, digits, dots and dashes")));
        }
        Ok(name)
    }

    /// A value of `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, ParseError> {
        match self.value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.error(
                format!("`{}` must be true or false", self.key),
                format!("write `{} = true`", self.key),
            )),
        }
    }

    fn one_of<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, ParseError> {
        let text = self.text()?;
        let found = known.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            self.error(
                format!("{} is no value of `{}`", quoted(text), self.key),
                hint_and_all(text, &names, &[]),
            )
        })
    }

    pub(super) fn list(&self) -> Result<impl Iterator<Item = Item<'a>> + use<'a>, ParseError> {
        let key = self.key;
        match self.value.get_ref() {
            DeValue::Array(items) => Ok(items.iter().map(move |value| Item { key, value })),
            _ => Err(self.error(format!("`{key}` must be a list"), format!("write `{key} = [...]`"))),
        }
    }
}

/// The mistakes of a file or of a part of it, at least one.
#[derive(Debug)]
pub(super) struct Mistakes(Vec<ParseError>);

impl From<ParseError> for Mistakes {
    fn from(mistake: ParseError) -> Self {
        Self(vec![mistake])
    }
}

/// Does `read` for each of `parts`, and returns the mistakes of all.
fn each<T>(
    parts: impl IntoIterator<Item = T>,
    mut read: impl FnMut(T) -> Result<(), Mistakes>,
) -> Result<(), Mistakes> {
    let found: Vec<ParseError> =
        parts.into_iter().filter_map(|part| read(part).err()).flat_map(|mistakes| mistakes.0).collect();
    if found.is_empty() { Ok(()) } else { Err(Mistakes(found)) }
}

/// Does `read` for each key of a table that has `keys`, and returns the mistakes of all.
pub(super) fn each_key<'a>(
    table: &'a DeTable<'a>,
    keys: &[&str],
    mut read: impl FnMut(Item<'a>) -> Result<(), Mistakes>,
) -> Result<(), Mistakes> {
    each(table, |(key, value)| {
        known(key, keys)?;
        read(Item { key: key.get_ref(), value })
    })
}

/// Reads a file. `policies` is the folder of policies without a path. Returns all mistakes, in the order of their places.
pub(super) fn read(text: &str, file: &Path, policies: &Path) -> Result<Layer, Vec<LocatedError>> {
    parse(text, file, policies).map_err(|Mistakes(mut found)| {
        found.sort_by_key(|mistake| mistake.span.start);
        found.into_iter().map(|mistake| mistake.locate(&file.display().to_string(), text)).collect()
    })
}

fn parse(text: &str, file: &Path, policies: &Path) -> Result<Layer, Mistakes> {
    let table = DeTable::parse(text).map(Spanned::into_inner).map_err(|error| {
        let what = format!("this is not TOML: {}", error.message());
        ParseError::new(
            error.span().unwrap_or(0..0),
            what,
            "write texts in quotes; a port begins with [[ports]]",
        )
    })?;
    let mut layer = Layer::default();
    each_key(&table, &KEYS, |item| set(&mut layer, item, file, policies))?;
    Ok(layer)
}

pub(super) fn known(key: &Spanned<toml::de::DeString<'_>>, keys: &[&str]) -> Result<(), ParseError> {
    let name: &str = key.get_ref();
    if keys.contains(&name) {
        return Ok(());
    }
    Err(ParseError::new(key.span(), format!("there is no key {}", quoted(name)), hint(name, keys, &SYNONYMS)))
}

fn set(layer: &mut Layer, item: Item<'_>, file: &Path, policies: &Path) -> Result<(), Mistakes> {
    match item.key {
        "uplink" => match item.value.get_ref() {
            DeValue::Table(tables) => each(tables, |(name, value)| {
                let name = uplink_name(name)?;
                let item = Item { key: "uplink", value };
                let uplink = read_uplink(&name, item, &mut layer.ports, file, policies)?;
                layer.uplinks.insert(name, uplink);
                Ok(())
            })?,
            _ => layer.head.uplink = Some(item.interface()?),
        },
        "uplink-netns" => layer.head.netns = Some(item.name()?),
        "default-uplink" => layer.head.default = Some(item.name()?),
        "rate" => layer.head.rate = Some(rate(item)?),
        "workers" => layer.head.workers = Some(workers(item)?),
        "policy" => layer.head.policy = Some(policy(&item.name()?, file, policies)),
        "socket" => layer.socket = Some(absolute(item, item.text()?)?),
        "group" => layer.group = Some(item.name()?),
        "metrics" => layer.metrics = Some(metrics(item)?),
        "hold" => {
            let known = [
                ("auto", Hold::Auto),
                ("systemd", Hold::Systemd),
                ("keeper", Hold::Keeper),
                ("off", Hold::Off),
            ];
            layer.hold = Some(item.one_of(&known)?);
        }
        "on-failure" => {
            layer.on_failure = Some(item.one_of(&[("hold", OnFailure::Hold), ("pass", OnFailure::Pass)])?);
        }
        "watchdog" => {
            layer.watchdog = Some(item.one_of(&[("auto", Watchdog::Auto), ("off", Watchdog::Off)])?)
        }
        "steer" => layer.steer = Some(read_steer(item, file)?),
        _ => each(item.list()?, |port| {
            let port = read_port(port, &layer.ports)?;
            layer.ports.push(port);
            Ok(())
        })?,
    }
    Ok(())
}

/// The name of an uplink's table. It is part of file names and labels.
fn uplink_name(key: &Spanned<toml::de::DeString<'_>>) -> Result<String, ParseError> {
    let name: &str = key.get_ref();
    let odd = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if name.is_empty() || name.len() > UPLINK_MAX || name.contains(odd) {
        let what = format!("{} cannot be the name of an uplink", quoted(name));
        let hint = format!("use at most {UPLINK_MAX} letters, digits, dashes and underscores");
        return Err(ParseError::new(key.span(), what, hint));
    }
    Ok(name.to_owned())
}

/// Reads the table of the uplink `name`. Its ports go to those of the file.
fn read_uplink(
    name: &str,
    item: Item<'_>,
    ports: &mut Vec<PortConfig>,
    file: &Path,
    policies: &Path,
) -> Result<UplinkLayer, Mistakes> {
    let DeValue::Table(table) = item.value.get_ref() else {
        return Err(item
            .error(
                format!("the uplink {} must be a table", quoted(name)),
                format!("write [uplink.{name}] and below it `device = \"eth0\"`"),
            )
            .into());
    };
    let mut uplink = UplinkLayer::default();
    each_key(table, &UPLINK_KEYS, |item| {
        match item.key {
            "device" => uplink.device = Some(item.interface()?),
            "netns" => uplink.netns = Some(item.name()?),
            "rate" => uplink.rate = Some(rate(item)?),
            "workers" => uplink.workers = Some(workers(item)?),
            "policy" => uplink.policy = Some(policy(&item.name()?, file, policies)),
            _ => each(item.list()?, |item| {
                let port = read_port(item, ports)?;
                if port.uplink.as_ref().is_some_and(|of| of != name) {
                    let what = format!("port {} names another uplink than its table", quoted(&port.name));
                    return Err(item.error(what, "leave its `uplink` out").into());
                }
                ports.push(PortConfig { uplink: Some(name.to_owned()), ..port });
                Ok(())
            })?,
        }
        Ok(())
    })?;
    Ok(uplink)
}

/// A number of transmit workers.
fn workers(item: Item<'_>) -> Result<NonZeroUsize, ParseError> {
    let number = match item.value.get_ref() {
        DeValue::Integer(number) => number.to_string().parse().ok(),
        _ => None,
    };
    number.filter(|number: &NonZeroUsize| number.get() <= WORKERS).ok_or_else(|| {
        let what = format!("`{}` must be a number from 1 to {WORKERS}", item.key);
        item.error(what, format!("write `{} = 2`", item.key))
    })
}

fn rate(item: Item<'_>) -> Result<BitsPerSec, ParseError> {
    let example = "such as \"900mbps\"";
    if let DeValue::Integer(number) = item.value.get_ref() {
        let hint = format!("write `{} = \"{number}mbps\"`, if megabits per second are meant", item.key);
        return Err(item.error(format!("`{}` needs a unit", item.key), hint));
    }
    match item.text()?.parse() {
        Ok(BitsPerSec::ZERO) => Err(item.error("a rate of zero sends nothing", example)),
        Ok(rate) => Ok(rate),
        Err(error) => Err(item.not_read(&error, example)),
    }
}

/// The file of a policy: a name alone is in the folder of policies, a path counts from the configuration's folder.
fn policy(name: &str, file: &Path, policies: &Path) -> PathBuf {
    if name.contains('/') || name.ends_with(".weft") {
        return file.parent().unwrap_or(Path::new("")).join(name);
    }
    policies.join(format!("{name}.weft"))
}

fn absolute(item: Item<'_>, path: &str) -> Result<PathBuf, ParseError> {
    if path.starts_with('/') {
        return Ok(PathBuf::from(path));
    }
    Err(item.error(format!("{} is no absolute path", quoted(path)), "begin it with a slash"))
}

fn metrics(item: Item<'_>) -> Result<Metrics, ParseError> {
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
    use weft_run::session::PortLimit;
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
            ("uplnk = \"eth0\"", "1:1: error: there is no key `uplnk`\n  hint: did you mean `uplink`?"),
            ("interface = \"e\"", "1:1: error: there is no key `interface`\n  hint: did you mean `uplink`?"),
            ("uplink = 7", "1:10: error: `uplink` must be a text\n  hint: write `uplink = \"...\"`"),
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
                "1:11: error: `workers` must be a number from 1 to 64\n  hint: write `workers = 2`",
            ),
            ("workers = \"2\"", "1:11: error: `workers` must be a number from 1 to 64"),
            ("[uplink.a]\nworkers = 65", "2:11: error: `workers` must be a number from 1 to 64"),
            ("\nmetrics = \"192.0.2.1:80\"", "2:11: error: `192.0.2.1:80` is no loopback address"),
            ("metrics = \"on\"", "1:11: error: `on` is no place for metrics"),
            (
                "on-failure = \"hld\"",
                "1:14: error: `hld` is no value of `on-failure`\n  hint: did you mean `hold`?",
            ),
            ("socket = \"x\"", "1:10: error: `x` is no absolute path"),
            ("ports = 1", "1:9: error: `ports` must be a list"),
            ("[[ports]]\n", "error: a port needs a name"),
            ("[[ports]]\nname = \"a\"\naddress = \"x\"", "3:1: error: there is no key `address`"),
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
            ("[uplink.a]\ninterface = \"e\"", "2:1: error: there is no key `interface`"),
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
