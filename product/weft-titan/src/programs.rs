//! Loading and pinning the programs of `bpf/titan.bpf.c`, and access to their pins.

use crate::layout::ProgramConfig;
use crate::match_table::MatchTables;
use crate::page;
use std::path::{Path, PathBuf};
use weft_host::bpf::{
    BpfError, MapFd, Object, ObjectOptions, ProgramFd, SharedLayout, SharedValue, program_info, program_maps,
};

/// The compiled eBPF object, built from `bpf/` by this crate's build script.
pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/titan.bpf.o"));

/// The classifier at the device's egress.
const CLASSIFIER: &str = "weft_titan";
/// The programs that observe departures by packets' destructors.
const DESTRUCTORS: [&str; 4] = ["weft_tcp_wfree", "weft_sock_wfree", "weft_ack_wfree", "weft_edemux"];
/// The programs that observe departures by tracepoints.
const TRACEPOINTS: [&str; 3] = ["weft_consumed", "weft_dropped", "weft_dropped_2"];
/// The maps that are pinned.
const MAPS: [&str; 4] = [page::MAP, "totals", "flows", "sweeps"];

/// The name of our filter at a device.
pub const FILTER: &str = "weft_titan";
/// The handle of our filter.
pub(crate) const HANDLE: u32 = 1;

/// The source of departure events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departures {
    /// The packets' destructors: exact, whatever frees or orphans a packet. Needs fentry.
    Destructors,
    /// The tracepoints of freed packets. Packets that lose their socket before are missed, and counted out later.
    Tracepoints,
}

impl Departures {
    /// The name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Destructors => "destructors",
            Self::Tracepoints => "tracepoints",
        }
    }

    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Destructors => &DESTRUCTORS,
            Self::Tracepoints => &TRACEPOINTS,
        }
    }
}

/// The loaded programs.
#[derive(Debug)]
pub struct Loaded {
    object: Object,
    departures: Departures,
    classifier: ProgramFd,
}

impl Loaded {
    /// Loads the programs, with departures by destructors where the kernel accepts them, else by tracepoints.
    /// `nic_page` is the NIC's own map of the page, which replaces a new one.
    ///
    /// # Errors
    /// When the kernel rejects the programs.
    pub fn load(config: &ProgramConfig, nic_page: Option<&MapFd>) -> Result<Self, BpfError> {
        Self::load_by(config, nic_page, Departures::Destructors)
            .or_else(|_| Self::load_by(config, nic_page, Departures::Tracepoints))
    }

    fn load_by(
        config: &ProgramConfig,
        nic_page: Option<&MapFd>,
        departures: Departures,
    ) -> Result<Self, BpfError> {
        let others: &[&str] = match departures {
            Departures::Destructors => &TRACEPOINTS,
            Departures::Tracepoints => &DESTRUCTORS,
        };
        let reuse: Vec<(&str, &MapFd)> = nic_page.map(|map| (page::MAP, map)).into_iter().collect();
        let options = ObjectOptions {
            name: "titan",
            rodata: Some(&config.to_bytes()),
            reuse: &reuse,
            skip: others,
            ..ObjectOptions::default()
        };
        let object = Object::load_with(OBJECT, &options)?;
        let classifier = object.program_fd(CLASSIFIER)?;
        Ok(Self { object, departures, classifier })
    }

    /// The source of departure events.
    pub fn departures(&self) -> Departures {
        self.departures
    }

    /// The classifier.
    pub fn classifier(&self) -> &ProgramFd {
        &self.classifier
    }

    /// Writes element `index` of the array map `name`.
    ///
    /// # Errors
    /// When the kernel rejects the element.
    pub fn set_element(&self, name: &str, index: u32, value: &[u8]) -> Result<(), BpfError> {
        self.object.set_element(name, index, value)
    }

    /// The match tables of the weights.
    ///
    /// # Errors
    /// When the object has no such maps.
    pub fn tables(&self) -> Result<MatchTables, BpfError> {
        MatchTables::of(&self.object)
    }

    /// Attaches the programs of departures, and pins all that must outlive this process in `folder`. Returns the
    /// program ids, the classifier's first.
    ///
    /// # Errors
    /// When the kernel refuses. The caller must remove the pins made so far.
    pub fn pin(&self, folder: &Path) -> Result<Vec<u32>, PinError> {
        std::fs::create_dir(folder)
            .map_err(|source| PinError::Folder { folder: folder.display().to_string(), source })?;
        for map in MAPS {
            self.object.map_fd(map)?.pin(&folder.join(map))?;
        }
        let mut ids = vec![self.classifier.id()];
        for program in self.departures.programs() {
            let link = self.object.attach_tracing(program)?;
            link.pin(&folder.join(program))?;
            ids.push(link.program_id()?);
        }
        Ok(ids)
    }
}

/// Errors of pinning.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The folder in the bpf file system could not be created.
    #[error("create the folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program or map could not be pinned.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// The pins of a folder.
#[derive(Clone, Debug)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Refers to the pins in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Maps a pinned map as shared memory.
    ///
    /// # Errors
    /// When it is not pinned here.
    pub fn shared<T: SharedLayout>(&self, map: &str) -> Result<SharedValue<T>, BpfError> {
        MapFd::pinned(&self.folder.join(map))?.shared()
    }

    /// Removes all pins, links first. The kernel then frees the objects that only they kept alive.
    pub fn remove(&self) {
        for name in DESTRUCTORS.iter().chain(&TRACEPOINTS).chain(&MAPS) {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The map `name` of another program, by the program's id; `None` when the program has no such map.
///
/// # Errors
/// When the program is not loaded, or a privilege is missing.
pub fn map_of(program: u32, name: &str) -> Result<Option<MapFd>, BpfError> {
    let maps = program_maps(program)?;
    maps.iter().find(|(_, known)| known == name).map(|(id, _)| MapFd::by_id(*id)).transpose()
}

/// Whether a program is still loaded.
pub fn is_loaded(program: u32) -> bool {
    program_info(program).is_ok()
}
