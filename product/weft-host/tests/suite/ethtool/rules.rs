//! Rules of the emulated NIC.

use rustix::io::Errno;
use weft_host::ethtool::{
    Action, ContextId, EthtoolError, Flow, L4, Location, Masked, Ports, RssChange, RxRule,
};
use weft_units::RxQueueId;

use crate::ethtool::fake::{Age, Fake};

fn to_port(port: u16, queue: u32) -> RxRule {
    let flow = Flow::Ports4(Ports { destination_port: Masked::exact(port), ..Ports::any(L4::Tcp) });
    RxRule::new(flow, Action::Queue(RxQueueId(queue)))
}

#[test]
fn rules_are_inserted_read_and_deleted() {
    let mut nic = Fake::new(Age::New).nic();
    assert_eq!(nic.insert_rule(&to_port(80, 1).at(2)).expect("inserted"), 2);
    assert_eq!(nic.insert_rule(&to_port(443, 2).at(0)).expect("inserted"), 0);
    let table = nic.rules().expect("rules");
    assert_eq!((table.capacity, table.finds_places), (Some(4), false));
    assert_eq!(table.rules, [to_port(443, 2).at(0), to_port(80, 1).at(2)]);
    nic.insert_rule(&to_port(81, 3).at(2)).expect("replaced");
    assert_eq!(nic.rule(2).expect("rule"), to_port(81, 3).at(2));
    nic.delete_rule(2).expect("deleted");
    assert!(matches!(nic.rule(2), Err(EthtoolError::NoSuchRule { location: 2, .. })));
    let error = nic.delete_rule(2).expect_err("not there").to_string();
    assert_eq!(
        error,
        "eth7: there is no receive rule at location 2; `ethtool -n eth7` shows those that exist"
    );
}

#[test]
fn places_are_found_as_ethtool_finds_them_until_the_table_is_full() {
    for finds_places in [false, true] {
        let mut nic = Fake { finds_places, ..Fake::new(Age::New) }.nic();
        let mut places = Vec::new();
        for location in [Location::Any, Location::First, Location::Last, Location::Any] {
            let rule = RxRule { location, ..to_port(80 + places.len() as u16, 0) };
            places.push(nic.insert_rule(&rule).expect("inserted"));
        }
        // The emulated driver itself takes the lowest first.
        assert_eq!(places, if finds_places { [0, 1, 2, 3] } else { [3, 0, 2, 1] });
        let full = nic.insert_rule(&to_port(99, 0)).expect_err("full").to_string();
        assert_eq!(
            full,
            "eth7: the table of receive rules is full (No space left on device): 4 of 4 are in use; delete some"
        );
        let full = nic.insert_rule(&to_port(99, 0).at(4)).expect_err("full");
        assert!(matches!(full, EthtoolError::Full { rules: 4, capacity: Some(4), .. }), "{full}");
    }
}

#[test]
fn a_nic_with_one_mask_refuses_a_second() {
    let mut nic = Fake { one_mask: true, ..Fake::new(Age::New) }.nic();
    nic.insert_rule(&to_port(80, 1).at(0)).expect("the first mask");
    nic.insert_rule(&to_port(81, 1).at(1)).expect("the same mask");
    let flow = Flow::Ports4(Ports { source_port: Masked::exact(80), ..Ports::any(L4::Tcp) });
    let error =
        nic.insert_rule(&RxRule::new(flow, Action::Drop).at(2)).expect_err("another mask").to_string();
    assert_eq!(
        error,
        "eth7: insert the receive rule \"flow-type tcp4 src-port 80 action -1 loc 2\": Invalid argument; the driver \
         fakenic does not take these fields, masks or queue beside the rules that are there (many NICs compare the same \
         fields and bits in all rules); compare with: ethtool -n eth7"
    );
    assert_eq!(nic.rules().expect("rules").rules.len(), 2);
}

#[test]
fn rules_that_are_off_are_told_from_those_that_cannot_be() {
    for age in [Age::Old, Age::New] {
        let mut nic = Fake { ntuple: false, ..Fake::new(age) }.nic();
        let error = nic.insert_rule(&to_port(80, 1).at(0)).expect_err("off").to_string();
        assert_eq!(
            error,
            "eth7: insert the receive rule \"flow-type tcp4 dst-port 80 action 1 loc 0\": Operation not supported: \
             receive rules are turned off; turn them on with: ethtool -K eth7 ntuple on"
        );
        assert!(matches!(nic.rules(), Err(EthtoolError::NtupleOff { .. })), "{age:?}");
        nic.set_ntuple(true).expect("turned on");
        nic.insert_rule(&to_port(80, 1).at(0)).expect("inserted");
        nic.set_ntuple(false).expect("turned off");
        assert!(!nic.ntuple().expect("feature").active);

        let mut nic = Fake { ntuple: false, ntuple_fixed: true, ..Fake::new(age) }.nic();
        let error = nic.set_ntuple(true).expect_err("fixed");
        assert!(matches!(error, EthtoolError::NoRules { .. }), "{age:?}: {error}");
        let error = nic.insert_rule(&to_port(80, 1).at(0)).expect_err("fixed").to_string();
        match age {
            Age::New => assert_eq!(
                error,
                "eth7: the driver fakenic takes no receive rules (Operation not supported, ntuple is off and fixed); \
                 steer by the receive hash table, or use another NIC"
            ),
            // An old kernel does not report that the flag is fixed.
            Age::Old => assert!(error.contains("ethtool -K eth7 ntuple on"), "{error}"),
        }
    }
}

#[test]
fn refusals_say_what_to_do() {
    let mut nic = Fake::new(Age::New).nic();
    for (errno, text) in [
        (Errno::OPNOTSUPP, "the driver fakenic does not take rules of this kind"),
        (Errno::EXIST, "the same rule exists already"),
        (Errno::BUSY, "something else of eth7 uses its rules"),
        (Errno::PERM, "run as root (CAP_NET_ADMIN)"),
        (Errno::IO, "see: ethtool -n eth7"),
    ] {
        nic.transport().refuse.insert(0x32, errno);
        let error = nic.insert_rule(&to_port(80, 1).at(0)).expect_err("refused");
        assert!(error.to_string().contains(text) && error.to_string().starts_with("eth7: "), "{error}");
        match error {
            EthtoolError::Os(os) => assert_eq!(os.errno(), Some(errno)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_context_in_use_stays() {
    let mut nic = Fake::new(Age::New).nic();
    let context = nic.create_context(&RssChange::default()).expect("created");
    let action = Action::Context { context, first: RxQueueId(0) };
    let rule = RxRule { action, ..to_port(80, 0) };
    let location = nic.insert_rule(&rule).expect("inserted");
    assert_eq!(nic.rule(location).expect("rule").action, action);
    let error = nic.delete_context(context).expect_err("in use");
    assert!(matches!(error, EthtoolError::ContextInUse { context: 1, .. }), "{error}");
    nic.delete_rule(location).expect("deleted");
    nic.delete_context(context).expect("deleted");
    assert!(matches!(nic.rss(ContextId(1)), Err(EthtoolError::NoSuchContext { .. })));
}

#[test]
fn rules_that_appear_while_the_list_is_read_are_read_too() {
    let mut fake = Fake { capacity: 64, ..Fake::new(Age::New) };
    fake.intruders = 2;
    let mut nic = fake.nic();
    nic.insert_rule(&to_port(80, 1).at(0)).expect("inserted");
    assert_eq!(nic.rules().expect("rules").rules.len(), 3);
}

#[test]
fn a_rule_that_is_none_is_reported() {
    let mut nic = Fake::new(Age::New).nic();
    nic.insert_rule(&to_port(80, 1).at(0)).expect("inserted");
    nic.transport().rules.get_mut(&0).expect("the rule")[173] = 9;
    let error = nic.rules().expect_err("no rule").to_string();
    assert!(error.starts_with("eth7: the driver fakenic returned an invalid receive rule: 0x9"), "{error}");
}
