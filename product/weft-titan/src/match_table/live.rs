//! The match tables of running programs, and their replacement.

use super::fields::Fields;
use super::page::{Bank, TablePage};
use super::{CGROUPS, ENTRY_BYTES, MAPS, TableError, Tables};
use core::sync::atomic::{AtomicBool, Ordering};
use weft_host::bpf::{BpfError, MapFd, Object, SharedValue};
use weft_units::Instant;

/// A cgroup in the form that the programs compare: `bpf_skb_ancestor_cgroup_id(skb, level) == id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CgroupId {
    /// The inode number of its directory.
    pub id: u64,
    /// Its depth below the root of the hierarchy, which is level 0.
    pub level: u32,
}

impl CgroupId {
    /// The level of a cgroup when the root of the hierarchy is not visible; the programs then test all levels.
    pub const ANY_LEVEL: u32 = u32::MAX;
}

/// Errors from preparing tables.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The tables exceed the programs' bounds.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The kernel refused a map or an entry.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Other tables have been prepared and neither committed nor dropped.
    #[error("another change of the match tables is in progress")]
    Busy,
}

/// The maps of the match tables, which several programs may share.
#[derive(Debug)]
pub struct MatchTables {
    page: SharedValue<TablePage>,
    page_map: MapFd,
    entries: MapFd,
    /// Whether prepared tables exist.
    preparing: AtomicBool,
}

impl MatchTables {
    /// The tables of a loaded object, empty so far.
    ///
    /// # Errors
    /// When the object has no such maps.
    pub fn of(object: &Object) -> Result<Self, BpfError> {
        let [page, entries] = MAPS;
        Ok(Self {
            page: object.shared(page)?,
            page_map: object.map_fd(page)?,
            entries: object.map_fd(entries)?,
            preparing: AtomicBool::new(false),
        })
    }

    /// The tables of maps that outlive the process that loaded them: that of the page, and that of the entries.
    ///
    /// # Errors
    /// When the page cannot be mapped.
    pub fn of_maps(page: MapFd, entries: MapFd) -> Result<Self, BpfError> {
        Ok(Self { page: page.shared()?, page_map: page, entries, preparing: AtomicBool::new(false) })
    }

    /// The maps by their names, for [`Object::load_reusing`] of further programs.
    pub fn maps(&self) -> [(&'static str, &MapFd); 2] {
        let [page, entries] = MAPS;
        [(page, &self.page_map), (entries, &self.entries)]
    }

    /// The page, for reading.
    pub fn page(&self) -> &TablePage {
        &self.page
    }

    fn in_use(&self) -> usize {
        (self.page.current.load(Ordering::Acquire) & 1) as usize
    }

    /// Writes `tables` and `cgroups` into the bank that is not in use. `None` is a cgroup that does not exist, which matches
    /// nothing. The programs see none of it until [`Prepared::commit`]. Takes at least an RCU grace period, some
    /// milliseconds.
    ///
    /// # Errors
    /// When there are too many cgroups, other tables are prepared, or the kernel refuses a map.
    pub fn prepare(
        &self,
        tables: &Tables,
        cgroups: &[Option<CgroupId>],
    ) -> Result<Prepared<'_>, PrepareError> {
        if cgroups.len() > CGROUPS {
            return Err(TableError::Cgroups { given: cgroups.len() }.into());
        }
        if tables.tests_classid() && !weft_host::net_cls::has_net_cls() {
            return Err(TableError::NoNetCls.into());
        }
        if self.preparing.swap(true, Ordering::Acquire) {
            return Err(PrepareError::Busy);
        }
        // From here on, dropping it clears the bank.
        let mut prepared =
            Prepared { tables: self, bank: 1 - self.in_use(), entries: None, committed: false };
        let (key, value) = (Fields::BYTES as u32, ENTRY_BYTES as u32);
        let entries = MapFd::new_hash("weft_entries", key, value, tables.entries.len().max(1) as u32)?;
        for (key, value) in &tables.entries {
            entries.update(key, value)?;
        }
        self.entries.set_inner(prepared.bank as u32, &entries)?;
        prepared.entries = Some(entries);
        let bank = prepared.bank();
        bank.set(tables, cgroups.len());
        for (word, cgroup) in bank.cgroup.iter().zip(cgroups) {
            let CgroupId { id, level } = cgroup.unwrap_or(CgroupId { id: 0, level: 0 });
            word.set(id, level);
        }
        Ok(prepared)
    }

    /// Sets cgroup `index` of the tables in use. If that changes it, every flow is classified again with its next packet. Tables
    /// that are committed at the same time keep their own cgroups.
    ///
    /// # Errors
    /// When the tables have no such cgroup.
    pub fn set_cgroup(&self, index: usize, cgroup: Option<CgroupId>) -> Result<(), TableError> {
        let CgroupId { id, level } = cgroup.unwrap_or(CgroupId { id: 0, level: 0 });
        let bank = &self.page.bank[self.in_use()];
        let known = bank.cgroups.load(Ordering::Relaxed) as usize;
        match bank.cgroup.get(index) {
            Some(word) if index < known && word.get() == (id, level) => return Ok(()),
            Some(word) if index < known => word.set(id, level),
            _ => return Err(TableError::Cgroups { given: index + 1 }),
        }
        // The bank is the lowest bit, and stays.
        self.page.current.fetch_add(2, Ordering::AcqRel);
        Ok(())
    }

    /// The generation of the tables, which changes with each change.
    pub fn generation(&self) -> u64 {
        self.page.current.load(Ordering::Acquire)
    }
}

/// Tables that are written and not in use. Dropping them leaves nothing.
#[derive(Debug)]
#[must_use = "tables that are not committed are removed"]
pub struct Prepared<'a> {
    tables: &'a MatchTables,
    bank: usize,
    /// The entries, once they are in the bank.
    entries: Option<MapFd>,
    committed: bool,
}

impl Prepared<'_> {
    fn bank(&self) -> &Bank {
        &self.tables.page.bank[self.bank]
    }

    /// The number of the bank, 0 or 1, which the generation has as its lowest bit once the tables are in use.
    pub fn bank_number(&self) -> usize {
        self.bank
    }

    /// Puts the tables in use by one store, at time `now` of the kernel's monotonic clock: each packet after it is classified by
    /// them, and every flow with its next packet. Returns when no program uses the former tables any more, which the kernel
    /// shows by an RCU grace period, and they are removed.
    ///
    /// # Errors
    /// When the kernel refuses to remove the former tables. The new ones are then in use.
    pub fn commit(mut self, now: Instant) -> Result<(), BpfError> {
        let page = &self.tables.page;
        let former = &page.bank[1 - self.bank];
        // Flows of the first tables have no other key.
        let first = former.groups.load(Ordering::Relaxed) == 0;
        if !first {
            self.bank().rekey(former, now.as_nanos());
        }
        let next = |current: u64| Some(((current >> 1) + 1) << 1 | self.bank as u64);
        // Always succeeds. A loop, because a cgroup may be set at the same time.
        let _ = page.current.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        self.committed = true;
        if first {
            return Ok(());
        }
        if let Some(entries) = &self.entries {
            // Changes nothing, but the kernel waits for all programs that may have read the former generation.
            self.tables.entries.set_inner(self.bank as u32, entries)?;
        }
        self.clear(1 - self.bank)
    }

    /// Removes the tables of bank `bank`, which no program uses.
    fn clear(&self, bank: usize) -> Result<(), BpfError> {
        self.tables.page.bank[bank].clear();
        self.tables.entries.delete(&(bank as u32).to_ne_bytes())
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if !self.committed && self.entries.is_some() {
            let _ = self.clear(self.bank);
        }
        self.tables.preparing.store(false, Ordering::Release);
    }
}
