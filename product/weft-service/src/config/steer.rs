//! The table `[steer]`: the receive steering of the host's NIC.

use super::values::{Mistakes, each_key, interface, non_empty};
use super::{ConfigError, FlowSource, SteerConfig, UplinkConfig};
use std::path::{Path, PathBuf};
use weft_run::steering::input;
use weft_steer::search::Options;
use weft_text::ParseError;
use weft_text::toml::TomlItem;
use weft_units::Nanos;

/// The keys of the table.
const KEYS: [&str; 7] = ["device", "netns", "nic", "policy", "flows", "watch", "queues"];
/// The model of a NIC of which nothing is known.
const MODEL: &str = "ethtool-generic";
/// The time between two looks at the sockets.
const LOOK: Nanos = Nanos::from_secs(1);
/// The most receive queues of a NIC.
const QUEUES_MAX: u64 = 65_536;

/// The table of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SteerLayer {
    device: Option<String>,
    netns: Option<String>,
    nic: String,
    policy: String,
    flows: FlowSource,
    queues: Option<u32>,
}

impl SteerLayer {
    /// The table with the device of the only uplink, if it names none.
    pub(super) fn complete(self, uplinks: &[UplinkConfig], main: &Path) -> Result<SteerConfig, ConfigError> {
        let (device, netns) = match (self.device, uplinks) {
            (Some(device), _) => (device, self.netns),
            (None, [only]) => (only.device.clone(), only.netns.clone()),
            (None, _) => {
                return Err(ConfigError::Uplinks {
                    file: main.to_owned(),
                    what: "[steer] names no `device`, and there are several uplinks".to_owned(),
                    hint: "write `device = \"eth0\"` into it".to_owned(),
                });
            }
        };
        let Self { nic, policy, flows, queues, .. } = self;
        let options = Options { queues, ..Options::default() };
        Ok(SteerConfig { device, netns, nic, policy, flows, options, interval: LOOK })
    }
}

/// Reads the table of `file`, with model and policy.
pub(super) fn read_steer(item: TomlItem<'_>, file: &Path) -> Result<SteerLayer, Mistakes> {
    let Some(table) = item.as_table("[steer]") else {
        return Err(item.error("`steer` must be a table", "begin it with [steer]").into());
    };
    let (mut device, mut netns, mut nic, mut policy) = (None, None, None, None);
    let (mut from, mut watch, mut queues) = (None, false, None);
    each_key(&table, &KEYS, |item| {
        match item.key {
            "device" => device = Some(interface(item)?),
            "netns" => netns = Some(non_empty(item)?),
            "nic" => nic = Some(checked(item, |text| input::model(text).map(|_| ()))?),
            "policy" => policy = Some(checked(item, |text| input::policy(text).map(|_| ()))?),
            "flows" => from = Some(beside(file, &non_empty(item)?)),
            "watch" => watch = item.boolean()?,
            _ => queues = Some(item.whole(&(1..=QUEUES_MAX))? as u32),
        }
        Ok(())
    })?;
    let flows = match (from, watch) {
        (Some(path), false) => FlowSource::File(path),
        (None, true) => FlowSource::Sockets,
        (Some(_), true) => {
            return Err(item.error("[steer] has both `flows` and `watch`", "leave one of them out").into());
        }
        (None, false) => {
            return Err(item.error("[steer] does not say for which flows", "write `watch = true`").into());
        }
    };
    let Some(policy) = policy else {
        return Err(item.error("[steer] needs a policy", "write `policy = \"balance\"`").into());
    };
    Ok(SteerLayer { device, netns, nic: nic.unwrap_or_else(|| MODEL.to_owned()), policy, flows, queues })
}

/// A text that `check` accepts.
fn checked(
    item: TomlItem<'_>,
    check: impl Fn(&str) -> Result<(), input::InputError>,
) -> Result<String, ParseError> {
    let text = non_empty(item)?;
    check(&text).map_err(|error| {
        let what = error.to_string().replace('\n', " ");
        item.error(what, "`weft steer models` and `weft steer plan` try it out")
    })?;
    Ok(text)
}

/// A path that counts from the folder of `file`.
fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::read::read;
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        let (main, text) = (Path::new("/c/weft.toml"), format!("uplink = \"eth0\"\npolicy = \"p\"\n{text}"));
        let layer = read(&text, main, Path::new("/p"))
            .map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        layer.complete(main).map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_is_read() {
        let steer = |text: &str| config(text).expect("valid").steer.expect("the table");
        let watch = steer("[steer]\npolicy = \"balance\"\nwatch = true\nqueues = 4\n");
        assert_eq!(
            (watch.device.as_str(), watch.nic.as_str(), watch.options.queues),
            ("eth0", MODEL, Some(4))
        );
        assert_eq!(watch.flows, FlowSource::Sockets);
        let file =
            steer("[steer]\ndevice = \"e1\"\nnic = \"e810\"\npolicy = \"balance\"\nflows = \"f.csv\"\n");
        assert_eq!((file.device.as_str(), file.flows), ("e1", FlowSource::File("/c/f.csv".into())));
        assert!(config("").expect("valid").steer.is_none());
    }

    #[test]
    fn errors_have_a_place() {
        for (text, expected) in [
            ("[steer]\npolicy = \"balance\"\n", "does not say for which flows"),
            ("[steer]\nwatch = true\n", "needs a policy"),
            ("[steer]\nwatch = true\npolicy = \"balanc\"\n", "4"),
            ("[steer]\nnic = \"e8100\"\n", "4:7: error: the NIC model e8100 does not exist"),
            ("[steer]\nwatch = 1\n", "4:9: error: `watch` must be true or false"),
            ("[steer]\nqueues = 0\n", "4:10: error: `queues` cannot be `0`"),
            ("[steer]\nflow = \"x\"\n", "4:1: error: unknown key `flow` in [steer]"),
        ] {
            let error = config(text).unwrap_err();
            assert!(error.starts_with("/c/weft.toml:") && error.contains(expected), "{text}: {error}");
        }
    }
}
