//! The page of the match tables: `struct weft_tables` of `bpf/tables.h` in Rust. Tests compare the two field by field.

use super::fields::MASKED;
use super::{CGROUPS, GROUPS, Group, Tables, Tested};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_host::bpf::SharedLayout;

/// Flag: rows test the ports of packets.
const PORTS: u32 = 1;
/// Flag: rows test cgroups.
const FLAG_CGROUPS: u32 = 2;

/// A cgroup; number 0 matches nothing.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct CgroupWord {
    pub(crate) id: AtomicU64,
    pub(crate) level: AtomicU32,
    pad: AtomicU32,
}

/// A group of rows.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct GroupLine {
    pub(crate) mask: [AtomicU32; MASKED / 4],
    pub(crate) first: AtomicU32,
    pub(crate) by: AtomicU32,
    pad: [AtomicU32; 2],
}

/// One of the two copies of the tables.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Bank {
    pub(crate) groups: AtomicU32,
    pub(crate) destinations: AtomicU32,
    pub(crate) cgroups: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) rekeyed: AtomicU64,
    pad: [AtomicU64; 5],
    pub(crate) cgroup: [CgroupWord; CGROUPS],
    pub(crate) group: [GroupLine; GROUPS],
}

/// The page shared by the programs and this process.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TablePage {
    pub(crate) current: AtomicU64,
    pad: [AtomicU64; 7],
    pub(crate) bank: [Bank; 2],
}

const _: () = assert!(size_of::<Bank>() == 64 + 16 * CGROUPS + 64 * GROUPS);
const _: () = assert!(size_of::<TablePage>() == 64 + 2 * size_of::<Bank>());

// SAFETY: repr(C), integer atomics only, and the layout of `struct weft_tables` (sizes asserted on both sides).
unsafe impl SharedLayout for TablePage {}

impl CgroupWord {
    /// Sets the cgroup. A program that reads in between sees none, or the former one.
    pub(super) fn set(&self, id: u64, level: u32) {
        self.id.store(0, Ordering::Release);
        self.level.store(level, Ordering::Release);
        self.id.store(id, Ordering::Release);
    }
}

impl GroupLine {
    fn set(&self, group: &Group) {
        for (word, bytes) in self.mask.iter().zip(group.masks.0.chunks_exact(4)) {
            let bytes = bytes.first_chunk().copied().unwrap_or_default();
            word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.first.store(group.first, Ordering::Relaxed);
        self.by.store(group.by as u32, Ordering::Relaxed);
    }
}

impl Bank {
    /// Writes the groups of `tables`. The bank must not be in use.
    pub(super) fn set(&self, tables: &Tables, cgroups: usize) {
        for (line, group) in self.group.iter().zip(&tables.groups) {
            line.set(group);
        }
        let (groups, destinations) = tables.groups();
        self.groups.store(groups as u32, Ordering::Relaxed);
        self.destinations.store(destinations as u32, Ordering::Relaxed);
        self.cgroups.store(cgroups as u32, Ordering::Relaxed);
        let Tested { ports, cgroups } = tables.tested;
        let flags = if ports { PORTS } else { 0 } | if cgroups { FLAG_CGROUPS } else { 0 };
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Removes all tables from the bank, which must not be in use.
    pub(super) fn clear(&self) {
        for word in [&self.groups, &self.destinations, &self.cgroups, &self.flags] {
            word.store(0, Ordering::Relaxed);
        }
        self.rekeyed.store(0, Ordering::Relaxed);
    }

    /// Whether flows are told apart by their cgroups.
    pub(super) fn keys_by_cgroup(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FLAG_CGROUPS != 0
    }
}
