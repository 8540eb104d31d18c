//! Manifests: the dependencies of each crate, and its licence.

use crate::Finding;
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// The floors of the house, bottom up. A crate may use crates of lower floors only.
pub const FLOORS: [&[&str]; 10] = [
    &["weft-message", "weft-units"],
    &["weft-facts", "weft-rank", "weft-packet", "weft-text", "weft-trace"],
    &["weft-sched", "weft-steer"],
    &["weft-control", "weft-policy", "weft-host", "weft-report"],
    &["weft-lsp", "weft-replay", "weft-sim", "weft-titan"],
    &["weft-nic", "weft-campaign"],
    &["weft-run", "weft-profile"],
    &["weft-experiments", "weft-service"],
    &["weft-cli"],
    &["weft", "weft-lab", "weft-cni", "weft-playground", "weft-python"],
];

/// The laboratory: experiments, simulations and measurements. No crate of the product is built with one of these.
pub const LABORATORY: [&str; 8] = [
    "weft-report",
    "weft-sim",
    "weft-campaign",
    "weft-profile",
    "weft-experiments",
    "weft-lab",
    "weft-playground",
    "weft-python",
];

/// Crates without an operating system: state machines that receive time and input as arguments.
pub const PURE: [&str; 14] = [
    "weft-units",
    "weft-rank",
    "weft-packet",
    "weft-sched",
    "weft-text",
    "weft-trace",
    "weft-steer",
    "weft-policy",
    "weft-lsp",
    "weft-facts",
    "weft-report",
    "weft-sim",
    "weft-control",
    "weft-playground",
];

/// Crates that use the operating system for more than files.
pub const OS_CRATES: [&str; 9] = [
    "libbpf-rs",
    "libc",
    "netlink-packet-core",
    "netlink-packet-route",
    "netlink-sys",
    "nix",
    "rustix",
    "signal-hook",
    "weft-host",
];

/// The direct dependencies of a crate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dependencies {
    /// Normal and build dependencies, for all targets.
    pub built: BTreeSet<String>,
    /// Dependencies of its tests, benchmarks and examples only.
    pub dev: BTreeSet<String>,
}

/// Reads the direct dependencies from a manifest.
pub fn dependencies(manifest: &Table) -> Dependencies {
    let mut found = Dependencies::default();
    let targets = manifest.get("target").and_then(|t| t.as_table());
    let by_target = targets.into_iter().flat_map(|t| t.values()).filter_map(|t| t.as_table());
    for table in std::iter::once(manifest).chain(by_target) {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let set = if section == "dev-dependencies" { &mut found.dev } else { &mut found.built };
            let entries = table.get(section).and_then(|s| s.as_table());
            for (name, entry) in entries.into_iter().flatten() {
                let package = entry.as_table().and_then(|e| e.get("package")).and_then(|p| p.as_str());
                set.insert(package.unwrap_or(name).to_owned());
            }
        }
    }
    found
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

/// Dependencies of `name` on crates of its own floor or a higher one, including those of tests.
pub fn above(name: &str, dependencies: &Dependencies) -> Vec<Finding> {
    let Some(own) = floor(name) else {
        return vec![Finding::at(0, format!("{name} stands on no floor; see manifests.rs"))];
    };
    let all = dependencies.built.union(&dependencies.dev);
    let above = all.filter(|d| floor(d).is_some_and(|floor| floor >= own));
    above
        .map(|d| Finding::at(0, format!("{name} is on floor {own} and uses {d}, which is not below")))
        .collect()
}

/// Operating-system crates among the dependencies of a pure crate. Its tests may use them.
pub fn impure(name: &str, dependencies: &Dependencies) -> Vec<Finding> {
    if !PURE.contains(&name) {
        return Vec::new();
    }
    let impure = dependencies.built.iter().filter(|d| OS_CRATES.contains(&d.as_str()));
    impure.map(|d| Finding::at(0, format!("{name} knows no operating system and must not use {d}"))).collect()
}

/// The list of allowed dependencies of one crate, each with its reason.
pub type Allowed = BTreeMap<String, String>;

/// Reads the table `key` of `list`, such as `weft-nic` or `weft-nic-tests`.
pub fn allowed(list: &Table, key: &str) -> Allowed {
    let lines = list.get(key).and_then(|table| table.as_table()).into_iter().flatten();
    lines.map(|(name, reason)| (name.clone(), reason.as_str().unwrap_or_default().to_owned())).collect()
}

/// Dependencies that are not allowed, and entries of the list that are unused or lack a reason.
pub fn not_allowed(key: &str, used: &BTreeSet<String>, allowed: &Allowed) -> Vec<Finding> {
    let outside = used.iter().filter(|name| !name.starts_with("weft-"));
    let missing = outside.filter(|name| !allowed.contains_key(*name));
    let missing = missing.map(|name| format!("[{key}] lacks `{name} = \"reason\"`"));
    let unused = allowed.keys().filter(|name| !used.contains(*name));
    let unused = unused.map(|name| format!("[{key}] allows {name}, which is not used"));
    let bare = allowed.iter().filter(|(_, reason)| reason.len() < 10);
    let bare = bare.map(|(name, _)| format!("[{key}] gives no reason for {name}"));
    missing.chain(unused).chain(bare).map(|what| Finding::at(0, what)).collect()
}

/// Direct dependencies without a price, and prices of what is no dependency.
pub fn without_price(used: &BTreeSet<String>, list: &Table) -> Vec<Finding> {
    let prices = list.get("prices").and_then(|table| table.as_table()).cloned().unwrap_or_default();
    let is_price = |name: &String| {
        let part = |key| prices.get(name).and_then(|price| price.get(key));
        let crates = part("crates").and_then(|crates| crates.as_integer());
        crates.is_some_and(|crates| crates >= 0) && part("seconds").is_some_and(|seconds| seconds.is_float())
    };
    let missing = used.iter().filter(|name| !name.starts_with("weft-") && !is_price(name));
    let missing = missing.map(|name| format!("[prices] lacks {name}; run scripts/prices"));
    let unused = prices.keys().filter(|name| !used.contains(*name));
    let unused = unused.map(|name| format!("[prices] has {name}, which is not used"));
    missing.chain(unused).map(|what| Finding::at(0, what)).collect()
}

/// A manifest whose licence differs from the workspace's, `MIT OR Apache-2.0`.
pub fn licence(manifest: &Table) -> Option<Finding> {
    let package = manifest.get("package").or_else(|| manifest.get("workspace")?.get("package"));
    let licence = package.and_then(|p| p.get("license"));
    let inherited = licence.and_then(|l| l.get("workspace")).and_then(|w| w.as_bool()) == Some(true);
    let fits = inherited || licence.and_then(|l| l.as_str()) == Some("MIT OR Apache-2.0");
    (!fits).then(|| Finding::at(0, "the licence is not `MIT OR Apache-2.0`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().expect("TOML")
    }

    fn built(names: &[&str]) -> Dependencies {
        Dependencies { built: names.iter().map(|n| (*n).to_owned()).collect(), dev: BTreeSet::new() }
    }

    #[test]
    fn all_kinds_of_dependencies_are_read() {
        let manifest = table(
            "[dependencies]\na.workspace = true\nb = { package = \"c\", version = \"1\" }\n\
             [build-dependencies]\nd = \"1\"\n[dev-dependencies]\ne = \"1\"\n\
             [target.'cfg(unix)'.dependencies]\nf = \"1\"\n",
        );
        let found = dependencies(&manifest);
        assert_eq!(found.built.iter().collect::<Vec<_>>(), ["a", "c", "d", "f"]);
        assert_eq!(found.dev.iter().collect::<Vec<_>>(), ["e"]);
    }

    #[test]
    fn a_crate_uses_only_floors_below() {
        assert_eq!(above("weft-policy", &built(&["weft-sched", "weft-units", "rowan"])), []);
        assert_eq!(above("weft-sched", &built(&["weft-policy"])).len(), 1, "a floor above");
        assert_eq!(above("weft-sched", &built(&["weft-steer"])).len(), 1, "the same floor");
        assert_eq!(above("weft-new", &built(&[])).len(), 1, "no floor");
        let mut dev = built(&[]);
        dev.dev.insert("weft".to_owned());
        assert_eq!(above("weft-experiments", &dev).len(), 1, "tests too");
    }

    #[test]
    fn the_engine_knows_no_operating_system() {
        assert_eq!(impure("weft-sched", &built(&["thiserror", "weft-units"])), []);
        for os in OS_CRATES {
            assert_eq!(impure("weft-sched", &built(&[os])).len(), 1, "{os}");
        }
        assert_eq!(impure("weft-host", &built(&["rustix"])), []);
    }

    #[test]
    fn the_list_and_the_manifest_agree() {
        let used = built(&["weft-units", "thiserror"]).built;
        let list = table("[x]\nthiserror = \"error enums without boilerplate\"\n");
        assert_eq!(not_allowed("x", &used, &allowed(&list, "x")), []);
        assert_eq!(not_allowed("x", &used, &Allowed::new()).len(), 1, "not on the list");
        assert_eq!(not_allowed("x", &BTreeSet::new(), &allowed(&list, "x")).len(), 1, "not used");
        let bare = table("[x]\nthiserror = \"\"\n");
        assert_eq!(not_allowed("x", &used, &allowed(&bare, "x")).len(), 1, "no reason");
    }

    #[test]
    fn a_dependency_has_a_price() {
        let used = built(&["weft-units", "thiserror"]).built;
        let list = table("[prices]\nthiserror = { crates = 3, seconds = 2.5 }\n");
        assert_eq!(without_price(&used, &list), []);
        assert_eq!(without_price(&BTreeSet::new(), &list).len(), 1, "not used");
        for bad in
            ["[prices]", "[prices]\nthiserror = { crates = -1, seconds = 2.5 }", "[prices]\nthiserror = 1"]
        {
            assert_eq!(without_price(&used, &table(bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn the_licence_is_the_workspaces() {
        for good in [
            "[package]\nlicense.workspace = true",
            "[package]\nlicense = \"MIT OR Apache-2.0\"",
            "[workspace.package]\nlicense = \"MIT OR Apache-2.0\"",
        ] {
            assert_eq!(licence(&table(good)), None, "{good}");
        }
        for bad in [
            "[package]\nlicense = \"MIT\"",
            "[package]\nname = \"x\"",
            "[package]\nlicense.workspace = false",
        ] {
            assert!(licence(&table(bad)).is_some(), "{bad}");
        }
    }
}
