//! The document of `weft run`: what each class of a policy sent while the software NIC ran.

use serde::{Deserialize, Serialize};
use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::human;
use crate::record::{Conservation, Document, Host};
use crate::table::{Cell, Column, Table};

/// The document of `weft run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// `weft-run/1`.
    pub schema: String,
    /// Where it ran.
    pub host: Host,
    /// How long it ran, in seconds.
    pub duration_s: f64,
    /// The classes of the policy in its order.
    pub classes: Vec<RunClass>,
    /// Whether every packet and byte is accounted for.
    pub conservation: Conservation,
}

/// The counters of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunClass {
    /// Its name.
    pub class: String,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
}

impl Document for RunReport {
    const SCHEMA: &'static str = "weft-run/1";

    fn tables(&self) -> Vec<Table> {
        let title = format!("Classes over {}", human::time(self.duration_s));
        let mut table = Table::new(title).columns([
            Column::left("class"),
            Column::right("packets"),
            Column::right("bytes"),
            Column::right("mean rate"),
            Column::right("dropped"),
        ]);
        let span = Nanos((self.duration_s * 1e9) as u64);
        for c in &self.classes {
            table.row([
                Cell::plain(&c.class),
                human::count(c.packets).into(),
                human::bytes(c.bytes as f64).into(),
                BitsPerSec::from_bytes_over(Bytes(c.bytes), span).to_string().into(),
                format!("{} pkt, {}", human::count(c.dropped_packets), human::bytes(c.dropped_bytes as f64))
                    .into(),
            ]);
        }
        vec![table, self.conservation.table("Conservation")]
    }
}
