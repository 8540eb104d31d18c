//! The counters of rare events at ports, by name: the document of `weft run`, that of the daemon and its metrics have each of them.
//!
//! A row names a counter, says what it counts and where it is read. A new counter is a row here and a property of `counters` in the
//! schemas of both documents.

use std::collections::BTreeMap;
use weft_nic::nic::{ClassTotals, Totals};

/// A counter of packets.
#[derive(Debug)]
pub struct Counter<T> {
    /// Its name in documents. The name of its metric ends in it, before `_total`.
    pub name: &'static str,
    /// The things that it counts: the help of its metric, and the description in the schemas.
    pub help: &'static str,
    /// Its source.
    read: fn(&T) -> u64,
}

/// The counters of a class.
pub static OF_CLASSES: [Counter<ClassTotals>; 1] = [Counter {
    name: "late_claims",
    help: "Packets that asked for a time too late for a ring that flows share, and were sent as if they asked for none",
    read: |class| class.late_claims.get(),
}];

/// The counters of a port, or of all ports together.
pub static OF_PORTS: [Counter<Totals>; 6] = [
    Counter {
        name: "cut_packets",
        help: "Segments of super-packets that were cut behind their doorbell, posted before the ring",
        read: |ports| ports.cut_packets,
    },
    Counter {
        name: "infrastructure_excess",
        help: "Packets of infrastructure beyond its share, scheduled as any other",
        read: |ports| ports.infrastructure_excess,
    },
    Counter {
        name: "obscured_drops",
        help: "Packets dropped because their class could not be determined",
        read: |ports| ports.obscured_drops,
    },
    Counter {
        name: "strays",
        help: "Packets found in a ring without a doorbell",
        read: |ports| ports.strays,
    },
    Counter {
        name: "unannounced_drops",
        help: "Packets dropped because they bypassed the program at the egress, so that no doorbell announced them",
        read: |ports| ports.unannounced_drops,
    },
    Counter {
        name: "unknown_makers",
        help: "Packets of sockets of which it is not known which process made them, while the policy tests that",
        read: |ports| ports.unknown_makers,
    },
];

/// The values of counters, by name.
pub fn values<T>(counters: &[Counter<T>], totals: &T) -> BTreeMap<String, u64> {
    counters.iter().map(|counter| (counter.name.to_owned(), (counter.read)(totals))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use weft_units::Packets;

    #[test]
    fn each_counter_has_the_value_of_the_totals() {
        let class = ClassTotals { late_claims: Packets(1), ..ClassTotals::default() };
        assert_eq!(values(&OF_CLASSES, &class), BTreeMap::from([("late_claims".to_owned(), 1)]));
        let totals = Totals {
            cut_packets: 2,
            infrastructure_excess: 3,
            obscured_drops: 4,
            strays: 5,
            unannounced_drops: 6,
            unknown_makers: 7,
            ..Totals::default()
        };
        let expected = [
            ("cut_packets", totals.cut_packets),
            ("infrastructure_excess", totals.infrastructure_excess),
            ("obscured_drops", totals.obscured_drops),
            ("strays", totals.strays),
            ("unannounced_drops", totals.unannounced_drops),
            ("unknown_makers", totals.unknown_makers),
        ];
        let expected = expected.map(|(name, packets)| (name.to_owned(), packets));
        assert_eq!(values(&OF_PORTS, &totals), BTreeMap::from(expected));
    }

    /// The names and descriptions of counters in a schema, beside those of a table.
    #[track_caller]
    fn same<T>(schema: &str, place: &str, counters: &[Counter<T>]) {
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let there = schema.pointer(place).and_then(Value::as_object).expect(place);
        let described = |(name, property): (&String, &Value)| {
            (name.clone(), property["description"].as_str().unwrap_or_default().to_owned())
        };
        let there: BTreeMap<String, String> = there.iter().map(described).collect();
        let here = counters.iter().map(|counter| (counter.name.to_owned(), format!("{}.", counter.help)));
        assert_eq!(there, here.collect(), "{place}");
    }

    #[test]
    fn the_schemas_describe_each_counter_as_the_table_does() {
        let run = include_str!("../../../docs/schemas/weft-run.schema.json");
        let status = include_str!("../../../docs/schemas/weft-status.schema.json");
        for schema in [run, status] {
            same(schema, "/properties/counters/properties", &OF_PORTS);
            same(schema, "/properties/classes/items/properties/counters/properties", &OF_CLASSES);
        }
        same(status, "/properties/ports/items/properties/counters/properties", &OF_PORTS);
    }
}
