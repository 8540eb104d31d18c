//! The match tables of a policy, and their replacement while packets are classified by them. [`weft_titan::match_table`] has
//! their form.

use super::CgroupEntry;
use crate::plan::RingPlan;
use weft_host::bpf::BpfError;
use weft_host::clock;
use weft_packet::Attribute;
use weft_policy::CompiledPolicy;
use weft_titan::match_table::{CGROUPS, CgroupId, Destination, Prepared, Row, Tables, Tested, tested};
pub use weft_titan::match_table::{MatchTables, PrepareError, TableError};
use weft_units::ClassId;

/// Checks that the policy's tables fit, and that this kernel has what they test.
///
/// # Errors
/// When its rows need too many groups or entries, or it names too many cgroups, or classes of net_cls on a kernel without them.
pub fn check(policy: &CompiledPolicy) -> Result<(), TableError> {
    if policy.cgroups.len() > CGROUPS {
        return Err(TableError::Cgroups { given: policy.cgroups.len() });
    }
    if policy.tests(Attribute::ClassId) && !weft_host::net_cls::has_net_cls() {
        return Err(TableError::NoNetCls);
    }
    build(policy, Tested::default()).map(drop)
}

/// The tables of the plan's policy.
///
/// # Errors
/// As [`check`].
pub fn tables(plan: &RingPlan) -> Result<Tables, TableError> {
    build_tables(plan.whole(), plan.rings.iter().all(|ring| ring.class.is_some()))
}

/// The tables of `policy`. `own_rings`: no ring is shared by classes.
///
/// # Errors
/// As [`check`].
pub fn build_tables(policy: &CompiledPolicy, own_rings: bool) -> Result<Tables, TableError> {
    let Tested { ports, .. } = tested(policy.rules.iter().map(|rule| &rule.matcher));
    build(policy, Tested { ports: ports && own_rings, cgroups: !policy.cgroups.is_empty() })
}

fn build(policy: &CompiledPolicy, tested: Tested) -> Result<Tables, TableError> {
    // The lane of packets to which no other row of the class applies.
    let rest = |class: usize| policy.destinations.get(class).and_then(|rows| rows.last());
    let distinguishes = |class: usize| policy.destinations.get(class).is_some_and(|rows| rows.len() > 1);
    let rows = policy.rules.iter().map(|rule| {
        let class = rule.class.index();
        let given = rest(class).map_or(0, |row| row.lane.0 as u16);
        Row { matcher: &rule.matcher, given, class: distinguishes(class).then_some(class as u16) }
    });
    let of = |class: usize, port: Option<u16>, row: &weft_policy::Destination| Destination {
        class: class as u16,
        port,
        to: row.to,
        given: row.lane.0 as u16,
    };
    let destinations = policy.destinations.iter().enumerate().flat_map(|(class, rows)| {
        let id = ClassId::from_index(class);
        let own = policy.ports_of(id).into_iter().flat_map(move |port| {
            policy.destinations_at(id, port).into_iter().map(move |row| of(class, Some(port), &row))
        });
        // The row of all other packets is the lane of the classification table.
        let common = rows.iter().filter(|row| row.port.is_none() && row.to.is_some());
        own.chain(common.map(move |row| of(class, None, row)))
    });
    Tables::build(rows, destinations, tested)
}

/// Tables that are written and not in use. Dropping them leaves nothing.
#[derive(Debug)]
#[must_use = "tables that are not committed are removed"]
pub struct PreparedTables<'a>(pub(super) Prepared<'a>);

impl PreparedTables<'_> {
    /// Puts the tables in use by one store: no packet sees parts of two tables, and each flow is classified again with its next
    /// packet. Returns when the former tables are removed, after an RCU grace period.
    ///
    /// # Errors
    /// When the kernel refuses to remove the former tables. The new ones are then in use.
    pub fn commit(self) -> Result<(), BpfError> {
        self.0.commit(clock::now())
    }
}

pub(super) fn ids(cgroups: &[Option<CgroupEntry>]) -> Vec<Option<CgroupId>> {
    cgroups.iter().map(|cgroup| cgroup.map(CgroupEntry::into)).collect()
}

impl From<CgroupEntry> for CgroupId {
    fn from(CgroupEntry { id, level }: CgroupEntry) -> Self {
        Self { id, level }
    }
}
