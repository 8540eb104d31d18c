//! The table of categories beside a kernel's functions, and beside the time of a profile.

use std::collections::{BTreeMap, BTreeSet};

use weft_host::kallsyms::KernelSymbols;
use weft_report::profile::attached::{AttachedReport, Direction};
use weft_report::profile::{Category, ProfileReport, Side, SideTime};

use crate::categories::Categories;

/// The share of unmapped time from which a table does not cover a kernel.
pub const UNMAPPED_MAX: f64 = 0.02;

/// Beginnings of names, leading underscores aside, of functions of the network stack's data path.
const NETWORK: [&str; 14] = [
    "tcp",
    "skb",
    "pskb",
    "sock_",
    "inet",
    "netif_",
    "napi_",
    "gro_",
    "dev_gro",
    "qdisc",
    "sk_",
    "veth_",
    "dev_queue",
    "net_rx",
];

fn is_network(name: &str) -> bool {
    let bare = name.trim_start_matches('_');
    NETWORK.iter().any(|part| bare.starts_with(part))
}

/// The comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// The kernel's functions, each name once.
    pub functions: usize,
    /// Those that have a rule.
    pub with_rule: usize,
    /// Functions of the network stack without a rule, by their names.
    pub network_missing: Vec<String>,
    /// Exact names of the table that the kernel does not have: renamed, inlined or not configured.
    pub absent: usize,
}

/// Compares a table with a kernel's functions.
pub fn of(symbols: &KernelSymbols, table: &Categories) -> Coverage {
    let names: BTreeSet<&str> = symbols.names().collect();
    let missing = |name: &&&str| table.rule(name).is_none();
    let of_network = |name: &&&str| is_network(name);
    Coverage {
        functions: names.len(),
        with_rule: names.iter().filter(|name| !missing(name)).count(),
        network_missing: names.iter().filter(missing).filter(of_network).map(|n| (*n).to_owned()).collect(),
        absent: table.exact_names().filter(|name| !names.contains(name)).count(),
    }
}

/// The time of a part of a profile that has no category.
#[derive(Clone, PartialEq, Debug)]
pub struct Unmapped {
    /// The part: a level and a side, or a direction.
    pub part: String,
    /// Its kernel time in seconds.
    pub kernel_s: f64,
    /// Share of it without a category: no function of the call chain has a rule.
    pub share: f64,
}

impl Unmapped {
    /// Whether the table covers this part.
    pub fn is_covered(&self) -> bool {
        self.share < UNMAPPED_MAX
    }

    /// The part with these seconds by category; `None` without time.
    fn of(part: String, categories: &BTreeMap<Category, f64>) -> Option<Self> {
        let kernel_s: f64 = categories.values().sum();
        let unmapped = categories.get(&Category::Unmapped).copied().unwrap_or(0.0);
        (kernel_s > 0.0).then(|| Self { part, kernel_s, share: unmapped / kernel_s })
    }
}

/// The unmapped time of each level and side of a profile.
pub fn unmapped(report: &ProfileReport) -> Vec<Unmapped> {
    let side = |level: &str, time: Vec<&SideTime>, side: Side| {
        let mut all: BTreeMap<Category, f64> = BTreeMap::new();
        for (category, seconds) in time.into_iter().flat_map(|time| &time.categories_s) {
            *all.entry(*category).or_default() += seconds;
        }
        Unmapped::of(format!("{level}, {}", side.name()), &all)
    };
    let sides = report.configs.iter().flat_map(|config| Side::ALL.map(|of| (config, of)));
    sides
        .filter_map(|(config, of)| {
            side(&config.level, config.runs.iter().map(|run| run.side(of)).collect(), of)
        })
        .collect()
}

/// The unmapped time of each direction of an attached profile.
pub fn unmapped_attached(report: &AttachedReport) -> Vec<Unmapped> {
    let direction = |(direction, categories): (&Direction, &BTreeMap<_, _>)| {
        Unmapped::of(format!("attached, {}", direction.title()), categories)
    };
    report.network_s.iter().filter_map(direction).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::testing;
    use weft_report::profile::{ConfigReport, Run};

    #[test]
    fn unmapped_time_is_judged_by_side_over_all_runs() {
        let time = |unmapped, copies| SideTime {
            categories_s: [(Category::Unmapped, unmapped), (Category::DataCopy, copies)].into(),
            ..SideTime::default()
        };
        let run = |unmapped| Run { sender: time(unmapped, 1.0), receiver: time(0.0, 0.5), ..Run::default() };
        let configs = vec![ConfigReport::conclude("noopt", 1, [1, 1], vec![run(0.0), run(0.1)])];
        let found = unmapped(&ProfileReport { configs, ..ProfileReport::default() });
        let parts: Vec<(&str, bool)> =
            found.iter().map(|one| (one.part.as_str(), one.is_covered())).collect();
        assert_eq!(parts, [("noopt, sender", false), ("noopt, receiver", true)]);
        assert!((found[0].share - 0.1 / 2.1).abs() < 1e-12 && found[1].kernel_s == 1.0);
        let network_s = [(Direction::Receive, time(0.01, 0.99).categories_s)];
        let attached =
            unmapped_attached(&AttachedReport { network_s: network_s.into(), ..AttachedReport::default() });
        assert!(attached.len() == 1 && attached[0].is_covered() && attached[0].part == "attached, receive");
    }

    #[test]
    fn names_are_counted_once() {
        let text = "1000 T tcp_ack\n2000 t tcp_ack.isra.0\n3000 T tcpz_helper\n4000 T unrelated\n";
        let symbols = KernelSymbols::parse(text).expect("symbols");
        let coverage = of(&symbols, &Categories::shipped().expect("table"));
        assert_eq!((coverage.functions, coverage.with_rule), (3, 1));
        assert_eq!(coverage.network_missing, ["tcpz_helper"]);
        assert!(coverage.absent > 100);
    }

    /// Functions that every profile meets have a rule on the kernel at hand, unless it inlined or renamed them.
    #[test]
    fn this_kernel_s_hot_functions_have_a_rule() {
        let symbols = match KernelSymbols::load() {
            Ok(symbols) => symbols,
            Err(why) => return testing::skip("this_kernel_s_hot_functions_have_a_rule", why),
        };
        let table = Categories::shipped().expect("table");
        let names: BTreeSet<&str> = symbols.names().collect();
        let hot = [
            "tcp_sendmsg_locked",
            "tcp_recvmsg_locked",
            "tcp_ack",
            "tcp_v4_rcv",
            "ip_rcv",
            "ip_queue_xmit",
            "tcp_rcv_established",
            "tcp_write_xmit",
            "_copy_to_iter",
            "_copy_from_iter",
            "skb_release_data",
            "net_rx_action",
            "dev_gro_receive",
            "gro_receive_skb",
            "get_netmem",
            "skb_defer_free_flush",
            "handle_softirqs",
            "veth_xmit",
            "veth_poll",
            "__alloc_skb",
            "kmem_cache_alloc_noprof",
            "__schedule",
            "try_to_wake_up",
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "sock_def_readable",
            "dev_hard_start_xmit",
        ];
        let there: Vec<&&str> = hot.iter().filter(|name| names.contains(**name)).collect();
        assert!(there.len() > 12, "only {there:?} are in this kernel");
        let without: Vec<&&&str> = there.iter().filter(|name| table.rule(name).is_none()).collect();
        assert!(without.is_empty(), "without a rule: {without:?}");
        let missing = of(&symbols, &table).network_missing.len();
        let network = names.iter().filter(|name| is_network(name)).count();
        assert!(missing * 20 < network, "{missing} of {network} network functions have no rule");
    }
}
