//! The uplinks of a configuration: one without a name, or a table for each.

use super::{ConfigError, ConfiguredPort, UplinkBackend, UplinkConfig};
use core::num::NonZeroUsize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weft_units::BitsPerSec;

/// The keys of the single uplink. With tables, rate, workers, backend and policy hold for those that have none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Head {
    pub(super) uplink: Option<String>,
    pub(super) netns: Option<String>,
    pub(super) default: Option<String>,
    pub(super) rate: Option<BitsPerSec>,
    pub(super) workers: Option<NonZeroUsize>,
    pub(super) backend: Option<UplinkBackend>,
    pub(super) policy: Option<PathBuf>,
}

/// The keys that a file sets in an uplink's table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct UplinkLayer {
    pub(super) device: Option<String>,
    pub(super) netns: Option<String>,
    pub(super) rate: Option<BitsPerSec>,
    pub(super) workers: Option<NonZeroUsize>,
    pub(super) backend: Option<UplinkBackend>,
    pub(super) policy: Option<PathBuf>,
}

/// Tables below others, whose keys count.
pub(super) fn under(
    mut below: BTreeMap<String, UplinkLayer>,
    above: BTreeMap<String, UplinkLayer>,
) -> BTreeMap<String, UplinkLayer> {
    for (name, above) in above {
        let layer = below.remove(&name).unwrap_or_default().under(above);
        below.insert(name, layer);
    }
    below
}

impl UplinkLayer {
    fn under(self, above: Self) -> Self {
        Self {
            device: above.device.or(self.device),
            netns: above.netns.or(self.netns),
            rate: above.rate.or(self.rate),
            workers: above.workers.or(self.workers),
            backend: above.backend.or(self.backend),
            policy: above.policy.or(self.policy),
        }
    }
}

impl Head {
    pub(super) fn under(self, above: Self) -> Self {
        Self {
            uplink: above.uplink.or(self.uplink),
            netns: above.netns.or(self.netns),
            default: above.default.or(self.default),
            rate: above.rate.or(self.rate),
            workers: above.workers.or(self.workers),
            backend: above.backend.or(self.backend),
            policy: above.policy.or(self.policy),
        }
    }

    /// The uplinks with their ports, and the place of the default one.
    pub(super) fn complete(
        self,
        tables: BTreeMap<String, UplinkLayer>,
        ports: Vec<ConfiguredPort>,
        main: &Path,
    ) -> Result<(Vec<UplinkConfig>, Option<usize>), ConfigError> {
        let default = self.default.clone();
        let mut uplinks =
            if tables.is_empty() { vec![self.single(main)?] } else { self.named(tables, main)? };
        let find = |name: &str| uplinks.iter().position(|uplink| uplink.title() == name);
        let names: Vec<&str> = uplinks.iter().map(UplinkConfig::title).collect();
        let names = names.join(", ");
        let wrong = |what: String, hint: String| ConfigError::Uplinks { file: main.to_owned(), what, hint };
        let unknown = |of: &str, name: &str| {
            wrong(
                format!("{of} names the uplink `{name}`, which does not exist"),
                format!("there are: {names}"),
            )
        };
        let default = match &default {
            Some(name) => Some(find(name).ok_or_else(|| unknown("`default-uplink`", name))?),
            None => (uplinks.len() == 1).then_some(0),
        };
        let mut of_port = Vec::new();
        for port in ports {
            let at = match &port.uplink {
                Some(name) => find(name).ok_or_else(|| unknown(&format!("port `{}`", port.name), name))?,
                None => default.ok_or_else(|| {
                    let what =
                        format!("port `{}` names no uplink, and there are several: {names}", port.name);
                    wrong(
                        what,
                        "give the port an `uplink`, or the configuration a `default-uplink`".to_owned(),
                    )
                })?,
            };
            of_port.push((at, port));
        }
        for (at, port) in of_port {
            if let Some(uplink) = uplinks.get_mut(at) {
                uplink.ports.push(port);
            }
        }
        Ok((uplinks, default))
    }

    fn single(self, main: &Path) -> Result<UplinkConfig, ConfigError> {
        let lacks = |key, example| ConfigError::Lacks { file: main.to_owned(), key, example };
        Ok(UplinkConfig {
            name: None,
            device: self.uplink.ok_or_else(|| lacks("uplink", "eth0"))?,
            netns: self.netns,
            rate: self.rate,
            workers: self.workers.unwrap_or(NonZeroUsize::MIN),
            backend: self.backend.unwrap_or_default(),
            policy: self.policy.ok_or_else(|| lacks("policy", "tenants"))?,
            ports: Vec::new(),
        })
    }

    fn named(
        self,
        tables: BTreeMap<String, UplinkLayer>,
        main: &Path,
    ) -> Result<Vec<UplinkConfig>, ConfigError> {
        let wrong = |what: String, hint: &str| {
            Err(ConfigError::Uplinks { file: main.to_owned(), what, hint: hint.to_owned() })
        };
        if self.uplink.is_some() || self.netns.is_some() {
            let what = "`uplink` or `uplink-netns` stands beside tables of uplinks".to_owned();
            return wrong(what, "write `device` and `netns` into a table [uplink.NAME] for it");
        }
        let (mut uplinks, mut devices) = (Vec::new(), BTreeSet::new());
        for (name, table) in tables {
            let Some(device) = table.device else {
                return wrong(format!("`device` is missing in [uplink.{name}]"), "write `device = \"eth0\"`");
            };
            let Some(policy) = table.policy.or_else(|| self.policy.clone()) else {
                return wrong(
                    format!("`policy` is missing in [uplink.{name}]"),
                    "write `policy = \"tenants\"`, in the table or for all at the top",
                );
            };
            if !devices.insert((device.clone(), table.netns.clone())) {
                return wrong(format!("two uplinks have the device `{device}`"), "each needs its own");
            }
            let rate = table.rate.or(self.rate);
            let workers = table.workers.or(self.workers).unwrap_or(NonZeroUsize::MIN);
            let backend = table.backend.or(self.backend).unwrap_or_default();
            let (name, netns, ports) = (Some(name), table.netns, Vec::new());
            uplinks.push(UplinkConfig { name, device, netns, rate, workers, backend, policy, ports });
        }
        Ok(uplinks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::read::read;
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        let main = Path::new("/c/weft.toml");
        let layer = read(text, main, Path::new("/p")).map_err(|found| format!("{found:?}"))?;
        layer.complete(main).map_err(|error| error.to_string())
    }

    const TWO: &str = "policy = \"p\"\nrate = \"1gbps\"\nworkers = 2\n[uplink.lan]\ndevice = \"eth0\"\n\
        [uplink.wan]\ndevice = \"eth1\"\nnetns = \"out\"\npolicy = \"q\"\nrate = \"2gbps\"\nworkers = 4\n";

    #[test]
    fn each_uplink_has_its_policy_and_its_ports() {
        let text = format!(
            "default-uplink = \"lan\"\n{TWO}[[uplink.wan.ports]]\nname = \"b\"\n[[ports]]\nname = \"a\"\n\
             [[ports]]\nname = \"c\"\nuplink = \"wan\"\n"
        );
        let config = config(&text).expect("valid");
        let [lan, wan] = &config.uplinks[..] else { panic!("{config:?}") };
        assert_eq!((config.default_uplink, lan.title(), wan.title()), (Some(0), "lan", "wan"));
        assert_eq!((&lan.policy, &wan.policy), (&"/p/p.weft".into(), &"/p/q.weft".into()));
        assert_eq!((lan.rate, wan.rate), (Some(BitsPerSec(1_000_000_000)), Some(BitsPerSec(2_000_000_000))));
        assert_eq!((lan.workers.get(), wan.workers.get()), (2, 4));
        let names = |of: &UplinkConfig| of.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        // In the order of the file.
        assert_eq!((names(lan), names(wan)), (vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn uplinks_that_do_not_go_together_are_told() {
        for (text, expected) in [
            (
                TWO.to_owned() + "[[ports]]\nname = \"a\"\n",
                "port `a` names no uplink, and there are several: lan, wan",
            ),
            (TWO.to_owned() + "[[ports]]\nname = \"a\"\nuplink = \"x\"\n", "port `a` names the uplink `x`"),
            ("default-uplink = \"x\"\n".to_owned() + TWO, "`default-uplink` names the uplink `x`"),
            ("uplink-netns = \"x\"\n".to_owned() + TWO, "stands beside tables of uplinks"),
            ("policy = \"p\"\n[uplink.a]\nnetns = \"x\"\n".to_owned(), "`device` is missing in [uplink.a]"),
            ("[uplink.a]\ndevice = \"x\"\n".to_owned(), "`policy` is missing in [uplink.a]"),
            (
                TWO.replace("eth1", "eth0").replace("netns = \"out\"\n", ""),
                "two uplinks have the device `eth0`",
            ),
        ] {
            let error = config(&text).unwrap_err();
            assert!(
                error.starts_with("/c/weft.toml: error: ") && error.contains(expected),
                "{text}: {error}"
            );
            assert!(error.contains("\n  hint: "), "{error}");
        }
    }
}
