//! The documents of `weft campaign status` and of `weft campaign export --format json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use weft_facts::record::{Document, Host};
use weft_facts::table::{Cell, Column, Table};

/// The document of `weft campaign status`: how many results of a grid are in a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignStatus {
    /// `weft-campaign-status/1`.
    pub schema: String,
    /// The host that looked.
    pub host: Host,
    /// The grid file.
    pub grid: String,
    /// The version of the simulator's model, which is part of each result's name.
    pub model: u32,
    /// The runs of the grid.
    pub runs: u64,
    /// Runs whose results are there.
    pub done: u64,
    /// Runs with a file that is torn or another's; they are made again.
    pub broken: u64,
    /// Runs without a file.
    pub missing: u64,
}

impl Document for CampaignStatus {
    const SCHEMA: &'static str = "weft-campaign-status/1";

    fn tables(&self) -> Vec<Table> {
        let title = format!("Campaign {}", self.grid);
        let mut table = Table::new(title).columns([Column::left("runs"), Column::right("number")]);
        for (name, number) in
            [("all", self.runs), ("done", self.done), ("missing", self.missing), ("broken", self.broken)]
        {
            table.row([Cell::plain(name), number.to_string().into()]);
        }
        vec![table]
    }
}

/// The document of `weft campaign export --format json`: the results of a campaign. It has nothing of the host that wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignResults {
    /// `weft-campaign/1`.
    pub schema: String,
    /// The version of the simulator's model.
    pub model: u32,
    /// The results, ordered by parameters and seed.
    pub runs: Vec<CampaignRun>,
}

impl CampaignResults {
    /// The name and version of the schema.
    pub const SCHEMA: &'static str = "weft-campaign/1";
}

/// A result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignRun {
    /// Values by the scenario's key.
    pub parameters: Map<String, Value>,
    /// The seed.
    pub seed: u64,
    /// Figures by name, listed in docs/campaigns.md; null for one that the run does not give.
    pub figures: BTreeMap<String, Option<f64>>,
}
