//! The common parts of all documents: the host, the schema, and balances of packets and bytes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use weft_units::Counted;

use crate::human;
use crate::table::{Cell, Column, Table};

/// A JSON document with a name and a version in its `schema` field.
pub trait Document: Serialize + DeserializeOwned + JsonSchema {
    /// The value of the `schema` field, `<name>/<version>`.
    const SCHEMA: &'static str;

    /// The document as tables for a terminal or a page.
    fn tables(&self) -> Vec<Table>;
}

/// The host on which a document was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Kernel release, as printed by `uname -r`.
    pub kernel: String,
    /// The number of CPUs available to the program.
    pub cores: u32,
    /// Other detected facts that may explain a figure: name -> value.
    #[serde(default)]
    pub detected: BTreeMap<String, Value>,
}

impl Host {
    /// The host as rows of name and text: kernel, cores, other facts.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts =
            vec![("kernel".to_owned(), self.kernel.clone()), ("cores".to_owned(), self.cores.to_string())];
        facts.extend(self.detected.iter().map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), text)
        }));
        facts
    }
}

/// Packets and bytes that entered a stage, and their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Balance {
    /// Packets that entered.
    pub in_packets: u64,
    /// Bytes that entered.
    pub in_bytes: u64,
    /// Packets that left.
    pub out_packets: u64,
    /// Bytes that left.
    pub out_bytes: u64,
    /// Packets dropped, for any reason.
    pub dropped_packets: u64,
    /// Bytes dropped, for any reason.
    pub dropped_bytes: u64,
    /// Packets held when the accounting was closed.
    pub held_packets: u64,
    /// Bytes held when the accounting was closed.
    pub held_bytes: u64,
}

impl Balance {
    /// Returns the balance of four counts.
    pub const fn of(entered: Counted, left: Counted, dropped: Counted, held: Counted) -> Self {
        Self {
            in_packets: entered.packets.get(),
            in_bytes: entered.bytes.get(),
            out_packets: left.packets.get(),
            out_bytes: left.bytes.get(),
            dropped_packets: dropped.packets.get(),
            dropped_bytes: dropped.bytes.get(),
            held_packets: held.packets.get(),
            held_bytes: held.bytes.get(),
        }
    }

    /// The count of what entered.
    pub const fn entered(&self) -> Counted {
        Counted::new(self.in_packets, self.in_bytes)
    }

    /// The count of what left.
    pub const fn left(&self) -> Counted {
        Counted::new(self.out_packets, self.out_bytes)
    }

    /// The count of what was dropped.
    pub const fn dropped(&self) -> Counted {
        Counted::new(self.dropped_packets, self.dropped_bytes)
    }

    /// The count of what was held.
    pub const fn held(&self) -> Counted {
        Counted::new(self.held_packets, self.held_bytes)
    }

    /// Whether in = out + dropped + held, in packets and in bytes.
    pub fn is_balanced(&self) -> bool {
        let packets = [self.out_packets, self.dropped_packets, self.held_packets];
        let bytes = [self.out_bytes, self.dropped_bytes, self.held_bytes];
        u128::from(self.in_packets) == wide_sum(packets) && u128::from(self.in_bytes) == wide_sum(bytes)
    }

    /// Adds the counters of another balance.
    pub fn add(&mut self, other: &Balance) {
        for (into, from) in [
            (&mut self.in_packets, other.in_packets),
            (&mut self.in_bytes, other.in_bytes),
            (&mut self.out_packets, other.out_packets),
            (&mut self.out_bytes, other.out_bytes),
            (&mut self.dropped_packets, other.dropped_packets),
            (&mut self.dropped_bytes, other.dropped_bytes),
            (&mut self.held_packets, other.held_packets),
            (&mut self.held_bytes, other.held_bytes),
        ] {
            *into = into.saturating_add(from);
        }
    }
}

/// The sum of three counters, without overflow.
fn wide_sum(counters: [u64; 3]) -> u128 {
    counters.iter().map(|&c| u128::from(c)).sum()
}

/// The balance of one stage on a packet's path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// The stage's name, for example `rings`.
    pub name: String,
    /// Its balance.
    #[serde(flatten)]
    pub balance: Balance,
}

/// The conservation of packets and bytes: the balance of the whole path, the drops by reason, and each stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conservation {
    /// The whole path, from the entry of the first stage to the exit of the last.
    #[serde(flatten)]
    pub total: Balance,
    /// Reason -> packets and bytes dropped for it; their sums are the total's `dropped_packets` and `dropped_bytes`.
    #[serde(default)]
    pub drops: BTreeMap<String, Counted>,
    /// The stages in the order of the path.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Stages, or `total`, whose dropped bytes were not counted: the kernel's devices count the packets that they drop and not their
    /// bytes. `dropped_bytes` is then the difference of two counts, and proves nothing about bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncounted_bytes: Vec<String>,
    /// The packets that no counter explains, one sentence for each stage: their number, and the counters that were read. Each is a
    /// violation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<String>,
}

/// The smallest dropped packet, in bytes: an Ethernet header.
const PACKET_MIN: u64 = 14;
/// The largest: the kernel's largest super-packet, 512 KB, with its headers.
const PACKET_MAX: u64 = (1 << 19) + 256;

impl Conservation {
    /// The imbalances, one sentence each; empty if every packet and byte is accounted for.
    ///
    /// Checks that the total and every stage balance, that any packet entered, that the drops by reason add up to the total's, and
    /// that nothing is unexplained.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        if self.total.in_packets == 0 || self.total.in_bytes == 0 {
            violations.push("nothing came in".to_owned());
        }
        let named = self.stages.iter().map(|s| (s.name.as_str(), &s.balance));
        for (name, balance) in std::iter::once(("total", &self.total)).chain(named) {
            if !balance.is_balanced() {
                violations.push(format!("{name}: {}", Self::equation(balance)));
            } else if !self.is_plausible(name, balance) {
                violations.push(format!(
                    "{name}: {} dropped packets cannot have {} bytes",
                    balance.dropped_packets, balance.dropped_bytes
                ));
            }
        }
        violations.extend(self.unexplained.iter().cloned());
        let packets: u128 = self.drops.values().map(|d| u128::from(d.packets.get())).sum();
        let bytes: u128 = self.drops.values().map(|d| u128::from(d.bytes.get())).sum();
        if packets != u128::from(self.total.dropped_packets) || bytes != u128::from(self.total.dropped_bytes)
        {
            violations.push(format!(
                "drops by reason are {packets} packets, {bytes} bytes; dropped in total {} packets, {} bytes",
                self.total.dropped_packets, self.total.dropped_bytes
            ));
        }
        violations
    }

    /// As [`violations`](Self::violations), for a run that may have carried nothing.
    pub fn imbalances(&self) -> Vec<String> {
        let carried = self.total != Balance::default() || !self.unexplained.is_empty();
        if carried { self.violations() } else { Vec::new() }
    }

    /// Whether the missing bytes can be those of the dropped packets, if dropped bytes were not counted.
    fn is_plausible(&self, name: &str, balance: &Balance) -> bool {
        let (packets, bytes) = (u128::from(balance.dropped_packets), u128::from(balance.dropped_bytes));
        let range = packets * u128::from(PACKET_MIN)..=packets * u128::from(PACKET_MAX);
        !self.uncounted_bytes.iter().any(|stage| stage == name) || range.contains(&bytes)
    }

    /// The two sums of a balance, which should be equal.
    fn equation(l: &Balance) -> String {
        format!(
            "packets {} = {} + {} + {}, bytes {} = {} + {} + {} (in = out + dropped + held)",
            l.in_packets,
            l.out_packets,
            l.dropped_packets,
            l.held_packets,
            l.in_bytes,
            l.out_bytes,
            l.dropped_bytes,
            l.held_bytes
        )
    }

    /// The balance as a table: the total and the stages in packets and bytes, and the drops by reason as notes.
    pub fn table(&self, title: &str) -> Table {
        let mut table = Table::new(title).columns([
            Column::left("stage"),
            Column::right("in"),
            Column::right("out"),
            Column::right("dropped"),
            Column::right("held"),
            Column::left("balance"),
        ]);
        let stages = self.stages.iter().map(|s| (s.name.as_str(), &s.balance));
        for (name, l) in stages.chain(std::iter::once(("total", &self.total))) {
            let cell = |packets: u64, bytes: u64| {
                Cell::plain(format!("{} pkt, {}", human::count(packets), human::bytes(bytes as f64)))
            };
            table.row([
                Cell::plain(name),
                cell(l.in_packets, l.in_bytes),
                cell(l.out_packets, l.out_bytes),
                cell(l.dropped_packets, l.dropped_bytes),
                cell(l.held_packets, l.held_bytes),
                Cell::verdict(
                    l.is_balanced() && self.is_plausible(name, l),
                    if self.uncounted_bytes.iter().any(|s| s == name) { "exact in packets" } else { "exact" },
                    "BROKEN",
                ),
            ]);
        }
        self.unexplained.iter().for_each(|sentence| table.note(sentence.clone()));
        for (reason, d) in &self.drops {
            table.note(format!(
                "dropped, {reason}: {} packets, {}",
                human::count(d.packets.get()),
                human::bytes(d.bytes.get() as f64)
            ));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accounting_that_does_not_add_up_is_broken_and_an_empty_one_is_not() {
        let accounting = |total| Conservation { total, ..Conservation::default() };
        assert_eq!(accounting(Balance::default()).imbalances(), [""; 0]);
        let total =
            Balance { in_packets: 2, in_bytes: 120, out_packets: 1, out_bytes: 60, ..Balance::default() };
        assert_eq!(accounting(total).imbalances().len(), 1);
        let total = Balance { held_packets: 1, held_bytes: 60, ..total };
        assert_eq!(accounting(total).imbalances(), [""; 0]);
        let unexplained = Conservation { unexplained: vec!["rings: 1".to_owned()], ..accounting(total) };
        assert_eq!(unexplained.imbalances(), ["rings: 1"]);
    }
}
