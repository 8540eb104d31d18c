//! The tables that all tenants share. Each tenant may use a part of each table, which depends on the file that names the tenants
//! alone: the quota that is stated, or an equal share of what that file and the stated quotas leave. So whatever a tenant writes,
//! another tenant's file is accepted or refused as before.

use super::Pass;
use super::merge::joined;
use crate::budget::Owners;
use crate::code::Code;
use crate::compiled::CompiledPolicy;
use crate::diagnostic::SpannedDiagnostic;
use crate::files::{Quota, Tenant};
use crate::lowering::conditions::CGROUPS_MAX;
use crate::lowering::model::{ClassRole, Condition, PORTS_MAX, Policy, Spanned, TenantDefinition};
use crate::program;
use crate::tables::{ENTRIES_MAX, Group, MASKS_MAX, TableUse};
use crate::validate::graph::Graph;
use crate::validate::rows::ClassRow;
use crate::validate::shape::Shape;
use crate::validate::terms::ROWS_MAX;
use std::collections::{BTreeMap, BTreeSet};
use weft_packet::Match;
use weft_text::{Span, quoted};
use weft_units::ClassId;

/// A tenant as one of those that share tables.
#[derive(Debug)]
pub(super) struct Sharer {
    /// The tenant in whose file it is named; `None` for the operator's.
    pub(super) above: Option<usize>,
    /// Its name and its quotas, with their places in the file that names it.
    pub(super) name: Spanned<String>,
    pub(super) stated: BTreeMap<Quota, Spanned<u32>>,
}

/// Names that tenants whose names are in one file may add to what that file names.
#[derive(Debug)]
pub(super) struct SharedNames {
    pub(super) cgroups: Vec<String>,
    pub(super) ports: Vec<String>,
    /// The parts of the tenants.
    most_cgroups: Vec<u64>,
    most_ports: Vec<u64>,
}

impl SharedNames {
    /// The most cgroups and ports that the policy of an operator and all its tenants may name.
    pub(super) const WHOLE: (u64, u64) = (CGROUPS_MAX as u64, PORTS_MAX as u64);

    /// The part of the tenant that the file names at this place.
    pub(super) fn most(&self, at: usize) -> (u64, u64) {
        let of = |parts: &[u64]| parts.get(at).copied().unwrap_or_default();
        (of(&self.most_cgroups), of(&self.most_ports))
    }
}

impl Pass<'_> {
    /// Shares the names of cgroups and ports that `policy` leaves of `most` among its tenants.
    pub(super) fn share_names(
        &mut self,
        policy: &Policy,
        tenants: &[TenantDefinition],
        (cgroups, ports): (u64, u64),
    ) -> SharedNames {
        let stated = |quota| tenants.iter().map(|of| of.quotas.counts.get(&quota)).collect::<Vec<_>>();
        let mut share =
            |quota, most: u64, own: usize| self.share(quota, most.saturating_sub(own as u64), &stated(quota));
        SharedNames {
            most_cgroups: share(Quota::Cgroups, cgroups, policy.cgroups.len()),
            most_ports: share(Quota::Ports, ports, policy.ports.len()),
            cgroups: policy.cgroups.clone(),
            ports: policy.ports.clone(),
        }
    }

    /// The parts of `room` for tenants with these quotas. Quotas that are more than there is are an error.
    fn share(&mut self, quota: Quota, room: u64, stated: &[Option<&Spanned<u32>>]) -> Vec<u64> {
        let given: u64 = stated.iter().flatten().map(|of| u64::from(of.value)).sum();
        if let Some(last) = stated.iter().flatten().last().filter(|_| given > room) {
            let what = quota.as_str();
            let message =
                format!("the tenants' quotas of {what} are {given} together, and this file leaves {room}");
            self.find(Code::BadQuota, last.span, message, "state lower ones, or leave some out");
        }
        let others = stated.iter().filter(|of| of.is_none()).count() as u64;
        let equal = room.saturating_sub(given).checked_div(others).unwrap_or_default();
        stated.iter().map(|of| of.map_or(equal, |of| u64::from(of.value))).collect()
    }

    /// Compares the cgroups and ports that the file of tenant `number`, with those below it, adds to `names` with its part. Returns
    /// whether it is within.
    pub(super) fn check_names_added(
        &mut self,
        number: usize,
        below: &Policy,
        names: &SharedNames,
        (cgroups, ports): (u64, u64),
        base: Option<&str>,
    ) -> bool {
        let in_scope = |path: &str| base.map_or_else(|| path.to_owned(), |base| joined(base, path));
        let before = self.errors();
        let added = |all: &[String], known: &[String], in_scope: &dyn Fn(&str) -> String| {
            let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
            let mut added = BTreeSet::new();
            let new = |(_, name): &(usize, &String)| {
                let name = in_scope(name);
                !known.contains(name.as_str()) && added.insert(name)
            };
            all.iter().enumerate().filter(new).map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let root = below.nodes.first().map_or(Span::default(), |node| node.name.span);
        let place = |test: &dyn Fn(&Match) -> bool| {
            let tests = |condition: &Option<Condition>| condition.as_ref().is_some_and(|of| has(of, test));
            below.classes.iter().find(|class| tests(&class.condition)).map_or(root, |class| class.name.span)
        };
        let of_cgroups = added(&below.cgroups, &names.cgroups, &in_scope);
        let of_ports = added(&below.ports, &names.ports, &|name| name.to_owned());
        let beyond =
            |added: &[usize], most: u64| added.get(usize::try_from(most).unwrap_or(usize::MAX)).copied();
        let span = beyond(&of_cgroups, cgroups)
            .map_or(root, |at| place(&|row| row.cgroup.map(usize::from) == Some(at)));
        self.compare(number, Quota::Cgroups, cgroups, of_cgroups.len() as u64, span);
        let span = beyond(&of_ports, ports)
            .map_or(root, |at| place(&|row| row.port.map(usize::from) == Some(at + 1)));
        self.compare(number, Quota::Ports, ports, of_ports.len() as u64, span);
        self.errors() == before
    }

    /// Notes the use of a shared table by a tenant, and reports one above its part at its place in the tenant's file.
    fn compare(&mut self, number: usize, quota: Quota, most: u64, used: u64, place: Span) {
        let tenant = self.tenants.get_mut(number);
        let uses = tenant.into_iter().flat_map(|tenant| tenant.quotas.iter_mut());
        uses.filter(|of| of.quota == quota).for_each(|of| of.used = of.used.max(used));
        let Some(sharer) = self.sharers.get(number).filter(|_| used > most) else { return };
        let (name, what) = (quoted(&sharer.name.value), quota.as_str());
        let stated = sharer.stated.get(&quota);
        let part = if stated.is_some() { "" } else { "an equal share, " };
        let message =
            format!("the quota of {name} is {part}`{what} {most}`, and its file uses {used} {what}");
        let help = remedy(quota);
        let note = match stated {
            Some(stated) => format!("the quota is stated at {}", self.texts.place(stated.span)),
            None => {
                let place = self.texts.place(sharer.name.span);
                format!(
                    "all tenants share this table; `{what} N` in the braces at {place} gives this one another part"
                )
            }
        };
        self.diagnostics.push(SpannedDiagnostic::new(Code::OverQuota, place, message, help).note(note));
    }

    /// The roots of the tenants' files.
    pub(super) fn roots(&self, graph: &Graph, shape: &Shape) -> Vec<Root> {
        let at = |of: &Tenant| graph.names.get(&of.name).copied();
        let places: Vec<Option<usize>> = self.tenants.iter().map(at).collect();
        let counts = program::paths_above(graph, shape, &places);
        let span = |at: &Option<usize>| at.map_or(Span::default(), |at| graph.nodes[at].span);
        let spans = places.iter().map(span);
        spans.zip(counts).map(|(span, destinations)| Root { span, destinations }).collect()
    }

    /// The owners of the classes of a policy with tenants.
    pub(super) fn owners(&self, policy: &Policy) -> Owners {
        let above: Vec<Option<usize>> = self.sharers.iter().map(|of| of.above).collect();
        let numbers: BTreeMap<&str, usize> =
            self.tenants.iter().enumerate().map(|(number, of)| (of.name.as_str(), number)).collect();
        let tenant_of =
            |class: &str| class.rmatch_indices('.').find_map(|(dot, _)| numbers.get(&class[..dot]).copied());
        let in_tree: Vec<Option<usize>> =
            policy.classes.iter().map(|class| tenant_of(&class.name.value)).collect();
        let of_class = policy.classes.iter().zip(&in_tree).map(|(class, tenant)| match class.role {
            ClassRole::Described => *tenant,
            ClassRole::Rest => tenant.and_then(|tenant| above.get(tenant).copied().flatten()),
        });
        let of_class = of_class.collect();
        let direct = above.iter().filter(|of| of.is_none()).count();
        let most = |of: &Sharer| {
            let stated = of.stated.get(&Quota::Rows).map(|stated| stated.value as usize);
            stated.unwrap_or_else(|| ROWS_MAX.checked_div(direct).unwrap_or(ROWS_MAX)).min(ROWS_MAX)
        };
        let rows = self.sharers.iter().map(most).collect();
        Owners { of_class, in_tree, above, rows }
    }

    /// Compares what each tenant's classes use of the match tables with its part.
    pub(super) fn check_tables(
        &mut self,
        policy: &Policy,
        compiled: &CompiledPolicy,
        rows: &[ClassRow],
        owners: &Owners,
        roots: &[Root],
    ) {
        if self.sharers.is_empty() {
            return;
        }
        let of_file = uses(policy, compiled, rows, owners, roots);
        // What each file may use with those below it, and the masks of those above it; the operator's is first.
        let whole = [ROWS_MAX, ROWS_MAX, MASKS_MAX, ENTRIES_MAX].map(|most| most as u64);
        let mut most = vec![whole; self.sharers.len() + 1];
        let mut known = vec![BTreeSet::new(); most.len()];
        for above in core::iter::once(None).chain((0..self.sharers.len()).map(Some)) {
            let below: Vec<usize> =
                (0..self.sharers.len()).filter(|at| self.sharers[*at].above == above).collect();
            if below.is_empty() {
                continue;
            }
            let file = above.map_or(0, |number| number + 1);
            let mut own = sum(of_file.iter().filter(|part| part.owner == above));
            own.groups.retain(|group| !known[file].contains(group));
            let parts = self.share_tables(&below, most[file], own.amounts());
            let groups: BTreeSet<Group> = known[file].union(&own.groups).cloned().collect();
            for (at, part) in below.into_iter().zip(parts) {
                let inside = |part: &&Part| owners.is_within(part.owner, Some(at));
                self.check_part(at, part, of_file.iter().filter(inside), &groups);
                most[at + 1] = part;
                known[at + 1].clone_from(&groups);
            }
        }
    }

    /// The parts of rows, destinations, masks and entries for tenants whose names are in one file.
    fn share_tables(&mut self, tenants: &[usize], most: [u64; 4], own: [u64; 4]) -> Vec<[u64; 4]> {
        let mut parts = vec![[0; 4]; tenants.len()];
        for (table, quota) in TABLES.into_iter().enumerate() {
            let stated: Vec<Option<Spanned<u32>>> =
                tenants.iter().map(|at| self.sharers[*at].stated.get(&quota).cloned()).collect();
            let stated: Vec<Option<&Spanned<u32>>> = stated.iter().map(Option::as_ref).collect();
            let of_table = self.share(quota, most[table].saturating_sub(own[table]), &stated);
            parts.iter_mut().zip(of_table).for_each(|(part, of_table)| part[table] = of_table);
        }
        parts
    }

    /// Compares the use of a tenant, which is that of `parts` without the groups `known`, with its part.
    fn check_part<'p>(
        &mut self,
        number: usize,
        most: [u64; 4],
        parts: impl Iterator<Item = &'p Part>,
        known: &BTreeSet<Group>,
    ) {
        let (mut all, mut beyond) = (TableUse::default(), [None; 4]);
        for part in parts {
            all.add(&part.used);
            all.groups.retain(|group| !known.contains(group));
            for ((beyond, amount), most) in beyond.iter_mut().zip(all.amounts()).zip(most) {
                if amount > most {
                    beyond.get_or_insert(part.span);
                }
            }
        }
        for (table, quota) in TABLES.into_iter().enumerate() {
            let place = beyond[table].unwrap_or_default();
            self.compare(number, quota, most[table], all.amounts()[table], place);
        }
    }
}

/// The quotas of the amounts of a [`TableUse`].
const TABLES: [Quota; 4] = [Quota::Rows, Quota::Rows, Quota::Masks, Quota::Entries];

impl TableUse {
    /// Rows, destinations, masks, entries.
    fn amounts(&self) -> [u64; 4] {
        [self.rows, self.destinations, self.groups.len(), self.entries].map(|amount| amount as u64)
    }
}

/// The root of a tenant's file in the whole policy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Root {
    pub(super) span: Span,
    /// The rows of the destination table that a class has there by the limits above.
    pub(super) destinations: usize,
}

/// The use of the rows of one class that one file causes.
struct Part {
    owner: Option<usize>,
    /// The place of the class.
    span: Span,
    used: TableUse,
}

/// The parts of all classes.
fn uses(
    policy: &Policy,
    compiled: &CompiledPolicy,
    rows: &[ClassRow],
    owners: &Owners,
    above: &[Root],
) -> Vec<Part> {
    let span = |class: usize| policy.classes.get(class).map_or(Span::default(), |class| class.name.span);
    let owner = |class: usize| owners.of_class.get(class).copied().flatten();
    let count = policy.classes.len() + 1;
    let part = |class| Part { owner: owner(class), span: span(class), used: TableUse::default() };
    let mut parts: Vec<Part> = (0..count).map(part).collect();
    for row in rows {
        if let Some(part) = parts.get_mut(row.cause) {
            part.used.add_row(&row.row);
        }
    }
    for class in 0..count {
        let mut used = TableUse::default();
        used.add_destinations(compiled, ClassId::from_index(class));
        let tenant = owners.in_tree.get(class).copied().flatten();
        let more = tenant.filter(|_| tenant != owner(class)).and_then(|tenant| {
            let root = above.get(tenant)?;
            let more = used.destinations.checked_sub(root.destinations).filter(|more| *more > 0)?;
            Some(Part {
                owner: Some(tenant),
                span: root.span,
                used: TableUse { destinations: more, ..used.clone() },
            })
        });
        match more {
            // The limits of a tenant's file may divide what the file does not classify.
            Some(more) => parts.push(more),
            None => parts[class].used.add(&used),
        }
    }
    parts
}

fn sum<'p>(parts: impl Iterator<Item = &'p Part>) -> TableUse {
    parts.fold(TableUse::default(), |mut all, part| {
        all.add(&part.used);
        all
    })
}

fn remedy(quota: Quota) -> &'static str {
    match quota {
        Quota::Cgroups => "name a common parent of several cgroups, or ask the operator for more",
        Quota::Ports => "test the addresses of several ports together, or ask the operator for more",
        Quota::Masks => {
            "use fewer lengths of prefixes, or ranges of ports that begin and end at multiples of a power of two, or ask the operator \
             for more"
        }
        Quota::Entries => {
            "test fewer ranges of ports, of which one needs up to 30 entries, or ask the operator for more"
        }
        _ => "test fewer combinations, or ask the operator for more",
    }
}

/// Whether a row of a condition passes `test`.
fn has(condition: &Condition, test: &dyn Fn(&Match) -> bool) -> bool {
    match condition {
        Condition::Row(row) => test(row),
        Condition::And(parts) | Condition::Or(parts) => parts.iter().any(|part| has(part, test)),
        Condition::Not(inner) => has(inner, test),
    }
}
