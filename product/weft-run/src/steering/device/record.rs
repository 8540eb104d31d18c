//! The record of our settings in a device, kept in a file until they are removed. A later process replaces or undoes
//! exactly those of an earlier one, even if that one was killed.

use super::Device;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use weft_host::OsError;
use weft_host::device_record::{self, DeviceRecord, RecordError};
use weft_host::ethtool::{
    self, EthtoolError, HashFields, HashFlow, Location, Rss, RssChange, RuleTable, RxRule,
};
use weft_units::RxQueueId;

/// The folder of the records.
pub const FOLDER: &str = "/run/weftline/steer";

/// Our settings in a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteeringRecord {
    /// The name of the device, for display.
    pub device: String,
    /// The inode number of its network namespace, and its number there.
    pub place: (u64, u32),
    /// Our rules by location, as the kernel lists them. Recorded before a rule is inserted: a missing rule was never
    /// set.
    pub rules: BTreeMap<u32, String>,
    /// The main table before we set it; `None` when we did not.
    pub table_before: Option<Vec<u32>>,
    /// The main table that we set.
    pub table: Option<Vec<u32>>,
}

impl DeviceRecord for SteeringRecord {
    fn place(&self) -> (u64, u32) {
        self.place
    }
}

/// The open record of a device. No other process changes the device's settings while this value lives.
#[derive(Debug)]
pub struct OpenRecord {
    /// The recorded settings.
    pub record: SteeringRecord,
    folder: PathBuf,
    _lock: File,
}

impl OpenRecord {
    /// Opens the record of a device, identified by the inode of its network namespace and its interface number. Waits
    /// for another process that has it open.
    ///
    /// # Errors
    /// When the folder cannot be created or locked, or its file cannot be read.
    pub fn open(folder: &Path, netns: u64, ifindex: u32, device: &str) -> Result<Self, RecordError> {
        let lock = device_record::lock(folder)?;
        let record = SteeringRecord::read(folder, netns, ifindex)?.unwrap_or_default();
        let record = SteeringRecord { device: device.to_owned(), place: (netns, ifindex), ..record };
        Ok(Self { record, folder: folder.to_owned(), _lock: lock })
    }

    /// Whether we have no settings in the device.
    pub fn is_empty(&self) -> bool {
        self.record.rules.is_empty() && self.record.table_before.is_none()
    }

    /// Whether the rule at a location is one of weftline's.
    pub fn is_ours(&self, location: u32, rule: &str) -> bool {
        self.record.rules.get(&location).is_some_and(|ours| ours == rule)
    }

    /// Removes stale entries: rules that another process deleted or replaced, and a table that another process has set.
    pub(super) fn settle(&mut self, held: &BTreeMap<u32, String>, table: Option<&[RxQueueId]>) {
        self.record.rules.retain(|location, ours| held.get(location) == Some(ours));
        let now: Option<Vec<u32>> = table.map(|table| table.iter().map(|queue| queue.0).collect());
        if self.record.table != now {
            self.record.table = None;
            self.record.table_before = None;
        }
    }

    /// Writes the record atomically. An empty record has no file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self) -> Result<(), OsError> {
        if self.is_empty() {
            self.record.remove(&self.folder);
            return Ok(());
        }
        Ok(self.record.write(&self.folder)?)
    }
}

/// A device with its record: settings are recorded before they are made, and removed from the record after they are
/// undone.
pub struct Recorded<'a, D> {
    /// The device.
    pub device: &'a mut D,
    /// The record.
    pub kept: &'a mut OpenRecord,
}

impl<D: Device> Device for Recorded<'_, D> {
    fn name(&self) -> &str {
        self.device.name()
    }
    fn queues(&mut self) -> Result<u32, EthtoolError> {
        self.device.queues()
    }
    fn rules(&mut self) -> Result<RuleTable, EthtoolError> {
        self.device.rules()
    }
    fn insert(&mut self, rule: &RxRule) -> Result<u32, EthtoolError> {
        if let Location::At(location) = rule.location {
            self.kept.record.rules.insert(location, rule.to_string());
            self.kept.write()?;
        }
        let result = self.device.insert(rule);
        if let Location::At(asked) = rule.location
            && result.as_ref().ok() != Some(&asked)
        {
            self.kept.record.rules.remove(&asked);
        }
        if let Ok(location) = &result {
            let placed = RxRule { location: Location::At(*location), ..*rule };
            self.kept.record.rules.insert(*location, placed.to_string());
        }
        self.kept.write()?;
        result
    }
    fn delete(&mut self, location: u32) -> Result<(), EthtoolError> {
        self.device.delete(location)?;
        self.kept.record.rules.remove(&location);
        Ok(self.kept.write()?)
    }
    fn rss(&mut self, context: ethtool::ContextId) -> Result<Rss, EthtoolError> {
        self.device.rss(context)
    }
    fn contexts(&mut self) -> Result<Vec<(ethtool::ContextId, Rss)>, EthtoolError> {
        self.device.contexts()
    }
    fn set_rss(&mut self, context: ethtool::ContextId, change: &RssChange) -> Result<(), EthtoolError> {
        if context == ethtool::ContextId::MAIN
            && let Some(table) = &change.table
        {
            if self.kept.record.table_before.is_none() {
                let before = self.device.rss(context)?.table;
                self.kept.record.table_before = Some(before.iter().map(|queue| queue.0).collect());
            }
            self.kept.record.table = Some(table.iter().map(|queue| queue.0).collect());
            self.kept.write()?;
        }
        self.device.set_rss(context, change)
    }
    fn create_context(&mut self, change: &RssChange) -> Result<ethtool::ContextId, EthtoolError> {
        self.device.create_context(change)
    }
    fn delete_context(&mut self, context: ethtool::ContextId) -> Result<(), EthtoolError> {
        self.device.delete_context(context)
    }
    fn hash_fields(&mut self, flow: HashFlow) -> Result<HashFields, EthtoolError> {
        self.device.hash_fields(flow)
    }
}
