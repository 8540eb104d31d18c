//! Tables, keys, contexts and hash fields of the emulated NIC, through both interfaces.

use rustix::io::Errno;
use weft_host::ethtool::{
    ContextId, EthtoolError, HashFields, HashFlow, HashFunction, RssChange, equal_table, weighted_table,
};
use weft_units::{RxQueueId, Weight};

use crate::ethtool::fake::{Age, ENTRIES, Fake, KEY};

const BOTH: [Age; 2] = [Age::Old, Age::New];

fn queues(numbers: &[u32]) -> Vec<RxQueueId> {
    numbers.iter().copied().map(RxQueueId).collect()
}

fn weight(value: u32) -> Weight {
    Weight::new(value).expect("not zero")
}

#[test]
fn tables_are_those_of_ethtool() {
    assert_eq!(equal_table(5, 2), queues(&[0, 1, 0, 1, 0]));
    let weighted = weighted_table(8, &[(RxQueueId(1), weight(1)), (RxQueueId(3), weight(3))]);
    assert_eq!(weighted, queues(&[1, 1, 3, 3, 3, 3, 3, 3]));
    // `ethtool -X DEVICE weight 6 2 5` of a table of 16: up to 16*6/13 = 7.4, 16*8/13 = 9.8, 16.
    let weighted = weighted_table(
        16,
        &[(RxQueueId(0), weight(6)), (RxQueueId(1), weight(2)), (RxQueueId(2), weight(5))],
    );
    assert_eq!(weighted, queues(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2]));
    assert_eq!(weighted_table(4, &[]), []);
}

#[test]
fn a_table_is_read_and_set() {
    for age in BOTH {
        let mut nic = Fake::new(age).nic();
        assert_eq!(nic.driver().name, "fakenic");
        assert_eq!(nic.rx_queues().expect("queues"), 8);
        let before = nic.rss(ContextId::MAIN).expect("rss");
        assert_eq!(before.table, equal_table(ENTRIES, 8), "{age:?}");
        assert_eq!((before.key.as_slice(), before.function), (KEY.as_slice(), Some(HashFunction::Toeplitz)));
        assert_eq!(before.symmetry, 2);
        let change = RssChange::table(equal_table(ENTRIES, 2));
        nic.set_rss(ContextId::MAIN, &change).expect("set");
        let after = nic.rss(ContextId::MAIN).expect("rss");
        assert_eq!(after.table, equal_table(ENTRIES, 2));
        // Nothing else has changed.
        assert_eq!(
            (&after.key, after.function, after.symmetry),
            (&before.key, before.function, 2),
            "{age:?}"
        );
        let change = RssChange { table: None, key: Some(vec![7; 40]), function: Some(HashFunction::Xor) };
        nic.set_rss(ContextId::MAIN, &change).expect("set");
        let last = nic.rss(ContextId::MAIN).expect("rss");
        assert_eq!(
            (last.table, last.key, last.function),
            (after.table, vec![7; 40], Some(HashFunction::Xor))
        );
        let by_netlink = nic.transport().calls.contains(&1048);
        assert_eq!((by_netlink, nic.transport().calls.contains(&0x47)), (age == Age::New, age == Age::Old));
    }
}

#[test]
fn contexts_come_and_go() {
    for age in BOTH {
        let mut nic = Fake::new(age).nic();
        let made = nic.create_context(&RssChange::table(equal_table(ENTRIES, 3))).expect("created");
        assert_eq!(made, ContextId(1), "{age:?}");
        assert_eq!(nic.rss(made).expect("rss").table, equal_table(ENTRIES, 3));
        assert_eq!(nic.rss(ContextId::MAIN).expect("rss").table, equal_table(ENTRIES, 8));
        nic.set_rss(made, &RssChange::table(equal_table(ENTRIES, 4))).expect("set");
        assert_eq!(nic.rss(made).expect("rss").table, equal_table(ENTRIES, 4));
        let second = nic.create_context(&RssChange::default()).expect("created");
        assert_eq!(nic.rss(second).expect("rss").table, equal_table(ENTRIES, 8));
        match (age, nic.contexts()) {
            (Age::Old, Err(EthtoolError::ContextsUnlisted { .. })) => {}
            (Age::New, Ok(contexts)) => {
                let ids: Vec<_> = contexts.iter().map(|(id, _)| id.0).collect();
                assert_eq!(ids, [0, 1, 2]);
                assert_eq!(contexts[1].1.table, equal_table(ENTRIES, 4));
            }
            other => panic!("{other:?}"),
        }
        let full = nic.create_context(&RssChange::default()).expect_err("no more");
        assert!(
            full.to_string().contains("No space left on device") && full.to_string().contains("delete one"),
            "{full}"
        );
        nic.delete_context(made).expect("deleted");
        assert!(matches!(nic.rss(made), Err(EthtoolError::NoSuchContext { context: 1, .. })), "{age:?}");
        assert!(matches!(nic.delete_context(made), Err(EthtoolError::NoSuchContext { .. })));
        assert!(matches!(nic.delete_context(ContextId::MAIN), Err(EthtoolError::NoSuchContext { .. })));
    }
}

#[test]
fn what_the_nic_cannot_have_is_refused_before_it_is_asked() {
    for age in BOTH {
        let mut nic = Fake::new(age).nic();
        let short = nic.set_rss(ContextId::MAIN, &RssChange::table(equal_table(4, 2))).expect_err("short");
        assert_eq!(
            short.to_string(),
            "eth7: the receive hash table has 16 entries, not 4; give one queue for each entry"
        );
        let far = RssChange::table(vec![RxQueueId(8); ENTRIES]);
        let far = nic.set_rss(ContextId::MAIN, &far).expect_err("far");
        assert!(matches!(far, EthtoolError::NoSuchQueue { queue: 8, queues: 8, .. }), "{far}");
        assert!(!nic.transport().calls.iter().any(|call| [0x47, 1048].contains(call)));
    }
}

#[test]
fn refusals_name_device_driver_errno_and_remedy() {
    for (age, get, set) in [(Age::Old, 0x46, 0x47), (Age::New, 1038, 1048)] {
        let mut nic = Fake::new(age).nic();
        nic.transport().refuse.insert(set, Errno::OPNOTSUPP);
        let change = RssChange { key: Some(vec![1; 40]), ..RssChange::default() };
        let error = nic.set_rss(ContextId::MAIN, &change).expect_err("refused").to_string();
        let says = if age == Age::New { " (says the driver)" } else { "" };
        assert_eq!(
            error,
            format!(
                "eth7: set the receive hash: Operation not supported{says}; the driver fakenic does not take all that \
                 was asked for: change only the table, or ask for less"
            )
        );
        nic.transport().refuse.insert(set, Errno::PERM);
        let error = nic.set_rss(ContextId::MAIN, &change).expect_err("refused").to_string();
        assert!(error.ends_with("; run as root (CAP_NET_ADMIN)"), "{error}");
        nic.transport().refuse.insert(get, Errno::OPNOTSUPP);
        let error = nic.rss(ContextId::MAIN).expect_err("refused");
        assert!(matches!(&error, EthtoolError::NoHashTable { driver, .. } if driver == "fakenic"), "{error}");
        let error = nic.rss(ContextId(3)).expect_err("refused");
        assert!(matches!(error, EthtoolError::NoContexts { .. }), "{error}");
        let mut nic = Fake { contexts_max: 0, ..Fake::new(age) }.nic();
        let error = nic.create_context(&RssChange::default()).expect_err("refused");
        assert!(matches!(error, EthtoolError::NoContexts { .. }), "{error}");
        // A key but no table.
        nic.transport().tables.insert(0, Vec::new());
        assert!(matches!(nic.rss(ContextId::MAIN), Err(EthtoolError::NoHashTable { .. })));
    }
}

#[test]
fn hashed_fields_are_read_and_set() {
    let mut nic = Fake::new(Age::New).nic();
    let fields = nic.hash_fields(HashFlow::Tcp4, ContextId::MAIN).expect("fields");
    assert_eq!((fields, fields.to_string().as_str()), (HashFields::FOUR_TUPLE, "sdfn"));
    let udp = nic.hash_fields(HashFlow::Udp4, ContextId::MAIN).expect("fields");
    assert!(udp.contains(HashFields::SOURCE) && !udp.contains(HashFields::SOURCE_PORT), "{udp}");
    nic.set_hash_fields(HashFlow::Udp4, ContextId::MAIN, udp | HashFields::DESTINATION_PORT).expect("set");
    let udp = nic.hash_fields(HashFlow::Udp4, ContextId::MAIN).expect("fields");
    assert_eq!(udp.to_string(), "sdn");
    nic.set_hash_fields(HashFlow::Udp4, ContextId(2), HashFields::SOURCE).expect("set");
    assert_eq!(nic.transport().fields[&0x2000_0002], 1 << 4, "of the context, not of the device");
    let error = nic.hash_fields(HashFlow::Sctp6, ContextId::MAIN).expect_err("refused").to_string();
    assert!(
        error.starts_with("eth7: read the fields of the receive hash: Invalid argument; the driver fakenic"),
        "{error}"
    );
}
