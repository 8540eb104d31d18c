//! The document of `weft replay`: a packet trace scheduled by a policy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_units::{Counted, Packets};

use crate::human;
use crate::record::{Conservation, Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft replay`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReport {
    /// `weft-replay/1`.
    pub schema: String,
    /// The host of the replay.
    pub host: Host,
    /// The classes in the policy's order.
    pub classes: Vec<ReplayClass>,
    /// Whether every packet and byte is accounted for.
    pub conservation: Conservation,
}

/// The departures and drops of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayClass {
    /// Its name.
    pub class: String,
    /// Packets that left.
    pub packets: u64,
    /// Bytes that left.
    pub bytes: u64,
    /// Packets and bytes dropped, by reason.
    pub dropped: BTreeMap<String, Counted>,
    /// The first departure, in seconds since the trace's first packet; null if there was none.
    pub first_s: Option<f64>,
    /// The last departure, in seconds since the trace's first packet; null if there was none.
    pub last_s: Option<f64>,
}

impl Document for ReplayReport {
    const SCHEMA: &'static str = "weft-replay/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new("Replay").columns([
            Column::left("class"),
            Column::right("packets"),
            Column::right("bytes"),
            Column::right("dropped"),
            Column::right("first at"),
            Column::right("last at"),
        ]);
        for c in &self.classes {
            table.row([
                Cell::plain(&c.class),
                human::count(c.packets).into(),
                human::bytes(c.bytes as f64).into(),
                human::count(c.dropped.values().map(|drops| drops.packets).sum::<Packets>().get()).into(),
                human::or_none(c.first_s, human::time).into(),
                human::or_none(c.last_s, human::time).into(),
            ]);
        }
        vec![table, self.conservation.table("Conservation")]
    }
}
