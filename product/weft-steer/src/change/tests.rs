//! Plans of changes between random configurations of a small NIC.

use super::*;
use crate::nic::{Actions, Exclusion, FieldSupport, Interface, Masks, Order, Pool, PoolId, Table, TableId};
use proptest::prelude::*;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::RxQueueId;

fn table(name: &str, capacity: u32, order: Order) -> Table {
    let field = |field| FieldSupport { field, masks: Masks::Any, required: false };
    Table {
        name: name.to_owned(),
        capacity,
        pool: None,
        fields: vec![field(Field::DstPort), field(Field::TcpFlags)],
        within: vec![],
        one_mask: false,
        priorities: (0, 1),
        order,
        actions: Actions { queue: true, context: true, drop: true },
        last_queue: RxQueueId(7),
        signature_bits: None,
        interface: Interface::Ntuple,
    }
}

/// A NIC with a small priority table, two tables that exclude each other, one of them with one mask, and two entries shared by
/// the first and the last.
fn nic() -> Nic {
    let mut tables = vec![
        table("priority", 3, Order::Priority),
        table("masked", 4, Order::Disjoint),
        table("newest", 3, Order::Newest),
    ];
    tables[1].one_mask = true;
    tables[0].pool = Some(PoolId(0));
    tables[2].pool = Some(PoolId(0));
    Nic {
        name: "test".into(),
        title: "test".into(),
        queues: 8,
        nodes: vec![],
        tables,
        pools: vec![Pool { name: "shared".into(), capacity: 2 }],
        rss: None,
        exclusions: vec![Exclusion { tables: vec![TableId(1), TableId(2)], reason: "one memory".into() }],
        facts: vec![],
    }
}

fn some_rule() -> impl Strategy<Value = Rule> {
    let headers = (0u128..8, prop_oneof![Just(7u128), Just(3), Just(0)], 0u128..2, 0u128..2);
    (0u16..3, headers, 0u8..2, 0u32..4).prop_map(
        |(table, (port, mask, flags, flags_mask), priority, action)| Rule {
            table: TableId(table),
            headers: HeaderMatch::ALL.with(Field::DstPort, port, mask).with(
                Field::TcpFlags,
                flags,
                flags_mask,
            ),
            priority,
            action: match action {
                0 => Action::Drop,
                1 => Action::Context(ContextId(1)),
                queue => Action::Queue(RxQueueId(queue)),
            },
        },
    )
}

/// A configuration of random rules that fit, and contexts.
fn some_configuration() -> impl Strategy<Value = Configuration> {
    let rules = proptest::collection::vec(some_rule(), 0..14);
    (rules, 0u32..4, any::<bool>(), 0u8..2).prop_map(|(rules, queue, second, key)| {
        let nic = nic();
        let mut usage = Usage::new(&nic);
        let rules: Vec<Rule> = rules.into_iter().filter(|rule| usage.add(&nic, rule).is_ok()).collect();
        let names = rules.iter().any(|rule| rule.action == Action::Context(ContextId(1)));
        let context = |id, queue| RssContext { id: ContextId(id), indirection: vec![RxQueueId(queue); 4] };
        let contexts = [Some(context(0, queue)), (names || second).then(|| context(1, queue + 1))];
        Configuration {
            rules,
            contexts: contexts.into_iter().flatten().collect(),
            key: RssKey(vec![key; 40]),
        }
    })
}

type Meaning = (BTreeSet<Rule>, BTreeSet<(Rule, Rule)>, Vec<RssContext>, RssKey);

/// The observable part of a configuration: the rules, and the order of overlapping rules of equal priority in a table whose
/// precedence depends on age.
fn meaning(configuration: &Configuration) -> Meaning {
    let mut pairs = BTreeSet::new();
    for (index, first) in configuration.rules.iter().enumerate() {
        for second in &configuration.rules[index + 1..] {
            if first.table == second.table
                && first.table != TableId(1)
                && first.priority == second.priority
                && !first.headers.is_disjoint(&second.headers)
            {
                pairs.insert((*first, *second));
            }
        }
    }
    let rules = configuration.rules.iter().copied().collect();
    (rules, pairs, configuration.contexts.clone(), configuration.key.clone())
}

/// Whether every context named by a rule exists.
fn contexts_are_there(configuration: &Configuration) -> bool {
    configuration.rules.iter().all(|rule| match rule.action {
        Action::Context(context) => configuration.context(context).is_some(),
        _ => true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn each_step_can_be_made_and_the_end_is_what_was_wanted(
        from in some_configuration(),
        to in some_configuration(),
        stop in 0usize..40,
    ) {
        let nic = nic();
        let plan = changes(&nic, &from, &to).expect("both fit");
        let mut state = from.clone();
        let mut touched = BTreeSet::new();
        for change in &plan.changes {
            apply(&mut state, change);
            prop_assert!(Usage::of(&nic, &state).is_ok(), "after {}: {:?}", change, Usage::of(&nic, &state));
            prop_assert!(contexts_are_there(&state), "after {change}");
            if let Change::Add(rule) = change {
                prop_assert!(touched.insert(*rule), "added twice: {rule}");
            }
        }
        prop_assert_eq!(meaning(&state), meaning(&to));
        // Only rules that differ are changed, unless their order has to change.
        let (old, new) = (meaning(&from), meaning(&to));
        let rules = plan.changes.iter().filter(|c| matches!(c, Change::Add(_) | Change::Remove(_))).count();
        if new.1.is_empty() {
            prop_assert_eq!(rules, old.0.symmetric_difference(&new.0).count());
        }
        if old == new {
            prop_assert!(plan.changes.is_empty());
        }
        // A rollback exists from every prefix.
        let made = stop.min(plan.changes.len());
        let mut half = from.clone();
        for change in &plan.changes[..made] {
            apply(&mut half, change);
        }
        for change in &plan.rollback(&nic, &from, made).changes {
            apply(&mut half, change);
            prop_assert!(Usage::of(&nic, &half).is_ok() && contexts_are_there(&half));
        }
        prop_assert_eq!(meaning(&half), meaning(&from));
    }
}

fn rule(table: u16, port: u128, queue: u32) -> Rule {
    Rule {
        table: TableId(table),
        headers: HeaderMatch::ALL.exact(Field::DstPort, port),
        priority: 0,
        action: Action::Queue(RxQueueId(queue)),
    }
}

fn of(rules: &[Rule]) -> Configuration {
    Configuration { rules: rules.to_vec(), ..Configuration::default() }
}

#[test]
fn rules_are_made_before_others_go_while_there_is_room() {
    let (old, new) = (rule(1, 1, 1), rule(1, 2, 1));
    let plan = changes(&nic(), &of(&[old]), &of(&[new])).expect("fits");
    assert_eq!(plan.changes, [Change::Add(new), Change::Remove(old)]);
    let full: Vec<Rule> = (0..4).map(|port| rule(1, port, 1)).collect();
    let mut next = full.clone();
    next[3] = rule(1, 9, 1);
    let plan = changes(&nic(), &of(&full), &of(&next)).expect("fits");
    assert_eq!(plan.changes, [Change::Remove(full[3]), Change::Add(next[3])], "a full table has none");
}

#[test]
fn what_cannot_be_is_refused_with_the_rule() {
    let five: Vec<Rule> = (0..5).map(|port| rule(1, port, 1)).collect();
    let error = changes(&nic(), &of(&[]), &of(&five)).expect_err("too many").to_string();
    assert_eq!(error, "rule 5 of the new configuration does not fit: table masked is full: it holds 4 rules");
    let lost = Rule { action: Action::Context(ContextId(3)), ..rule(1, 1, 1) };
    let error = changes(&nic(), &of(&[]), &of(&[lost])).expect_err("no context").to_string();
    assert_eq!(error, "rule 1 of the new configuration names RSS context 3, which it does not have");
}

#[test]
fn thousands_of_rules_take_no_quadratic_time() {
    let mut nic = nic();
    nic.tables[0].capacity = 200_000;
    let half =
        |from: u128| -> Vec<Rule> { (from..from + 40_000).map(|port| rule(0, port % 65_536, 1)).collect() };
    let plan = changes(&nic, &of(&half(0)), &of(&half(20_000))).expect("fits");
    assert_eq!(plan.changes.len(), 40_000);
}
