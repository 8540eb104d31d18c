//! The document of `weft policy test --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::human;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft policy test`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyTestReport {
    /// `weft-policy-test/1`.
    pub schema: String,
    /// The host of the tests.
    pub host: Host,
    /// The tests, file by file.
    pub tests: Vec<PolicyTest>,
}

/// A test and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyTest {
    /// The file.
    pub file: String,
    /// The name of the test, or its number in the file.
    pub name: String,
    /// The first difference from what is expected; `None` if the test passes.
    pub difference: Option<String>,
    /// The departures in their order.
    pub sent: Vec<TestDeparture>,
    /// The packets that were dropped or refused.
    pub dropped: Vec<String>,
}

/// A departure of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestDeparture {
    /// The name of the packet.
    pub packet: String,
    /// The time at which its transmission begins, in nanoseconds from the begin of the test.
    pub at_ns: u64,
}

impl Document for PolicyTestReport {
    const SCHEMA: &'static str = "weft-policy-test/1";

    fn tables(&self) -> Vec<Table> {
        let names = ["file", "test", "sent", "dropped", "difference"];
        let mut table = Table::new("Tests").columns(names.map(Column::left));
        for test in &self.tests {
            let sent: Vec<&str> = test.sent.iter().map(|departure| departure.packet.as_str()).collect();
            let difference = test.difference.as_deref().unwrap_or(human::NONE);
            table.row([
                Cell::plain(&test.file),
                Cell::plain(&test.name),
                Cell::plain(sent.join(" ")),
                Cell::plain(test.dropped.join(" ")),
                Cell::plain(difference),
            ]);
        }
        vec![table]
    }
}
