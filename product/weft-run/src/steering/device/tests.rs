//! Import, application and trial insertion on a device in memory.

use super::*;
use std::collections::BTreeMap;
use weft_host::ethtool::{ContextId, Location};
use weft_packet::{Field, HeaderMatch};
use weft_steer::change::changes;
use weft_steer::emit::Locations;
use weft_steer::nic::{Actions, FieldSupport, Interface, Masks, Order, Table, TableId};
use weft_steer::search::HashKey;
use weft_steer::{Action, Configuration, RssContext, Rule};
use weft_units::RxQueueId;

/// A device in memory. Like ixgbe's flow director it has one mask for all rules and accepts IPv4 only. It can also be
/// set to refuse after a number of changes.
struct Made {
    rules: BTreeMap<u32, RxRule>,
    capacity: u32,
    contexts: BTreeMap<u32, Rss>,
    one_mask: bool,
    next_context: u32,
    refuse_after: Option<usize>,
    /// Whether refusals are permanent, as for a killed process: deletions too.
    killed: bool,
}

impl Made {
    fn new() -> Self {
        let main = Rss { table: vec![RxQueueId(0); 4], key: vec![7; 40], ..Rss::default() };
        Self {
            rules: BTreeMap::new(),
            capacity: 8,
            contexts: BTreeMap::from([(0, main)]),
            one_mask: true,
            // A number that a plan would not choose.
            next_context: 5,
            refuse_after: None,
            killed: false,
        }
    }

    fn refused(&self, says: &str) -> EthtoolError {
        EthtoolError::Answer { device: self.name().to_owned(), action: says.to_owned() }
    }

    fn count(&mut self) -> Result<(), EthtoolError> {
        match &mut self.refuse_after {
            Some(0) => Err(self.refused("worn out")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// The fields that a rule tests, converted by the model's header matches.
fn mask(rule: &RxRule) -> HeaderMatch {
    let rule = crate::steering::ntuple::from_rx_rule(&nic(), rule).expect("one that was made here");
    rule.headers.mask_only()
}

impl Device for Made {
    fn name(&self) -> &str {
        "made0"
    }
    fn queues(&mut self) -> Result<u32, EthtoolError> {
        Ok(4)
    }
    fn rules(&mut self) -> Result<RuleTable, EthtoolError> {
        let rules = self.rules.values().copied().collect();
        Ok(RuleTable { capacity: Some(self.capacity), finds_places: false, rules })
    }
    fn insert(&mut self, rule: &RxRule) -> Result<u32, EthtoolError> {
        self.count()?;
        let Location::At(at) = rule.location else { return Err(self.refused("no place")) };
        let text = rule.to_string();
        if ["tcp6", "udp6", "flow-type ether"].iter().any(|kind| text.contains(kind)) {
            return Err(self.refused("no IPv6, no Ethernet"));
        }
        if self.one_mask && self.rules.values().any(|other| mask(other) != mask(rule)) {
            return Err(self.refused("Only one mask supported per port"));
        }
        if let ethtool::Action::Context { context, .. } = rule.action
            && !self.contexts.contains_key(&context.0)
        {
            return Err(EthtoolError::NoSuchContext { device: "made0".into(), context: context.0 });
        }
        assert!(at < self.capacity, "location {at}");
        self.rules.insert(at, *rule);
        Ok(at)
    }
    fn delete(&mut self, location: u32) -> Result<(), EthtoolError> {
        if self.killed && self.refuse_after == Some(0) {
            return Err(self.refused("killed"));
        }
        match self.rules.remove(&location) {
            Some(_) => Ok(()),
            None => Err(EthtoolError::NoSuchRule { device: "made0".into(), location }),
        }
    }
    fn rss(&mut self, context: ContextId) -> Result<Rss, EthtoolError> {
        self.contexts.get(&context.0).cloned().ok_or_else(|| self.refused("no context"))
    }
    fn contexts(&mut self) -> Result<Vec<(ContextId, Rss)>, EthtoolError> {
        Ok(self.contexts.iter().map(|(id, rss)| (ContextId(*id), rss.clone())).collect())
    }
    fn set_rss(&mut self, context: ContextId, change: &RssChange) -> Result<(), EthtoolError> {
        self.count()?;
        let rss = self.contexts.get_mut(&context.0).expect("a context that is there");
        rss.table = change.table.clone().unwrap_or_else(|| rss.table.clone());
        rss.key = change.key.clone().unwrap_or_else(|| rss.key.clone());
        Ok(())
    }
    fn create_context(&mut self, change: &RssChange) -> Result<ContextId, EthtoolError> {
        self.count()?;
        let table = change.table.clone().expect("a table");
        self.contexts.insert(self.next_context, Rss { table, ..Rss::default() });
        self.next_context += 1;
        Ok(ContextId(self.next_context - 1))
    }
    fn delete_context(&mut self, context: ContextId) -> Result<(), EthtoolError> {
        let used = self.rules.values().any(
            |rule| matches!(rule.action, ethtool::Action::Context { context: other, .. } if other == context),
        );
        if used {
            return Err(EthtoolError::ContextInUse { device: "made0".into(), context: context.0 });
        }
        self.contexts.remove(&context.0);
        Ok(())
    }
    fn hash_fields(&mut self, flow: HashFlow) -> Result<HashFields, EthtoolError> {
        match flow {
            HashFlow::Tcp4 | HashFlow::Tcp6 | HashFlow::Udp6 => Ok(HashFields::FOUR_TUPLE),
            HashFlow::Udp4 => Ok(HashFields(HashFields::SOURCE.0 | HashFields::DESTINATION.0)),
            _ => Err(self.refused("not hashed")),
        }
    }
}

fn nic() -> weft_steer::Nic {
    let fields = Field::ALL
        .into_iter()
        .filter(|field| *field != Field::TcpFlags)
        .map(|field| FieldSupport { field, masks: Masks::Any, required: false })
        .collect();
    weft_steer::Nic {
        name: "made".into(),
        title: "made".into(),
        queues: 4,
        nodes: vec![],
        tables: vec![Table {
            name: "rules".into(),
            capacity: 8,
            pool: None,
            fields,
            within: vec![],
            one_mask: false,
            priorities: (0, 1),
            order: Order::Location,
            actions: Actions { queue: true, context: true, drop: true },
            last_queue: RxQueueId(3),
            signature_bits: None,
            interface: Interface::Ntuple,
        }],
        pools: vec![],
        rss: None,
        exclusions: vec![],
        facts: vec![],
    }
}

fn rule(port: u16, priority: u8, action: Action) -> Rule {
    let headers = HeaderMatch::ALL
        .exact(Field::EtherType, 0x0800)
        .exact(Field::IpProtocol, 17)
        .exact(Field::DstPort, port.into());
    Rule { table: TableId(0), headers, priority, action }
}

fn wanted() -> Configuration {
    let context = |id, queue| RssContext {
        id: weft_steer::ContextId(id),
        indirection: vec![RxQueueId(queue), RxQueueId(0), RxQueueId(queue), RxQueueId(0)],
    };
    Configuration {
        rules: vec![
            rule(1, 0, Action::Queue(RxQueueId(3))),
            rule(2, 1, Action::Context(weft_steer::ContextId(1))),
            rule(3, 0, Action::Drop),
        ],
        contexts: vec![context(0, 1), context(1, 2)],
        key: weft_packet::RssKey(vec![7; 40]),
    }
}

#[test]
fn what_is_applied_is_read_back() {
    let (nic, mut device) = (nic(), Made::new());
    let before = import(&nic, &mut device).expect("read");
    assert_eq!(before.configuration.rules, []);
    let plan = changes(&nic, &before.configuration, &wanted()).expect("fits");
    let applied = apply_plan(&nic, &mut device, &before.configuration, before.locations, &plan, |_, _| {})
        .expect("taken");
    assert_eq!(applied.made, 5, "a context, three rules, the main table");
    assert_eq!(applied.contexts[&weft_steer::ContextId(1)], ContextId(5), "the device's own number");
    let after = import(&nic, &mut device).expect("read");
    assert_eq!(after.foreign, []);
    let mut rules = after.configuration.rules.clone();
    rules.sort();
    let mut expected = wanted().rules;
    expected[1].action = Action::Context(weft_steer::ContextId(5));
    expected.sort();
    assert_eq!(rules, expected, "priorities too, by their locations");
    assert_eq!(after.configuration.contexts[0], wanted().contexts[0]);
    // And removed again.
    let plan = changes(&nic, &after.configuration, &before.configuration).expect("fits");
    apply_plan(&nic, &mut device, &after.configuration, after.locations, &plan, |_, _| {}).expect("taken");
    assert_eq!(import(&nic, &mut device).expect("read").configuration, before.configuration);
}

#[test]
fn what_was_done_is_taken_back_when_a_change_is_refused() {
    let nic = nic();
    for after in 0..5 {
        let mut device = Made::new();
        // Enough for the undo: only additions are counted, and the undo adds only the main table.
        device.refuse_after = Some(after);
        let before = import(&nic, &mut device).expect("read");
        let plan = changes(&nic, &before.configuration, &wanted()).expect("fits");
        let error = apply_plan(&nic, &mut device, &before.configuration, before.locations, &plan, |_, _| {})
            .expect_err("refused");
        let text = error.to_string();
        assert!(text.starts_with(&format!("change {} of 5 was refused", after + 1)), "{text}");
        assert!(text.contains("worn out"), "{text}");
        device.refuse_after = None;
        assert_eq!(import(&nic, &mut device).expect("read").configuration, before.configuration, "{text}");
    }
}

#[test]
fn a_way_back_that_is_barred_is_told() {
    let (nic, mut device) = (nic(), Made::new());
    let from = wanted();
    let plan = changes(&nic, &Configuration::default(), &from).expect("fits");
    apply_plan(&nic, &mut device, &Configuration::default(), Locations::default(), &plan, |_, _| {})
        .expect("taken");
    let held = import(&nic, &mut device).expect("read");
    // One rule is removed to make place for another with the same packets, which is refused, as is the reinsertion.
    let mut to = held.configuration.clone();
    to.rules[0].action = Action::Queue(RxQueueId(1));
    let plan = changes(&nic, &held.configuration, &to).expect("fits");
    device.refuse_after = Some(0);
    let error = apply_plan(&nic, &mut device, &held.configuration, held.locations, &plan, |_, _| {})
        .expect_err("refused");
    assert!(error.to_string().contains("repair it by hand"), "{error}");
}

#[test]
fn what_a_driver_takes_is_learnt() {
    let (nic, mut device) = (nic(), Made::new());
    let report = probe(&nic, &mut device);
    assert!(device.rules.is_empty() && report.left.is_empty(), "what was tried is gone");
    let wrong: Vec<&str> = report.probes.iter().filter(|p| !p.agrees()).map(|p| p.what.as_str()).collect();
    assert_eq!(
        wrong,
        [
            "TCP over IPv6, five-tuple",
            "UDP over IPv6, five-tuple",
            "an Ethernet type",
            "a destination MAC address",
            "two rules with different masks"
        ]
    );
    let learnt = refine(&nic, &report);
    assert!(learnt.tables[0].one_mask && !nic.tables[0].one_mask);
    let again = probe(&learnt, &mut device);
    assert!(again.probes.iter().all(Probe::agrees), "{:?}", again.probes);
}

#[test]
fn rules_that_no_model_knows_are_left_alone_and_told() {
    let (nic, mut device) = (nic(), Made::new());
    let mut foreign = crate::steering::ntuple::to_rx_rule(&rule(9, 0, Action::Drop), 7).expect("a rule");
    foreign.action = ethtool::Action::Wake;
    device.rules.insert(7, foreign);
    let imported = import(&nic, &mut device).expect("read");
    assert_eq!(imported.configuration.rules, []);
    assert_eq!(imported.foreign.len(), 1);
    assert_eq!((imported.foreign[0].0, imported.foreign[0].2.as_str()), (7, "it wakes the machine"));
}

#[test]
fn a_model_is_fitted_to_what_the_device_hashes() {
    let (mut nic, mut device) = (nic(), Made::new());
    nic.rss = Some(weft_steer::nic::RssModel {
        indirection: 128,
        queues: 4,
        contexts: 0,
        key_bytes: 40,
        key_settable: true,
        indirection_settable: true,
        hashed_with_ports: vec![6, 17, 132],
    });
    let imported = import(&nic, &mut device).expect("read");
    assert_eq!(imported.key, HashKey::Known(weft_packet::RssKey(vec![7; 40])));
    let fitted = imported.fitted(&nic).rss.expect("RSS");
    assert_eq!((fitted.indirection, fitted.hashed_with_ports), (4, vec![6]), "UDP's ports only in IPv6");
    let main = device.contexts.get_mut(&0).expect("the main context");
    main.function = Some(ethtool::HashFunction::Xor);
    let imported = import(&nic, &mut device).expect("read");
    assert_eq!(imported.key, HashKey::Unknown);
    assert!(imported.notes[0].contains("not known"), "{:?}", imported.notes);
}

/// Rules of others: one that drops, one that no model has, and an RSS context with a rule of theirs.
fn with_others() -> (Made, Vec<RxRule>) {
    let mut device = Made::new();
    device.one_mask = false;
    let main = device.contexts[&0].clone();
    device.contexts.insert(1, Rss { table: vec![RxQueueId(3); 4], ..main });
    let rx = |rule: &Rule, at| crate::steering::ntuple::to_rx_rule(rule, at).expect("a rule");
    let mut wakes = rx(&rule(9, 1, Action::Drop), 0);
    wakes.action = ethtool::Action::Wake;
    let theirs = vec![
        wakes,
        rx(&rule(11, 0, Action::Drop), 4),
        rx(&rule(12, 0, Action::Context(weft_steer::ContextId(1))), 5),
    ];
    for rule in &theirs {
        let Location::At(at) = rule.location else { unreachable!("they have one") };
        device.rules.insert(at, *rule);
    }
    (device, theirs)
}

fn wanted_flows(ports: &[u16]) -> WantedSteering {
    let rows: String = ports.iter().map(|port| format!("udp,192.0.2.1,9,198.51.100.1,{port},a\n")).collect();
    let text = format!("proto,src,sport,dst,dport,class\n{rows}");
    WantedSteering {
        policy: crate::steering::input::policy("static { a: 2..3 }").expect("a policy"),
        flows: weft_steer::flows_csv::read(text.as_bytes(), "flows").expect("flows"),
        options: weft_steer::search::Options::default(),
    }
}

struct Records(std::path::PathBuf);

impl Records {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(weft_host::testing::unique(name)))
    }

    fn open(&self) -> record::OpenRecord {
        record::OpenRecord::open(&self.0, 1, 2, "made0").expect("a record")
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bring(device: &mut Made, records: &Records, ports: &[u16]) -> Result<usize, BringError> {
    let mut kept = records.open();
    let prepared = prepare(&nic(), device, &mut kept, wanted_flows(ports))?;
    prepared.apply(device, &mut kept, |_, _| {})
}

/// Checks that the rules of others are unchanged. Returns the number of our rules.
#[track_caller]
fn theirs_stay(device: &Made, theirs: &[RxRule]) -> usize {
    for rule in theirs {
        let Location::At(at) = rule.location else { unreachable!("they have one") };
        assert_eq!(device.rules.get(&at), Some(rule), "location {at}");
    }
    assert_eq!(device.contexts[&1].table, vec![RxQueueId(3); 4]);
    device.rules.len() - theirs.len()
}

#[test]
fn rules_and_contexts_of_others_stay() {
    let records = Records::new("steer-others");
    let (mut device, theirs) = with_others();
    let before = device.contexts.clone();
    bring(&mut device, &records, &[1, 2]).expect("applied");
    assert_eq!(theirs_stay(&device, &theirs), 2);
    // Our own rules are replaced.
    bring(&mut device, &records, &[2, 3]).expect("applied");
    assert_eq!(theirs_stay(&device, &theirs), 2);
    assert_eq!(bring(&mut device, &records, &[2, 3]).expect("in force"), 0);
    // Another process replaces one of our rules: the new rule belongs to it.
    let (at, _) = device.rules.iter().find(|(_, rule)| !theirs.contains(rule)).expect("one of ours");
    let another = crate::steering::ntuple::to_rx_rule(&rule(77, 1, Action::Drop), *at).expect("a rule");
    device.rules.insert(*at, another);
    let theirs = [theirs, vec![another]].concat();
    undo(&mut device, &mut records.open()).expect("undone");
    assert_eq!(theirs_stay(&device, &theirs), 0);
    assert_eq!(device.contexts, before);
    assert!(records.open().is_empty());
}

#[test]
fn what_a_killed_run_set_is_taken_back() {
    // After each change, as if the process had ended there: nothing is undone, and the record has the state of the
    // file.
    for after in 0..6 {
        let records = Records::new("steer-killed");
        let (mut device, theirs) = with_others();
        let before = (device.rules.clone(), device.contexts.clone());
        {
            let mut kept = records.open();
            let prepared = prepare(&nic(), &mut device, &mut kept, wanted_flows(&[1, 2, 3])).expect("a plan");
            device.refuse_after = Some(after);
            device.killed = true;
            let _ = prepared.apply(&mut device, &mut kept, |_, _| {});
        }
        (device.refuse_after, device.killed) = (None, false);
        theirs_stay(&device, &theirs);
        undo(&mut device, &mut records.open()).expect("undone");
        assert_eq!((device.rules.clone(), device.contexts.clone()), before, "after {after}");
        assert!(records.open().is_empty());
    }
}

#[test]
fn a_table_that_somebody_else_set_since_stays() {
    let records = Records::new("steer-table");
    let (mut device, theirs) = with_others();
    let mut kept = records.open();
    let change = RssChange::table(vec![RxQueueId(2), RxQueueId(2), RxQueueId(3), RxQueueId(3)]);
    record::Recorded { device: &mut device, kept: &mut kept }.set_rss(ContextId::MAIN, &change).expect("set");
    drop(kept);
    device.contexts.get_mut(&0).expect("main").table = vec![RxQueueId(1); 4];
    let said = undo(&mut device, &mut records.open()).expect("undone");
    assert_eq!(said, ["the main table was set by another process since and is kept"]);
    assert_eq!(device.contexts[&0].table, vec![RxQueueId(1); 4]);
    theirs_stay(&device, &theirs);
}

#[path = "../../../../weft-facts/tests/suite/schema.rs"]
mod schema;

#[test]
fn what_a_probe_and_an_import_write_is_what_their_schemas_say() {
    let (mut device, _) = with_others();
    let report = probe(&nic(), &mut Made::new()).report(&nic(), "made0");
    let import = import(&nic(), &mut device).expect("read").report(&nic(), "made0");
    assert!(!report.probes.is_empty() && !import.foreign.is_empty() && !import.contexts.is_empty());
    let documents = [
        ("weft-steer-probe", serde_json::to_value(report).expect("JSON")),
        ("weft-steer-import", serde_json::to_value(import).expect("JSON")),
    ];
    for (name, document) in documents {
        let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect(&path);
        let schema: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(schema::errors(&schema, &document), Vec::<String>::new(), "{name}");
    }
}
