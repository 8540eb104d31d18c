//! A policy in the kernel at one device: apply, open, change, remove, repair.

use super::error::KernelError;
use super::objects::{handle, object};
use super::plan::KernelPlan;
use super::programs::{self, CLASSIFIER, INFRASTRUCTURE, Maps};
use super::record::{Attachment, FOLDER, FormerQdisc, KernelRecord, UnderWay};
use crate::cgroups;
use crate::session::AuthoredPolicy;
use std::path::Path;
use weft_host::bpf::{self, Object, ProgramFd, has_tcx, tcx_egress};
use weft_host::bpffs::BpfFs;
use weft_host::cgroup::Watch;
use weft_host::device_record::{self, DeviceRecord, seconds_since_1970};
use weft_host::tc::{self, Filter, FilterRule, Saved, TcAction, TcDevice, TcError, TcObject, TcPlace};
use weft_host::{NetNs, clock, link};
use weft_policy::kernel::{ClassFilter, Edits, Handle, KernelDifference, KernelPart, diff};
use weft_policy::{CompiledPolicy, Numbers};
use weft_titan::match_table::CgroupId;
use weft_units::{BitsPerSec, LaneId, Nanos, Packets};

type Result<T> = core::result::Result<T, KernelError>;

/// The prefix of the names of pin folders.
const PREFIX: &str = "weft-kernel-";
/// The name of our filters.
const FILTER: &str = "weft";
/// The priority and the handle of the filters of our own qdiscs.
const PRIORITY: u16 = 1;
const NUMBER: u32 = 1;
/// The time allowed for the queues of removed classes to become empty, and the interval of the looks.
const PATIENCE: Nanos = Nanos::from_secs(1);
const LOOK: core::time::Duration = core::time::Duration::from_millis(5);

/// A policy in the kernel at a device.
#[derive(Debug)]
pub struct KernelPath {
    pub(super) record: KernelRecord,
    pub(super) plan: KernelPlan,
    pub(super) maps: Maps,
    pub(super) tc: TcDevice,
    ns: NetNs,
}

/// A change that its process did not complete, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// The device.
    pub device: String,
    /// The result in a line.
    pub result: String,
}

/// The compilation of a policy that is in force.
type Compile<'a> = &'a dyn Fn(&AuthoredPolicy) -> Option<CompiledPolicy>;

impl KernelPath {
    /// Puts the policy of `plan` into the kernel at `device` of `ns`. It holds when this returns, and stays when this process ends.
    /// `replace`: a former root that cannot be restored is lost.
    ///
    /// # Errors
    /// If the device is unsuitable, a policy is there already (also an incomplete one: [`repair`](Self::repair)), or the kernel refuses a
    /// step. Nothing remains then.
    pub fn apply(
        ns: &NetNs,
        device: &str,
        source: AuthoredPolicy,
        plan: KernelPlan,
        replace: bool,
    ) -> Result<Self> {
        let folder = Path::new(FOLDER);
        let _lock = device_record::lock(folder)?;
        let found = link::show(ns, device)?;
        if !found.is_ethernet {
            let kind = found.kind.unwrap_or_else(|| "loopback".to_owned());
            return Err(KernelError::NotEthernet { device: device.to_owned(), kind });
        }
        let mut tc = TcDevice::open(ns, device)?;
        if let Some(record) = KernelRecord::read(folder, ns.inode()?, tc.index())? {
            return Err(KernelError::Applied { device: device.to_owned(), since: record.since() });
        }
        let saved = save(&mut tc, replace)?;
        let object = programs::load()?;
        let (netns, ifindex) = (ns.inode()?, tc.index());
        let files = BpfFs::open()?;
        let name = format!("{PREFIX}{netns}-{ifindex}");
        // Without a record these pins have no owner: an earlier namespace or device of the same number.
        files.remove_folder(&name)?;
        let pins = files.folder(&name)?;
        let attachment = match ns.run(|| has_tcx(ifindex))?? {
            true => Attachment::Tcx,
            false => {
                Attachment::Filter { priority: last_priority(&mut tc)?, clsact_added: !tc.has_clsact()? }
            }
        };
        let program = programs::pin(&object, &pins);
        let mut record = KernelRecord {
            device: device.to_owned(),
            ifindex,
            netns,
            netns_name: (!ns.name().starts_with('(')).then(|| ns.name().to_owned()),
            policy: source,
            numbers: Numbers::of(&plan.policy),
            qdiscs: plan.qdiscs,
            former: FormerQdisc::all(&saved),
            attachment,
            program: program.as_ref().map_or(0, ProgramFd::id),
            pins,
            under_way: Some(UnderWay::Whole),
            generation: 1,
            since: seconds_since_1970(),
        };
        let made = program.map_err(KernelError::from).and_then(|_| {
            record.write(folder)?;
            let maps = Maps::pinned(&record.pins)?;
            install(&mut tc, &maps, &plan)?;
            fill(ns, &maps, &plan)?;
            attach(ns, &mut tc, &object, &record)?;
            record.under_way = None;
            record.write(folder)?;
            Ok(maps)
        });
        match made {
            Ok(maps) => Ok(Self { record, plan, maps, tc, ns: ns.handle()? }),
            Err(error) => {
                let _ = undo(ns, &mut tc, &record);
                record.remove(folder);
                Err(error)
            }
        }
    }

    /// Opens the policy in the kernel at `device` of `ns`. `compile` compiles it.
    ///
    /// # Errors
    /// If none is there, with the devices that have one.
    pub fn open(ns: &NetNs, device: &str, compile: Compile<'_>) -> Result<Self> {
        let record = Self::record_of(ns, device)?;
        let tc = TcDevice::open(ns, device)?;
        let policy =
            compile(&record.policy).ok_or_else(|| KernelError::Uncompiled(record.policy.name.clone()))?;
        let plan = KernelPlan::new(&record.numbers.give(policy), record.qdiscs)?;
        let maps = Maps::pinned(&record.pins)?;
        Ok(Self {
            record: KernelRecord { device: device.to_owned(), ..record },
            plan,
            maps,
            tc,
            ns: ns.handle()?,
        })
    }

    /// The record of `device`.
    fn record_of(ns: &NetNs, device: &str) -> Result<KernelRecord> {
        let folder = Path::new(FOLDER);
        let record = KernelRecord::read(folder, ns.inode()?, link::index(ns, device)?)?;
        record.ok_or_else(|| {
            let known = KernelRecord::all(folder).unwrap_or_default();
            let words = |record: KernelRecord| match record.netns_name {
                Some(netns) => format!("{} of {netns}", record.device),
                None => record.device,
            };
            let known: Vec<String> = known.into_iter().map(words).collect();
            let others =
                if known.is_empty() { String::new() } else { format!("; it is at {}", known.join(", ")) };
            KernelError::NotApplied { device: device.to_owned(), others }
        })
    }

    /// Whether a policy is in the kernel at `device`.
    ///
    /// # Errors
    /// If the device does not exist, or its record cannot be read.
    pub fn is_at(ns: &NetNs, device: &str) -> Result<bool> {
        match Self::record_of(ns, device) {
            Ok(_) => Ok(true),
            Err(KernelError::NotApplied { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The records of the devices of `ns` with a policy in the kernel, or of all namespaces.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn all(ns: Option<&NetNs>) -> Result<Vec<KernelRecord>> {
        let netns = ns.map(NetNs::inode).transpose()?;
        let mut records = KernelRecord::all(Path::new(FOLDER))?;
        records.retain(|record| netns.is_none_or(|netns| record.netns == netns));
        Ok(records)
    }

    /// Undoes the changes of processes that were killed before they had completed them, and forgets devices that no longer exist.
    /// `compile` compiles a policy in force.
    ///
    /// # Errors
    /// If a record cannot be read, or a device cannot be put back.
    pub fn repair(compile: Compile<'_>) -> Result<Vec<Interrupted>> {
        let folder = Path::new(FOLDER);
        let _lock = device_record::lock(folder)?;
        let mut repaired = Vec::new();
        for record in KernelRecord::all(folder)? {
            let ns = match namespace_of(&record) {
                Place::Found(ns) => Some(ns),
                Place::Gone => None,
                Place::Hidden => continue,
            };
            let there = match &ns {
                Some(ns) => link::list(ns)?.into_iter().find(|link| link.index == record.ifindex),
                None => None,
            };
            let (Some(ns), Some(there)) = (ns, there) else {
                // The tree and the program went with the device.
                remove_pins(&record.pins);
                record.remove(folder);
                continue;
            };
            let result = match record.under_way {
                None => continue,
                Some(UnderWay::Whole) => {
                    let mut tc = TcDevice::open(&ns, &there.name)?;
                    undo(&ns, &mut tc, &record)?;
                    record.remove(folder);
                    "a change was interrupted, and the device is as it was before"
                }
                Some(UnderWay::Edit) => {
                    let mut path = Self::open(&ns, &there.name, compile)?;
                    path.make_anew()?;
                    path.record.under_way = None;
                    path.record.write(folder)?;
                    "a change was interrupted, and the former policy is in force"
                }
            };
            repaired.push(Interrupted { device: there.name, result: result.to_owned() });
        }
        Ok(repaired)
    }

    /// The record.
    pub fn record(&self) -> &KernelRecord {
        &self.record
    }

    /// The plan of the policy in force.
    pub fn plan(&self) -> &KernelPlan {
        &self.plan
    }

    /// Removes the policy of `device`: the classifier, the tree, the pins and the record. The former root is put back. Returns the kind
    /// of the root that is left in place because another program has put it there.
    ///
    /// # Errors
    /// If none is there, or the former root cannot be put back; the rest is removed then.
    pub fn remove(ns: &NetNs, device: &str) -> Result<Option<String>> {
        let folder = Path::new(FOLDER);
        let _lock = device_record::lock(folder)?;
        let mut record = Self::record_of(ns, device)?;
        let mut tc = TcDevice::open(ns, device)?;
        record.under_way = Some(UnderWay::Whole);
        record.write(folder)?;
        let undone = undo(ns, &mut tc, &record);
        record.remove(folder);
        undone
    }

    /// The plan of `policy` with the numbers of the policy in force.
    ///
    /// # Errors
    /// As [`KernelPlan::new`].
    pub fn plan_change(&self, policy: CompiledPolicy) -> Result<KernelPlan> {
        KernelPlan::new(&self.record.numbers.give(policy), self.record.qdiscs)
    }

    /// The edits that lead to `plan`, or the reason for a new root.
    pub fn difference(&self, plan: &KernelPlan) -> KernelDifference {
        diff(&self.plan.lowered.tree, &plan.lowered.tree)
    }

    /// The packets that wait in the tree.
    ///
    /// # Errors
    /// If another program has replaced the tree.
    pub fn waiting(&mut self) -> Result<Packets> {
        self.check_root()?;
        Ok(self.tc.root()?.map_or(Packets::ZERO, |root| root.counters.backlog.packets))
    }

    /// Fails if the root is not ours.
    fn check_root(&mut self) -> Result<()> {
        let root = self.tc.root()?;
        match root {
            Some(root) if root.place.handle == handle(Handle::ROOT) => Ok(()),
            other => {
                let (kind, place) = other
                    .map_or(("none".to_owned(), tc::Handle::NONE), |root| (root.kind, root.place.handle));
                Err(KernelError::Replaced {
                    device: self.record.device.clone(),
                    kind,
                    handle: place.to_string(),
                })
            }
        }
    }

    /// Changes to the policy of `plan`, which is one of [`plan_change`](Self::plan_change). Nothing is lost, but for what waits in queues
    /// of another kind, or, with `replace`, in the whole tree where it must be made anew.
    ///
    /// # Errors
    /// If a new root is needed and `replace` is not set, another program has replaced the tree, another process has changed the policy since
    /// it was opened, or the kernel refuses a step. The former policy is then in force.
    pub fn change(&mut self, source: AuthoredPolicy, plan: KernelPlan, replace: bool) -> Result<()> {
        let folder = Path::new(FOLDER);
        let _lock = device_record::lock(folder)?;
        self.check_root()?;
        let now = KernelRecord::read(folder, self.record.netns, self.record.ifindex)?;
        if now.is_none_or(|now| now.generation != self.record.generation) {
            return Err(KernelError::Meanwhile { device: self.record.device.clone() });
        }
        let edits = match self.difference(&plan) {
            KernelDifference::InPlace(edits) => edits,
            KernelDifference::NewRoot(_) if replace => return self.renew(folder, source, plan),
            KernelDifference::NewRoot(reason) => {
                return Err(KernelError::NewRoot { reason, waiting: self.waiting()? });
            }
        };
        self.record.under_way = Some(UnderWay::Edit);
        self.record.write(folder)?;
        let mut done = Vec::new();
        if let Err(error) = self.edit(&edits, &plan, &mut done) {
            self.take_back(done);
            self.record.under_way = None;
            self.record.write(folder)?;
            return Err(error);
        }
        let removed = &edits.removed;
        self.wait_until_empty(removed);
        for part in removed {
            // A class goes with its qdisc, and a queue with its class.
            let _ = self.tc.apply(TcAction::Delete, &object(part));
        }
        self.maps.remove_ways(&self.plan.lowered.map.filters, &plan.lowered.map.filters);
        self.plan = plan;
        self.keep(folder, source)
    }

    /// Makes what `edits` add and change, and puts the tables of `plan` in use. `done` has what was made, for its reversal.
    fn edit(
        &mut self,
        edits: &Edits,
        plan: &KernelPlan,
        done: &mut Vec<(TcAction, TcObject<'static>)>,
    ) -> Result<()> {
        let former = |part: &KernelPart, tree: &weft_policy::kernel::KernelTree| {
            tree.parts.iter().find(|known| known.handle() == part.handle()).map(object)
        };
        let filters = &plan.lowered.map.filters;
        for filter in filters {
            self.maps.add_ways(filter)?;
        }
        for part in &edits.added {
            self.tc.add(&object(part))?;
            done.push((TcAction::Delete, object(part)));
            if let Some(filter) = filter_of(filters, part) {
                add_filter(&mut self.tc, &self.maps, filter)?;
            }
        }
        for part in edits.changed.iter().chain(&edits.replaced) {
            let action = if edits.replaced.contains(part) { TcAction::Replace } else { TcAction::Change };
            self.tc.apply(action, &object(part))?;
            done.extend(former(part, &self.plan.lowered.tree).map(|former| (action, former)));
        }
        // A qdisc that was a leaf's own and now has another below it.
        for filter in filters.iter().filter(|filter| {
            self.plan.lowered.map.filters.iter().all(|known| known.qdisc != filter.qdisc)
                && edits.added.iter().all(|part| part.handle() != filter.qdisc)
        }) {
            add_filter(&mut self.tc, &self.maps, filter)?;
        }
        fill(&self.ns, &self.maps, plan)
    }

    /// Reverses edits that were made, the last first.
    fn take_back(&mut self, done: Vec<(TcAction, TcObject<'static>)>) {
        for (action, object) in done.into_iter().rev() {
            let _ = self.tc.apply(action, &object);
        }
        let _ = fill(&self.ns, &self.maps, &self.plan);
    }

    /// Waits until the queues among `parts` are empty, for a bounded time.
    fn wait_until_empty(&mut self, parts: &[KernelPart]) {
        let queues: Vec<tc::Handle> = parts
            .iter()
            .filter_map(|part| match part {
                KernelPart::Qdisc(qdisc) if qdisc.kind.is_leaf() => Some(handle(qdisc.handle)),
                _ => None,
            })
            .collect();
        let until = clock::now() + PATIENCE;
        while !queues.is_empty() && clock::now() < until {
            let found = self.tc.qdiscs().unwrap_or_default();
            let waits = |qdisc: &tc::QdiscFound| {
                queues.contains(&qdisc.place.handle) && qdisc.counters.backlog.packets > Packets::ZERO
            };
            if !found.iter().any(waits) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Puts the policy of `plan` in force by a new tree, which loses what waits.
    fn renew(&mut self, folder: &Path, source: AuthoredPolicy, plan: KernelPlan) -> Result<()> {
        self.record.under_way = Some(UnderWay::Edit);
        self.record.write(folder)?;
        let former = core::mem::replace(&mut self.plan, plan);
        if let Err(error) = self.make_anew() {
            self.plan = former;
            self.make_anew()?;
            self.record.under_way = None;
            self.record.write(folder)?;
            return Err(error);
        }
        self.maps.remove_ways(&former.lowered.map.filters, &self.plan.lowered.map.filters);
        self.keep(folder, source)
    }

    /// Makes the tree of the plan anew.
    fn make_anew(&mut self) -> Result<()> {
        let root = self.tc.root()?;
        if root.is_some_and(|root| root.place.handle == handle(Handle::ROOT)) {
            self.tc.delete_qdisc(TcPlace::root(handle(Handle::ROOT)))?;
        }
        install(&mut self.tc, &self.maps, &self.plan)?;
        fill(&self.ns, &self.maps, &self.plan)
    }

    /// Records the policy of the plan as that in force.
    fn keep(&mut self, folder: &Path, source: AuthoredPolicy) -> Result<()> {
        self.record.policy = source;
        self.record.numbers = Numbers::of(&self.plan.policy);
        self.record.generation += 1;
        self.record.under_way = None;
        Ok(self.record.write(folder)?)
    }

    /// Looks up the policy's cgroups and devices again: what was restarted has other numbers. The classes of flows follow.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn refresh(&mut self) -> Result<()> {
        for (index, cgroup) in cgroups_of(&self.plan.policy).into_iter().enumerate() {
            self.maps.tables.set_cgroup(index, cgroup)?;
        }
        self.maps.set_interfaces(&interfaces_of(&self.ns, &self.plan.policy))?;
        Ok(())
    }

    /// Differences from what was made, one line each: another root, a classifier that is gone, packets that another program classified.
    ///
    /// # Errors
    /// If the device no longer exists.
    pub fn warnings(&mut self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        if let Err(error @ KernelError::Replaced { .. }) = self.check_root() {
            warnings.push(error.to_string());
        }
        if !is_attached(&self.ns, &mut self.tc, &self.record)? {
            warnings.push(format!(
                "the classifier at {device} is gone, so all packets are of the default class; `weft remove {device}`, and apply the policy again",
                device = self.record.device
            ));
        }
        let direct = self.tc.root()?.and_then(|root| root.direct_packets()).unwrap_or_default();
        if direct > Packets::ZERO {
            warnings.push(format!("{direct} packets have left unshaped, before the tree had classes"));
        }
        Ok(warnings)
    }
}

/// The namespace of a record.
enum Place {
    Found(NetNs),
    /// Its name is free by now, or that of another namespace.
    Gone,
    /// It had no name, and this process is in another one.
    Hidden,
}

fn namespace_of(record: &KernelRecord) -> Place {
    let is_it = |ns: &NetNs| ns.inode().is_ok_and(|inode| inode == record.netns);
    match &record.netns_name {
        Some(name) => NetNs::named(name).ok().filter(is_it).map_or(Place::Gone, Place::Found),
        None => NetNs::current().ok().filter(is_it).map_or(Place::Hidden, Place::Found),
    }
}

/// The former root. One that cannot be restored is given up if it may be replaced.
fn save(tc: &mut TcDevice, replace: bool) -> Result<Saved> {
    match tc.save() {
        Err(TcError::NotRestorable { .. }) if replace => Ok(Saved::new(Vec::new())),
        Err(source @ TcError::NotRestorable { .. }) => Err(KernelError::Occupied { source }),
        other => Ok(other?),
    }
}

/// A priority after those of all filters at the egress.
fn last_priority(tc: &mut TcDevice) -> Result<u16> {
    let filters = tc.filters(tc::Handle::EGRESS)?;
    let last = filters.iter().map(|filter| filter.priority).max();
    Ok(last.map_or(1, |last| last.saturating_add(1)))
}

/// Makes the tree, each qdisc with its filter.
fn install(tc: &mut TcDevice, maps: &Maps, plan: &KernelPlan) -> Result<()> {
    let filters = &plan.lowered.map.filters;
    for filter in filters {
        maps.add_ways(filter)?;
    }
    for part in &plan.lowered.tree.parts {
        let object = object(part);
        let root = part.handle() == Handle::ROOT;
        // A root that a user has put there is replaced; the kernel's default gives way.
        tc.apply(if root { TcAction::Replace } else { TcAction::Add }, &object)?;
        if let Some(filter) = filter_of(filters, part) {
            add_filter(tc, maps, filter)?;
        }
    }
    Ok(())
}

/// The filter of a part, if it is a qdisc that has one.
fn filter_of<'a>(filters: &'a [ClassFilter], part: &KernelPart) -> Option<&'a ClassFilter> {
    filters.iter().find(|filter| filter.qdisc == part.handle())
}

fn add_filter(tc: &mut TcDevice, maps: &Maps, filter: &ClassFilter) -> Result<()> {
    let program = maps.load_finder(filter.qdisc)?;
    let rule = FilterRule::Bpf { program: program.as_fd(), name: FILTER, direct_action: true };
    let hook = handle(filter.qdisc);
    // The program gives the minor number; the major number is that of this class, which need not exist.
    let class = Some(hook.class(u16::MAX));
    Ok(tc.add(&TcObject::Filter(Filter { class, ..Filter::new(hook, PRIORITY, NUMBER, rule) }))?)
}

/// Writes the lanes and the match tables of `plan`, and puts them in use.
fn fill(ns: &NetNs, maps: &Maps, plan: &KernelPlan) -> Result<()> {
    let KernelPlan { policy, lowered, tables, .. } = plan;
    maps.set_clocks(&lowered.map.clocks)?;
    maps.set_interfaces(&interfaces_of(ns, policy))?;
    let own = lowered.map.infrastructure.map(|_| LaneId(u32::from(INFRASTRUCTURE)));
    maps.guard.set_infrastructure(own);
    maps.guard.set_link_rate(policy.link.unwrap_or(BitsPerSec(1)), 1);
    let prepared = maps.tables.prepare(tables, &cgroups_of(policy))?;
    maps.set_leaves(policy, lowered, prepared.bank_number())?;
    Ok(prepared.commit(clock::now())?)
}

fn cgroups_of(policy: &CompiledPolicy) -> Vec<Option<CgroupId>> {
    let watch: Watch = cgroups::watch(policy);
    cgroups::entries(&watch).into_iter().map(|entry| entry.map(CgroupId::from)).collect()
}

/// The devices that rows name, by their interface numbers, with the numbers of the rows. One that does not exist has none.
fn interfaces_of(ns: &NetNs, policy: &CompiledPolicy) -> Vec<(u32, u16)> {
    let links = if policy.ports.is_empty() { Vec::new() } else { link::list(ns).unwrap_or_default() };
    let number = |name: &String| links.iter().find(|link| link.name == *name).map(|link| link.index);
    let named = policy.ports.iter().filter_map(|name| Some((number(name)?, policy.port_number(name))));
    named.collect()
}

/// Attaches the classifier as the last program of the egress.
fn attach(ns: &NetNs, tc: &mut TcDevice, object: &Object, record: &KernelRecord) -> Result<()> {
    match record.attachment {
        Attachment::Tcx => {
            let program = object.program_fd(CLASSIFIER)?;
            Ok(ns.run(|| program.attach_last(record.ifindex))??)
        }
        Attachment::Filter { priority, clsact_added } => {
            if clsact_added {
                tc.add(&TcObject::clsact())?;
            }
            let program = object.program_fd(CLASSIFIER)?;
            let rule = FilterRule::Bpf { program: program.as_fd(), name: FILTER, direct_action: true };
            Ok(tc.claim_filter(&Filter::new(tc::Handle::EGRESS, priority, NUMBER, rule))?)
        }
    }
}

fn is_attached(ns: &NetNs, tc: &mut TcDevice, record: &KernelRecord) -> Result<bool> {
    Ok(match record.attachment {
        Attachment::Tcx => ns.run(|| tcx_egress(record.ifindex))??.contains(&record.program),
        Attachment::Filter { priority, .. } => {
            let ours = |filter: &tc::FilterFound| filter.priority == priority && filter.handle == NUMBER;
            tc.filters(tc::Handle::EGRESS)?.iter().any(ours)
        }
    })
}

/// Undoes what `record` says, as far as it was done: the classifier first, then the tree. Returns the kind of a root that another program
/// has put there, which stays.
fn undo(ns: &NetNs, tc: &mut TcDevice, record: &KernelRecord) -> Result<Option<String>> {
    if is_attached(ns, tc, record).unwrap_or(false) {
        match record.attachment {
            Attachment::Tcx => {
                let _ = ns.run(|| bpf::detach_tcx(record.program, record.ifindex));
            }
            Attachment::Filter { priority, .. } => {
                let _ = tc.delete_filter(tc::Handle::EGRESS, priority, NUMBER);
            }
        }
    }
    if let Attachment::Filter { clsact_added: true, .. } = record.attachment {
        // Filters of others may be there by now.
        let _ = tc.delete_clsact();
    }
    let root = tc.root()?.filter(|root| root.place.handle != tc::Handle::NONE);
    let restored = match root {
        Some(root) if root.place.handle == handle(Handle::ROOT) => {
            tc.restore(&record.saved(), handle(Handle::ROOT)).map(|()| None)
        }
        // Nothing was changed, or another program has put its root there.
        other => Ok(other.map(|root| root.kind)),
    };
    remove_pins(&record.pins);
    Ok(restored?)
}

/// Removes the pins in `folder`.
fn remove_pins(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    if let Some(files) = BpfFs::find() {
        // A file system that is not weftline's, or that still has pins, stays mounted.
        let _ = files.release();
    }
}
