//! The document of `weft doctor`: what this host can do, and how to make it do more.

use serde::{Deserialize, Serialize};

use crate::human;
use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table, Tone};

/// The document of `weft doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// `weft-doctor/1`.
    pub schema: String,
    /// Where it ran.
    pub host: Host,
    /// The facilities in the order they were looked at.
    pub facilities: Vec<Facility>,
}

/// Whether a facility can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FacilityState {
    /// Can be used.
    Ready,
    /// Can be used in part; the detail says what not.
    Limited,
    /// Cannot be used.
    Missing,
    /// Could not be found out; the detail says why.
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

/// Something of the kernel, the hardware or the build that weftline can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facility {
    /// A short name that stays.
    pub id: String,
    /// What it is.
    pub title: String,
    /// Whether it can be used.
    pub state: FacilityState,
    /// What was seen.
    pub detail: String,
    /// What can be done with it.
    pub brings: String,
    /// How to get it; null when nothing needs to be done or nothing can.
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
