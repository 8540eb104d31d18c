//! Usage of a NIC's tables, and whether another rule fits: one check for planning, for reading plans and for the tests.

use super::{Masks, Nic, Order, Table, TableId};
use crate::nic::configuration::{Action, Configuration, Rule};
use std::collections::BTreeMap;
use thiserror::Error;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::RxQueueId;

/// The reason why a table refuses a rule.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The table does not exist.
    #[error("the NIC has no filter table number {}", table.0)]
    NoTable {
        /// The number.
        table: TableId,
    },
    /// The table and its shared budget are full.
    #[error("table {table} is full: it holds {held} rules{}", if *.pooled { ", and the entries that it shares are used up" } else { "" })]
    Full {
        /// The table's name.
        table: String,
        /// Number of rules in it.
        held: u32,
        /// Whether it also has a shared budget.
        pooled: bool,
    },
    /// The table does not match a field.
    #[error("table {table} does not match {}", field.name())]
    Field {
        /// The table's name.
        table: String,
        /// The field.
        field: Field,
    },
    /// The table matches the field, but not under this mask.
    #[error("table {table} matches {} only {allowed}", field.name())]
    Mask {
        /// The table's name.
        table: String,
        /// The field.
        field: Field,
        /// The permitted masks.
        allowed: &'static str,
    },
    /// A field that each rule must test is missing.
    #[error("rules of table {table} must name {}", field.name())]
    Required {
        /// The table's name.
        table: String,
        /// The field.
        field: Field,
    },
    /// The rule's packets are outside of the table's restriction.
    #[error("table {table} holds only rules within: {within}")]
    Outside {
        /// The table's name.
        table: String,
        /// The permitted header matches.
        within: String,
    },
    /// The rule's mask differs from the table's single mask.
    #[error("table {table} has one mask for all of its rules, and its other rules have a different mask")]
    OneMask {
        /// The table's name.
        table: String,
    },
    /// The priority is out of range.
    #[error("table {table} has priorities {first} to {last}, not {given}")]
    Priority {
        /// The table's name.
        table: String,
        /// The lowest priority.
        first: u8,
        /// The highest priority.
        last: u8,
        /// The rule's priority.
        given: u8,
    },
    /// The action is not permitted.
    #[error("rules of table {table} cannot {action}")]
    Action {
        /// The table's name.
        table: String,
        /// The rule's action.
        action: &'static str,
    },
    /// The queue is out of range.
    #[error("rules of table {table} can name queues up to {}, not {}", last.0, given.0)]
    Queue {
        /// The table's name.
        table: String,
        /// The highest queue.
        last: RxQueueId,
        /// The rule's queue.
        given: RxQueueId,
    },
    /// The table has a rule for the same packets.
    #[error("table {table} already has a rule for these packets")]
    Twice {
        /// The table's name.
        table: String,
    },
    /// A table in use excludes this one.
    #[error("table {table} cannot be used beside table {other}: {reason}")]
    Excluded {
        /// The table's name.
        table: String,
        /// The table in use.
        other: String,
        /// The reason.
        reason: String,
    },
}

/// The rules held in a table.
#[derive(Clone, Debug, Default)]
struct Held {
    rules: u32,
    /// Masks in use, with their numbers of rules.
    masks: BTreeMap<HeaderMatch, u32>,
    /// The packets and the priority of each rule, to find duplicates.
    header_matches: BTreeMap<(HeaderMatch, u8), u32>,
}

/// The used entries of a NIC's tables. Each operation takes time logarithmic in the number of rules.
#[derive(Clone, Debug)]
pub struct Usage {
    tables: Vec<Held>,
}

impl Usage {
    /// Returns the usage of an empty configuration.
    pub fn new(nic: &Nic) -> Self {
        Self { tables: nic.tables.iter().map(|_| Held::default()).collect() }
    }

    /// Returns the usage of a configuration.
    ///
    /// # Errors
    /// The first rule that does not fit, by its index in [`Configuration::rules`], and the reason.
    pub fn of(nic: &Nic, configuration: &Configuration) -> Result<Self, (usize, Refusal)> {
        let mut usage = Self::new(nic);
        for (index, rule) in configuration.rules.iter().enumerate() {
            usage.add(nic, rule).map_err(|refusal| (index, refusal))?;
        }
        Ok(usage)
    }

    /// The number of rules in a table.
    pub fn rules(&self, table: TableId) -> u32 {
        self.tables.get(usize::from(table.0)).map_or(0, |held| held.rules)
    }

    /// The number of rules that a table could still take, judged by number alone.
    pub fn room(&self, nic: &Nic, id: TableId) -> u32 {
        let Some(table) = nic.table(id) else { return 0 };
        let own = table.capacity.saturating_sub(self.rules(id));
        own + self.pool_room(nic, table)
    }

    /// The number of free entries in the budget that a table shares.
    fn pool_room(&self, nic: &Nic, table: &Table) -> u32 {
        let Some(pool) = table.pool else { return 0 };
        let capacity = nic.pools.get(usize::from(pool.0)).map_or(0, |pool| pool.capacity);
        let used: u32 = nic
            .tables()
            .filter(|(_, other)| other.pool == Some(pool))
            .map(|(id, other)| self.rules(id).saturating_sub(other.capacity))
            .sum();
        capacity.saturating_sub(used)
    }

    /// Whether a rule can be added.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn admits(&self, nic: &Nic, rule: &Rule) -> Result<(), Refusal> {
        let table = nic.table(rule.table).ok_or(Refusal::NoTable { table: rule.table })?;
        table.takes(rule)?;
        let name = || table.name.clone();
        let held = &self.tables[usize::from(rule.table.0)];
        if self.room(nic, rule.table) == 0 {
            return Err(Refusal::Full { table: name(), held: held.rules, pooled: table.pool.is_some() });
        }
        if table.one_mask && held.masks.keys().any(|mask| *mask != rule.headers.mask_only()) {
            return Err(Refusal::OneMask { table: name() });
        }
        if held.header_matches.contains_key(&(rule.headers, rule.priority)) {
            return Err(Refusal::Twice { table: name() });
        }
        for exclusion in nic.exclusions.iter().filter(|exclusion| exclusion.tables.contains(&rule.table)) {
            let others = exclusion.tables.iter().filter(|other| **other != rule.table);
            if let Some(other) = others.copied().find(|other| self.rules(*other) > 0) {
                let other = nic.table(other).map_or_else(String::new, |other| other.name.clone());
                return Err(Refusal::Excluded { table: name(), other, reason: exclusion.reason.clone() });
            }
        }
        Ok(())
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn add(&mut self, nic: &Nic, rule: &Rule) -> Result<(), Refusal> {
        self.admits(nic, rule)?;
        let held = &mut self.tables[usize::from(rule.table.0)];
        held.rules += 1;
        *held.masks.entry(rule.headers.mask_only()).or_default() += 1;
        *held.header_matches.entry((rule.headers, rule.priority)).or_default() += 1;
        Ok(())
    }

    /// Removes a rule; returns whether it was present.
    pub fn remove(&mut self, rule: &Rule) -> bool {
        let Some(held) = self.tables.get_mut(usize::from(rule.table.0)) else { return false };
        if held.header_matches.remove(&(rule.headers, rule.priority)).is_none() {
            return false;
        }
        held.rules -= 1;
        let mask = rule.headers.mask_only();
        if let Some(count) = held.masks.get_mut(&mask) {
            *count -= 1;
            if *count == 0 {
                held.masks.remove(&mask);
            }
        }
        true
    }
}

impl Table {
    /// Whether the table could hold a rule if it were empty.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn takes(&self, rule: &Rule) -> Result<(), Refusal> {
        let table = || self.name.clone();
        for field in rule.headers.fields() {
            let support = self.fields.iter().find(|support| support.field == field);
            let Some(support) = support else { return Err(Refusal::Field { table: table(), field }) };
            if let Some(allowed) = support.masks.refuses(&rule.headers, field) {
                return Err(Refusal::Mask { table: table(), field, allowed });
            }
        }
        if let Some(missing) = self.fields.iter().find(|s| s.required && !rule.headers.tests(s.field)) {
            return Err(Refusal::Required { table: table(), field: missing.field });
        }
        if !self.within.is_empty() && !self.within.iter().any(|headers| headers.covers(&rule.headers)) {
            let within: Vec<String> = self.within.iter().map(ToString::to_string).collect();
            return Err(Refusal::Outside { table: table(), within: within.join(", or ") });
        }
        let (first, last) = self.priorities;
        if self.order == Order::Priority && !(first..=last).contains(&rule.priority) {
            return Err(Refusal::Priority { table: table(), first, last, given: rule.priority });
        }
        let action = match rule.action {
            Action::Queue(queue) if queue > self.last_queue => {
                return Err(Refusal::Queue { table: table(), last: self.last_queue, given: queue });
            }
            Action::Queue(_) => (self.actions.queue, "name a queue"),
            Action::Context(_) => (self.actions.context, "name an RSS context"),
            Action::Drop => (self.actions.drop, "drop"),
        };
        if action.0 { Ok(()) } else { Err(Refusal::Action { table: table(), action: action.1 }) }
    }
}

impl Masks {
    /// Returns the permitted masks if a header match's mask of a field is not among them.
    fn refuses(self, headers: &HeaderMatch, field: Field) -> Option<&'static str> {
        let (_, mask) = headers.get(field);
        let ipv4 = headers.ether_type() == Some(weft_packet::header_match::ETHER_TYPE_IPV4);
        let address = matches!(field, Field::SrcIp | Field::DstIp);
        let bits = if address && ipv4 { 32 } else { field.bits() };
        let aligned = mask << (128 - bits);
        match self {
            Self::Any => None,
            Self::Prefix => (aligned.leading_ones() != aligned.count_ones()).then_some("by leading bits"),
            Self::Exact => (aligned.count_ones() != bits).then_some("as a whole"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::{Actions, Exclusion, FieldSupport, Interface, Pool, PoolId};

    fn table(name: &str, capacity: u32) -> Table {
        let field = |field, masks| FieldSupport { field, masks, required: false };
        Table {
            name: name.to_owned(),
            capacity,
            pool: None,
            fields: vec![
                field(Field::EtherType, Masks::Exact),
                field(Field::DstIp, Masks::Prefix),
                field(Field::DstPort, Masks::Exact),
                field(Field::TcpFlags, Masks::Any),
            ],
            within: vec![],
            one_mask: false,
            priorities: (1, 7),
            order: Order::Priority,
            actions: Actions { queue: true, ..Actions::default() },
            last_queue: RxQueueId(3),
            signature_bits: None,
            interface: Interface::Ntuple,
        }
    }

    fn nic(tables: Vec<Table>) -> Nic {
        Nic {
            name: "test".into(),
            title: "test".into(),
            queues: 4,
            nodes: vec![],
            tables,
            pools: vec![],
            rss: None,
            exclusions: vec![],
            facts: vec![],
        }
    }

    fn rule(table: u16, headers: HeaderMatch) -> Rule {
        Rule { table: TableId(table), headers, priority: 1, action: Action::Queue(RxQueueId(1)) }
    }

    fn port(port: u16) -> HeaderMatch {
        HeaderMatch::ALL.exact(Field::DstPort, port.into())
    }

    #[test]
    fn every_reason_to_refuse() {
        let mut first = table("first", 1);
        first.one_mask = true;
        first.fields[2].required = true;
        let mut second = table("second", 2);
        second.within = vec![HeaderMatch::ALL.exact(Field::EtherType, 0x0800)];
        let mut nic = nic(vec![first, second]);
        nic.exclusions = vec![Exclusion { tables: vec![TableId(0), TableId(1)], reason: "one unit".into() }];
        let usage = Usage::new(&nic);
        let prefix = |text: &str| HeaderMatch::ALL.prefix(Field::DstIp, text.parse().expect("prefix"));
        for (rule, says) in [
            (rule(2, port(1)), "the NIC has no filter table number 2"),
            (rule(0, port(1).exact(Field::SrcPort, 1)), "table first does not match src-port"),
            (
                rule(0, HeaderMatch::ALL.with(Field::DstPort, 1, 3)),
                "table first matches dst-port only as a whole",
            ),
            (rule(0, HeaderMatch::ALL), "rules of table first must name dst-port"),
            (rule(1, port(1)), "table second holds only rules within: ether-type 0x800"),
            (Rule { priority: 0, ..rule(0, port(1)) }, "table first has priorities 1 to 7, not 0"),
            (Rule { action: Action::Drop, ..rule(0, port(1)) }, "rules of table first cannot drop"),
            (
                Rule { action: Action::Queue(RxQueueId(4)), ..rule(0, port(1)) },
                "rules of table first can name queues up to 3, not 4",
            ),
            (rule(1, prefix("10.0.0.0/8").with(Field::DstIp, 5, 5)), "only by leading bits"),
        ] {
            let refusal = usage.admits(&nic, &rule).expect_err(says).to_string();
            assert!(refusal.contains(says), "{refusal}");
        }
        let mut usage = Usage::new(&nic);
        usage.add(&nic, &rule(0, port(1))).expect("fits");
        let refused = |usage: &Usage, rule: &Rule| usage.admits(&nic, rule).expect_err("refused").to_string();
        assert_eq!(refused(&usage, &rule(0, port(2))), "table first is full: it holds 1 rules");
        assert_eq!(
            refused(&usage, &rule(1, prefix("10.0.0.0/8"))),
            "table second cannot be used beside table first: one unit"
        );
    }

    #[test]
    fn one_mask_until_the_last_rule_is_gone() {
        let mut one = table("one", 8);
        one.one_mask = true;
        let nic = nic(vec![one]);
        let mut usage = Usage::new(&nic);
        usage.add(&nic, &rule(0, port(1))).expect("fits");
        usage.add(&nic, &rule(0, port(2))).expect("the same mask");
        let other = rule(0, port(1).exact(Field::EtherType, 0x0800));
        assert!(matches!(usage.admits(&nic, &other), Err(Refusal::OneMask { .. })));
        assert!(matches!(usage.add(&nic, &rule(0, port(2))), Err(Refusal::Twice { .. })));
        assert!(usage.remove(&rule(0, port(1))) && !usage.remove(&rule(0, port(1))));
        assert!(usage.remove(&rule(0, port(2))));
        usage.add(&nic, &other).expect("no other mask is left");
    }

    #[test]
    fn tables_share_what_lies_beyond_their_own() {
        let mut nic = nic(vec![table("a", 1), table("b", 1)]);
        nic.pools = vec![Pool { name: "both".into(), capacity: 2 }];
        for table in &mut nic.tables {
            table.pool = Some(PoolId(0));
        }
        let mut usage = Usage::new(&nic);
        for i in 0..3 {
            usage.add(&nic, &rule(0, port(i))).expect("one of its own, two shared");
        }
        assert!(matches!(usage.add(&nic, &rule(0, port(3))), Err(Refusal::Full { pooled: true, .. })));
        usage.add(&nic, &rule(1, port(0))).expect("its own");
        assert_eq!(usage.room(&nic, TableId(1)), 0);
        assert!(usage.remove(&rule(0, port(0))));
        assert_eq!((usage.room(&nic, TableId(0)), usage.room(&nic, TableId(1))), (1, 1));
    }
}
