//! The programs of `bpf/classify.bpf.c` and their maps: loading, pinning, filling.

use super::objects::handle;
use std::path::Path;
use weft_host::bpf::{BpfError, MapFd, Object, ObjectOptions, ProgramFd, SharedValue};
use weft_host::net_cls::has_net_cls;
use weft_nic::doorbell::{Guard, MatchTables};
use weft_policy::CompiledPolicy;
use weft_policy::kernel::{ClassFilter, Handle, LimitClock, Lowered};
use weft_units::{Counted, LaneId, LimitId};

/// The compiled object.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classify.bpf.o"));

/// The classifier at the egress, and the filter of qdiscs.
pub(super) const CLASSIFIER: &str = "weft_classify";
pub(super) const FINDER: &str = "weft_find_class";
/// The most lanes and classes (`WEFT_LEAVES`); the last is that of infrastructure.
pub(super) const LEAVES: usize = 8192;
/// The most limits by destination and port (`WEFT_LEAF_CLOCKS`), and the most of one lane (`WEFT_LANE_CLOCKS`).
pub(super) const CLOCKS: usize = 8192;
pub(super) const LANE_CLOCKS: usize = 4;
/// The lane and the class of infrastructure.
pub(super) const INFRASTRUCTURE: u16 = LEAVES as u16 - 1;
/// The maps that are pinned.
const MAPS: [&str; 8] = ["tables", "entries", "guard", "leaves", "counts", "clocks", "interfaces", "ways"];
/// Maps of the classifier alone.
const OF_CLASSIFIER: [&str; 9] =
    ["tables", "entries", "guard", "fragments", "leaves", "counts", "clocks", "interfaces", "known"];

/// Returns the value of `config`.
fn config(qdisc: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&u32::from(has_net_cls()).to_ne_bytes());
    bytes[4..].copy_from_slice(&qdisc.to_ne_bytes());
    bytes
}

/// Loads the classifier with its maps.
pub(super) fn load() -> Result<Object, BpfError> {
    let rodata = config(0);
    Object::load_with(
        OBJECT,
        &ObjectOptions {
            name: "classify",
            rodata: Some(&rodata),
            skip: &[FINDER],
            ..ObjectOptions::default()
        },
    )
}

/// Pins the classifier and its maps in `folder`, which exists.
pub(super) fn pin(object: &Object, folder: &Path) -> Result<ProgramFd, BpfError> {
    for map in MAPS {
        object.map_fd(map)?.pin(&folder.join(map))?;
    }
    let program = object.program_fd(CLASSIFIER)?;
    program.pin(&folder.join(CLASSIFIER))?;
    Ok(program)
}

/// The pinned maps.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) tables: MatchTables,
    pub(super) guard: SharedValue<Guard>,
    leaves: MapFd,
    counts: MapFd,
    clocks: MapFd,
    interfaces: MapFd,
    ways: MapFd,
}

/// The counts of a class by the classifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Count {
    /// The packets that it has had.
    pub(super) had: Counted,
    /// Those that a limit by destination or port has dropped.
    pub(super) late: Counted,
}

impl Maps {
    /// The maps that are pinned in `folder`.
    pub(super) fn pinned(folder: &Path) -> Result<Self, BpfError> {
        let map = |name: &str| MapFd::pinned(&folder.join(name));
        Ok(Self {
            tables: MatchTables::of_maps(map("tables")?, map("entries")?)?,
            guard: map("guard")?.shared()?,
            leaves: map("leaves")?,
            counts: map("counts")?,
            clocks: map("clocks")?,
            interfaces: map("interfaces")?,
            ways: map("ways")?,
        })
    }

    /// Loads the filter of a qdisc.
    pub(super) fn load_finder(&self, qdisc: Handle) -> Result<ProgramFd, BpfError> {
        let rodata = config(handle(qdisc).raw());
        let options = ObjectOptions {
            name: "classify",
            rodata: Some(&rodata),
            reuse: &[("ways", &self.ways)],
            skip: &[CLASSIFIER],
            without: &OF_CLASSIFIER,
            ..ObjectOptions::default()
        };
        Object::load_with(OBJECT, &options)?.program_fd(FINDER)
    }

    /// Adds the ways through a qdisc.
    pub(super) fn add_ways(&self, filter: &ClassFilter) -> Result<(), BpfError> {
        for (key, class) in ways(filter) {
            self.ways.update(&key, &u32::from(class.minor).to_ne_bytes())?;
        }
        Ok(())
    }

    /// Removes the ways that `old` has and `new` has not.
    pub(super) fn remove_ways(&self, old: &[ClassFilter], new: &[ClassFilter]) {
        let kept: std::collections::BTreeSet<_> = new.iter().flat_map(ways).map(|(key, _)| key).collect();
        for (key, _) in old.iter().flat_map(ways).filter(|(key, _)| !kept.contains(key)) {
            // A way that is gone is as it should be.
            let _ = self.ways.delete(&key);
        }
    }

    /// Writes the limits by destination and port. One that is known keeps what is used of it.
    pub(super) fn set_clocks(&self, clocks: &[LimitClock]) -> Result<(), BpfError> {
        for clock in clocks {
            let key = clock.limit.0.to_ne_bytes();
            let used = self.clocks.lookup(&key)?.and_then(|value| value.first_chunk::<8>().copied());
            let per_kib = 1024 * 8 * 1_000_000_000 / clock.rate.get().max(1);
            let burst = clock.rate.time_for(clock.burst);
            let words = [per_kib, burst.get(), clock.horizon.get()].into_iter().flat_map(u64::to_ne_bytes);
            let value: Vec<u8> = used.unwrap_or_default().into_iter().chain(words).collect();
            self.clocks.update(&key, &value)?;
        }
        Ok(())
    }

    /// Writes the lanes of `policy` into bank `bank`, which is not in use.
    pub(super) fn set_leaves(
        &self,
        policy: &CompiledPolicy,
        lowered: &Lowered,
        bank: usize,
    ) -> Result<(), BpfError> {
        let base = bank * LEAVES;
        for (number, lane) in policy.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant()) {
            let leaf = lowered.map.leaf(lane.class).unwrap_or(lowered.tree.default);
            let clocks: Vec<LimitId> =
                lowered.map.clocks_of(LaneId::from_index(number)).map(|clock| clock.limit).collect();
            let value = leaf_bytes(leaf, lane.class.0 as u16, &clocks);
            self.leaves.update(&((base + number) as u32).to_ne_bytes(), &value)?;
        }
        let infrastructure = lowered.map.infrastructure.unwrap_or(lowered.tree.default);
        let last = base + usize::from(INFRASTRUCTURE);
        self.leaves.update(&(last as u32).to_ne_bytes(), &leaf_bytes(infrastructure, INFRASTRUCTURE, &[]))
    }

    /// Sets the numbers of devices, by their interface numbers, and removes all others.
    pub(super) fn set_interfaces(&self, new: &[(u32, u16)]) -> Result<(), BpfError> {
        for (ifindex, number) in new {
            self.interfaces.update(&ifindex.to_ne_bytes(), &u32::from(*number).to_ne_bytes())?;
        }
        let known = |key: &[u8]| new.iter().any(|(ifindex, _)| key == ifindex.to_ne_bytes());
        self.interfaces.table()?.retain(0, usize::MAX, |key, _| known(key));
        Ok(())
    }

    /// The counts of class `class`.
    pub(super) fn count(&self, class: u16) -> Result<Count, BpfError> {
        let mut sum = Count::default();
        for value in self.counts.lookup_per_cpu(&u32::from(class).to_ne_bytes())? {
            let word = |at: usize| {
                value
                    .get(at * 8..)
                    .and_then(|rest| rest.first_chunk())
                    .map_or(0, |word| u64::from_ne_bytes(*word))
            };
            sum.had += Counted::new(word(0), word(1));
            sum.late += Counted::new(word(2), word(3));
        }
        Ok(sum)
    }
}

/// The keys of the ways through a qdisc (`struct weft_way`), each with its class.
fn ways(filter: &ClassFilter) -> Vec<([u8; 8], Handle)> {
    let key = |leaf: u32| {
        let mut key = [0; 8];
        key[..4].copy_from_slice(&handle(filter.qdisc).raw().to_ne_bytes());
        key[4..].copy_from_slice(&leaf.to_ne_bytes());
        key
    };
    let others = filter.otherwise.map(|class| (key(0), class));
    filter.classes.iter().map(|(leaf, class)| (key(leaf.value()), *class)).chain(others).collect()
}

/// A lane in the tree (`struct weft_leaf`).
pub(super) fn leaf_bytes(leaf: Handle, class: u16, clocks: &[LimitId]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&leaf.value().to_ne_bytes());
    bytes[4..6].copy_from_slice(&class.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(clocks.len().min(LANE_CLOCKS) as u16).to_ne_bytes());
    for (slot, clock) in bytes[8..].chunks_exact_mut(2).zip(clocks) {
        slot.copy_from_slice(&(clock.0 as u16).to_ne_bytes());
    }
    bytes
}
