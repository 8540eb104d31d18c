//! The document of `weft doctor`: the features of this host, and remedies for missing ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::human;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table, Tone};

/// The document of `weft doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// `weft-doctor/1`.
    pub schema: String,
    /// The surveyed host.
    pub host: Host,
    /// The features in the order of the survey.
    pub facilities: Vec<Facility>,
}

/// The availability of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FacilityState {
    /// It can be used.
    Ready,
    /// It can be used in part; the detail names the missing part.
    Limited,
    /// It cannot be used.
    Missing,
    /// The state could not be determined; the detail gives the reason.
    Unknown,
}

impl FacilityState {
    /// The state in one word.
    pub const fn name(self) -> &'static str {
        match self {
            FacilityState::Ready => "ready",
            FacilityState::Limited => "limited",
            FacilityState::Missing => "missing",
            FacilityState::Unknown => "unknown",
        }
    }
}

/// A feature of the kernel, the hardware or the build that weftline can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facility {
    /// A short, stable name.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its availability.
    pub state: FacilityState,
    /// The finding.
    pub detail: String,
    /// Its use.
    pub brings: String,
    /// The way to enable it; null if nothing can or needs to be done.
    pub remedy: Option<String>,
}

impl Document for DoctorReport {
    const SCHEMA: &'static str = "weft-doctor/1";

    fn tables(&self) -> Vec<Table> {
        let names = ["facility", "state", "seen", "brings", "remedy"];
        let mut table = Table::new("Facilities").columns(names.map(Column::left));
        for f in &self.facilities {
            let tone = match f.state {
                FacilityState::Ready => Tone::Good,
                FacilityState::Missing => Tone::Bad,
                FacilityState::Limited | FacilityState::Unknown => Tone::Plain,
            };
            table.row([
                Cell::plain(&f.title),
                Cell::toned(f.state.name(), tone),
                f.detail.as_str().into(),
                f.brings.as_str().into(),
                f.remedy.as_deref().unwrap_or(human::NONE).into(),
            ]);
        }
        vec![table]
    }
}
