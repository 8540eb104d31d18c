//! The page of the match tables: `struct weft_tables` of `bpf/tables.h` in Rust. Tests compare the two field by field.

use super::fields::{MASKED, OWNING_VLAN};
use super::{CGROUPS, GROUPS, Group, Tables, TestedBits};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_host::bpf::SharedLayout;

/// The flags of what distinguishes flows: all but the ports (`WEFT_TABLES_PORTS`).
const OWNERS: u32 = !TestedBits::PORTS;

/// A cgroup; number 0 matches nothing.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct CgroupWord {
    pub(crate) id: AtomicU64,
    pub(crate) level: AtomicU32,
    pad: AtomicU32,
}

/// A group of rows.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct GroupLine {
    pub(crate) mask: [AtomicU32; MASKED / 4],
    pub(crate) first: AtomicU32,
    pub(crate) by: AtomicU32,
}

/// The tests of a packet's sender that rows have, and the bits that they test of the packet besides its key.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TestedWord {
    pub(crate) flags: AtomicU32,
    pub(crate) frame: AtomicU32,
    pub(crate) mark: AtomicU32,
    pub(crate) priority: AtomicU32,
}

/// One of the two copies of the tables.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Bank {
    pub(crate) groups: AtomicU32,
    pub(crate) destinations: AtomicU32,
    pub(crate) cgroups: AtomicU32,
    pad0: AtomicU32,
    pub(crate) rekeyed: AtomicU64,
    pub(crate) tested: TestedWord,
    /// The tests before the flows' keys changed.
    pub(crate) keyed: TestedWord,
    pad1: AtomicU64,
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

const _: () = assert!(size_of::<Bank>() == 64 + 16 * CGROUPS + 80 * GROUPS);
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

    /// The cgroup, as the only writer reads it.
    pub(super) fn get(&self) -> (u64, u32) {
        (self.id.load(Ordering::Relaxed), self.level.load(Ordering::Relaxed))
    }
}

impl TestedWord {
    fn set(&self, tested: TestedBits) {
        self.flags.store(tested.flags, Ordering::Relaxed);
        self.frame.store(tested.frame, Ordering::Relaxed);
        self.mark.store(tested.mark, Ordering::Relaxed);
        self.priority.store(tested.priority, Ordering::Relaxed);
    }

    fn get(&self) -> TestedBits {
        let [flags, frame, mark, priority] =
            [&self.flags, &self.frame, &self.mark, &self.priority].map(|word| word.load(Ordering::Relaxed));
        TestedBits { flags, frame, mark, priority }
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
        self.tested.set(tables.tested_bits());
    }

    /// Takes over when and from what the keys of flows changed, from `former`, the bank in use until `now`.
    pub(super) fn rekey(&self, former: &Self, now: u64) {
        let (old, new) = (former.tested.get(), self.tested.get());
        let owners = |tested: TestedBits| (tested.flags & OWNERS, tested.frame & OWNING_VLAN);
        let (rekeyed, keyed) = if owners(old) == owners(new) {
            (former.rekeyed.load(Ordering::Relaxed), former.keyed.get())
        } else {
            (now, old)
        };
        self.keyed.set(keyed);
        self.rekeyed.store(rekeyed, Ordering::Relaxed);
    }

    /// Removes all tables from the bank, which must not be in use.
    pub(super) fn clear(&self) {
        for word in [&self.groups, &self.destinations, &self.cgroups] {
            word.store(0, Ordering::Relaxed);
        }
        self.tested.set(TestedBits::default());
        self.keyed.set(TestedBits::default());
        self.rekeyed.store(0, Ordering::Relaxed);
    }
}
