//! Qdiscs and classes are added, read back, changed, deleted, saved and put back by a real kernel.

use std::process::Command;

use weft_host::link::{self, LinkError, VethOptions};
use weft_host::tc::{
    Class, ETH_P_IP, Filter, FilterAction, FilterRule, Handle, Htb, HtbClass, Qdisc, Tbf, TcAction, TcDevice,
    TcError, TcObject, TcPlace, U32Key,
};
use weft_host::{NetNs, programs, testing};
use weft_units::{BitsPerSec, Bytes, Counted, Packets};

const FIRST: Handle = Handle::FIRST;

/// A veth pair in a namespace of its own.
struct Bench {
    ns: NetNs,
    device: TcDevice,
}

impl Bench {
    /// `None` without rights.
    fn new(test: &str, queues: u32) -> Option<Self> {
        if !testing::privileged(test) {
            return None;
        }
        let ns = NetNs::anonymous().expect("namespace");
        let options = VethOptions { queues: Some(queues), ..VethOptions::default() };
        link::create_veth((&ns, "va"), (&ns, "vb"), &options).expect("veth");
        let device = TcDevice::open(&ns, "va").expect("device");
        Some(Self { ns, device })
    }

    fn up(&self) {
        link::set_up(&self.ns, "va").expect("up");
        link::set_up(&self.ns, "vb").expect("up");
        link::wait_running(&self.ns, "va", testing::PATIENCE).expect("running");
    }

    fn root(&mut self) -> Qdisc {
        self.device.root().expect("read").expect("a root").qdisc()
    }

    /// The output of `tc` for the device.
    fn shown(&self, arguments: &str) -> String {
        let tc = programs::find("tc").expect("tc");
        let run = || Command::new(&tc).args(arguments.split(' ')).output();
        let output = self.ns.run(run).expect("namespace").expect("tc");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

fn tbf(megabits: u64) -> Tbf {
    Tbf { rate: BitsPerSec(megabits * 1_000_000), overhead: 24, burst: Bytes(3_000), limit: Bytes(100_000) }
}

fn class(rate: u64) -> HtbClass {
    HtbClass {
        rate: BitsPerSec(rate),
        ceil: BitsPerSec(2 * rate),
        burst: Bytes(1_600),
        cburst: Bytes(3_000),
        priority: 2,
        quantum: Some(Bytes(5_000)),
        overhead: 24,
        mpu: 64,
    }
}

#[test]
fn qdiscs_are_read_back_as_they_were_added() {
    let Some(mut bench) = Bench::new("qdiscs_are_read_back_as_they_were_added", 2) else { return };
    let htb = Htb { direct_queue: Some(Packets(9)), ..Htb::with_default(0x10) };
    let qdiscs = [
        Qdisc::Tbf(tbf(100)),
        Qdisc::Htb(htb),
        Qdisc::Pfifo { limit: Some(Packets(7)) },
        Qdisc::Bfifo { limit: Some(Bytes(4096)) },
        Qdisc::PfifoFast,
        Qdisc::Mq,
    ];
    for qdisc in qdiscs {
        bench.device.add(&TcObject::root(FIRST, qdisc.clone())).expect("add");
        let found = bench.device.qdisc(FIRST).expect("found");
        assert_eq!(
            (found.qdisc(), found.place, found.kind.as_str()),
            (qdisc.clone(), TcPlace::root(FIRST), qdisc.kind())
        );
        assert_eq!(bench.root(), qdisc);
        let there = bench.device.add(&TcObject::root(FIRST, qdisc.clone())).expect_err("there is one");
        let kind = qdisc.kind();
        assert_eq!(
            there.to_string(),
            format!(
                "add qdisc {kind} 1: at the root of link va of (unnamed): File exists (Exclusivity flag on, cannot modify); \
                 delete the one that is there first, or replace it"
            )
        );
        bench.device.delete_qdisc(TcPlace::root(FIRST)).expect("delete");
        assert!(matches!(bench.device.qdisc(FIRST), Err(TcError::NotThere { .. })));
    }
    // One at the far end is not the device's.
    let mut far = TcDevice::open(&bench.ns, "vb").expect("device");
    far.add(&TcObject::tbf(tbf(1))).expect("add");
    assert!(bench.device.qdiscs().expect("read").iter().all(|qdisc| qdisc.kind != "tbf"));
}

#[test]
fn changes_keep_the_qdisc_and_replacements_do_not() {
    let Some(mut bench) = Bench::new("changes_keep_the_qdisc_and_replacements_do_not", 1) else { return };
    bench.device.add(&TcObject::tbf(tbf(10))).expect("add");
    bench.device.change(&TcObject::tbf(tbf(20))).expect("change");
    assert_eq!(bench.root(), Qdisc::Tbf(tbf(20)));
    let other = TcObject::root(Handle::qdisc(2), Qdisc::Pfifo { limit: Some(Packets(3)) });
    bench.device.replace(&other).expect("replace");
    assert_eq!(bench.root(), Qdisc::Pfifo { limit: Some(Packets(3)) });
    let gone = bench.device.change(&TcObject::tbf(tbf(30))).expect_err("it is gone");
    assert!(
        gone.to_string().starts_with("change qdisc tbf 1: at the root of link va of (unnamed): "),
        "{gone}"
    );
}

#[test]
fn classes_are_read_back_as_they_were_added() {
    let Some(mut bench) = Bench::new("classes_are_read_back_as_they_were_added", 1) else { return };
    let wide = HtbClass { rate: BitsPerSec(80_000_000_000), ceil: BitsPerSec(80_000_000_000), ..class(8) };
    let leaf = Qdisc::Pfifo { limit: Some(Packets(5)) };
    let objects = vec![
        TcObject::root(FIRST, Qdisc::Htb(Htb::with_default(0x20))),
        TcObject::class(FIRST, FIRST.class(1), Class::Htb(wide)),
        TcObject::class(FIRST.class(1), FIRST.class(0x10), Class::Htb(class(8_000_000))),
        TcObject::class(FIRST.class(1), FIRST.class(0x20), Class::Htb(class(16_000_000))),
        TcObject::leaf(FIRST.class(0x20), Handle::qdisc(2), leaf.clone()),
    ];
    bench.device.install(objects).expect("install");
    let classes = bench.device.classes().expect("classes");
    let [first, second, third] = &classes[..] else { panic!("three classes: {classes:?}") };
    assert_eq!((second.class(), second.place.parent), (Class::Htb(class(8_000_000)), FIRST.class(1)));
    assert_eq!((third.class(), third.leaf), (Class::Htb(class(16_000_000)), Handle::qdisc(2)));
    let Class::Htb(first) = first.class() else { panic!("of HTB") };
    assert_eq!((first.rate, first.ceil), (wide.rate, wide.ceil));
    assert_eq!(bench.device.qdisc(Handle::qdisc(2)).expect("the leaf").qdisc(), leaf);

    let slower = HtbClass { priority: 7, ..class(4_000_000) };
    let change = TcObject::class(FIRST.class(1), FIRST.class(0x10), Class::Htb(slower));
    bench.device.change(&change).expect("change");
    assert_eq!(bench.device.classes().expect("classes")[1].class(), Class::Htb(slower));
    let inner = TcObject::class(FIRST, FIRST.class(1), Class::Htb(class(8)));
    let busy = bench.device.apply(TcAction::Delete, &inner).expect_err("it has children");
    assert!(busy.to_string().contains("delete class htb 1:1 below 1: of link va of (unnamed)"), "{busy}");
    bench.device.apply(TcAction::Delete, &change).expect("delete");
    assert_eq!(bench.device.classes().expect("classes").len(), 2);
}

#[test]
fn packets_are_counted_where_they_pass() {
    let Some(mut bench) = Bench::new("packets_are_counted_where_they_pass", 1) else { return };
    link::add_address(&bench.ns, "va", "10.98.0.1".parse().expect("address"), 24).expect("address");
    link::add_neighbor(&bench.ns, "va", "10.98.0.2".parse().expect("address"), weft_host::Mac::local(1))
        .expect("neighbour");
    bench.up();
    let root = TcObject::root(FIRST, Qdisc::Htb(Htb::with_default(0x10)));
    let slow = HtbClass { ceil: BitsPerSec(80_000), ..class(80_000) };
    let only = TcObject::class(FIRST, FIRST.class(0x10), Class::Htb(slow));
    let fifo = TcObject::leaf(FIRST.class(0x10), Handle::NONE, Qdisc::Pfifo { limit: Some(Packets(5)) });
    bench.device.install(vec![root, only, fifo]).expect("install");
    let socket = bench.ns.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    // Frames of 1000 bytes, each of which takes 100 ms: after one or two the others wait, and all but five are dropped.
    (0..40).for_each(|_| assert!(socket.send_to(&[0; 958], "10.98.0.2:9").is_ok()));
    let counters = bench.device.classes().expect("classes")[0].counters;
    assert!(counters.dropped >= Packets(30) && counters.sent.packets >= Packets(1), "{counters:?}");
    assert!((4..=5).contains(&counters.backlog.packets.0), "{counters:?}");
    assert_eq!(counters.backlog.bytes, Bytes(1000 * counters.backlog.packets.0), "{counters:?}");
    let root = bench.device.root().expect("read").expect("a root");
    assert!(root.counters.requeues == 0 && root.counters.dropped == counters.dropped, "{root:?}");
    assert_eq!(root.direct_packets(), Some(Packets(0)));
    let none = bench.device.qdisc(Handle::qdisc(9)).expect_err("no such handle");
    assert!(none.to_string().starts_with("link va of (unnamed) has no qdisc 9:"), "{none}");
}

#[test]
fn each_queue_gets_a_fifo_of_its_own_and_the_root_counts_for_all() {
    let test = "each_queue_gets_a_fifo_of_its_own_and_the_root_counts_for_all";
    let Some(mut bench) = Bench::new(test, 4) else { return };
    bench.device.install(TcObject::fifo_of_each_queue(4, Packets(7))).expect("install");
    let qdiscs = bench.device.qdiscs().expect("qdiscs");
    let fifos = qdiscs.iter().filter(|one| one.qdisc() == Qdisc::Pfifo { limit: Some(Packets(7)) });
    assert_eq!(fifos.count(), 4, "{qdiscs:?}");
    let root = bench.device.root().expect("read").expect("a root");
    assert_eq!((root.qdisc(), root.counters.sent), (Qdisc::Mq, Counted::ZERO));
    link::delete(&bench.ns, "va").expect("delete");
    let gone = bench.device.root().expect_err("the device is gone").to_string();
    assert!(gone.ends_with("the device was deleted or moved to another namespace"), "{gone}");
}

#[test]
fn a_batch_stops_at_the_first_error_and_an_installation_leaves_nothing() {
    let test = "a_batch_stops_at_the_first_error_and_an_installation_leaves_nothing";
    let Some(mut bench) = Bench::new(test, 1) else { return };
    let objects = || {
        vec![
            TcObject::root(FIRST, Qdisc::Htb(Htb::with_default(1))),
            TcObject::class(FIRST, FIRST.class(1), Class::Htb(class(8_000))),
            TcObject::leaf(FIRST.class(7), Handle::qdisc(2), Qdisc::Pfifo { limit: None }),
            TcObject::class(FIRST, FIRST.class(3), Class::Htb(class(8_000))),
        ]
    };
    let error =
        bench.device.batch(objects().into_iter().map(|object| (TcAction::Add, object))).expect_err("no 1:7");
    let TcError::Batch { object, done: 2, of: 4, .. } = &error else { panic!("{error:?}") };
    assert_eq!(object, "qdisc pfifo 2: below 1:7");
    let text = error.to_string();
    assert!(text.starts_with("add qdisc pfifo 2: below 1:7 of link va of (unnamed): "), "{text}");
    assert!(text.ends_with(" (step 3 of 4; those before it were carried out)"), "{text}");
    assert_eq!(bench.device.classes().expect("classes").len(), 1, "the fourth was not added");
    bench.device.delete_qdisc(TcPlace::root(FIRST)).expect("delete");
    assert!(bench.device.install(objects()).is_err());
    assert!(bench.device.classes().expect("classes").is_empty(), "nothing remains");
    bench.device.add(&objects()[0]).expect("the root is free");
    assert!(bench.device.install(objects()).is_err());
    assert_eq!(bench.root().kind(), "htb", "another's root stays");
}

#[test]
fn absent_devices_and_kinds_are_named_in_a_line() {
    let Some(mut bench) = Bench::new("absent_devices_and_kinds_are_named_in_a_line", 1) else { return };
    let none = TcDevice::open(&bench.ns, "eth9").expect_err("no such device");
    assert!(matches!(none, TcError::Link(LinkError::NotFound { .. })), "{none}");
    assert!(bench.device.root().expect("read").is_none_or(|root| root.place.handle == Handle::NONE));
    assert!(bench.device.classes().expect("classes").is_empty());
    assert!(bench.device.filters(Handle::EGRESS).expect("filters").is_empty());
    let absent = bench.device.delete_qdisc(TcPlace::root(FIRST)).expect_err("nothing to delete");
    assert!(
        absent.to_string().starts_with("delete qdisc 1: at the root of link va of (unnamed): "),
        "{absent}"
    );
    let other = Qdisc::Other { kind: "no_such".to_owned(), options: Vec::new() };
    let missing = bench.device.add(&TcObject::root(FIRST, other)).expect_err("no such kind");
    assert_eq!(
        missing.to_string(),
        "add qdisc no_such 1: at the root of link va of (unnamed): the kernel has no qdisc no_such; load sch_no_such or use \
         a kernel that has it (CONFIG_NET_SCH_NO_SUCH)"
    );
    assert!(missing.is_missing_kind());
    match bench.device.add(&TcObject::root(FIRST, Qdisc::Drr)) {
        Ok(()) => assert_eq!(bench.root(), Qdisc::Drr),
        Err(error) => {
            assert!(error.to_string().contains("the kernel has no qdisc drr; load sch_drr or"), "{error}")
        }
    }
}

#[test]
fn a_former_root_is_put_back_as_tc_shows_it() {
    let test = "a_former_root_is_put_back_as_tc_shows_it";
    let Some(mut bench) = Bench::new(test, 2) else { return };
    if !testing::has_program(test, "tc") {
        return;
    }
    bench.up();
    let default = bench.shown("qdisc show dev va");
    let before = bench.device.save().expect("save");
    assert_eq!((before.kind(), before.messages().len()), (None, 0));
    let handle = Handle::qdisc(0x7e57);
    let ours = || TcObject::root(handle, Qdisc::Htb(Htb::with_default(1)));
    bench.device.add(&ours()).expect("ours");
    bench.device.restore(&before, handle).expect("restore");
    assert_eq!(bench.shown("qdisc show dev va"), default);
    bench.device.restore(&before, handle).expect("nothing to do");

    // Former roots as tc makes them; one with the handle of ours, one with a qdisc inside, one with two below.
    for setup in [
        &["root pfifo_fast"][..],
        &["root handle 7e57: pfifo limit 9"],
        &["root handle 5: tbf rate 8mbit burst 3000 limit 100000 peakrate 16mbit mtu 2000"],
        &["root handle 5: tbf rate 8mbit burst 3000 limit 100000", "parent 5:1 handle 6: pfifo limit 3"],
        &["root handle 5: mq", "parent 5:1 handle 6: bfifo limit 5000"],
    ] {
        setup.iter().for_each(|qdisc| drop(bench.shown(&format!("qdisc add dev va {qdisc}"))));
        let shown = bench.shown("qdisc show dev va");
        let saved = bench.device.save().expect("save");
        assert!(saved.kind().is_some(), "{setup:?}: {shown}");
        bench
            .device
            .replace(&ours())
            .or_else(|_| {
                // A root of the same handle cannot become another kind.
                bench.device.delete_qdisc(TcPlace::root(handle))?;
                bench.device.add(&ours())
            })
            .expect("ours");
        assert!(bench.shown("qdisc show dev va").contains("htb 7e57:"));
        bench.device.restore(&saved, handle).expect("restore");
        assert_eq!(bench.shown("qdisc show dev va"), shown, "{setup:?}");
        let root = bench.device.root().expect("read").expect("a root");
        if root.place.handle != handle {
            let refused = bench.device.restore(&before, handle).expect_err("another's root");
            assert!(matches!(refused, TcError::NotOurs { .. }), "{refused}");
        }
        bench.device.delete_qdisc(root.place).expect("delete");
    }
}

#[test]
fn a_root_with_classes_is_not_replaced_unseen() {
    let Some(mut bench) = Bench::new("a_root_with_classes_is_not_replaced_unseen", 1) else { return };
    let htb = || Qdisc::Htb(Htb::with_default(1));
    bench.device.add(&TcObject::root(FIRST, htb())).expect("add");
    assert_eq!(
        bench.device.save().expect_err("refused").to_string(),
        "save the root of link va of (unnamed): htb 1: cannot be put back, since its classes would be lost; delete it or \
         leave the device as it is"
    );
    bench.device.delete_qdisc(TcPlace::root(FIRST)).expect("delete");
    bench.device.add(&TcObject::tbf(tbf(1))).expect("tbf");
    bench.device.add(&TcObject::leaf(FIRST.class(1), Handle::qdisc(2), htb())).expect("htb in it");
    let refused = bench.device.save().expect_err("refused");
    assert!(matches!(&refused, TcError::NotRestorable { kind, .. } if kind == "htb"), "{refused}");
}

#[test]
fn filters_give_classes_and_redirect() {
    let Some(mut bench) = Bench::new("filters_give_classes_and_redirect", 1) else { return };
    bench.device.add(&TcObject::root(FIRST, Qdisc::Htb(Htb::with_default(1)))).expect("htb");
    bench.device.add(&TcObject::class(FIRST, FIRST.class(1), Class::Htb(class(8_000)))).expect("class");
    let port = U32Key { offset: 20, mask: 0xffff_0000, value: 80 << 16 };
    let any = Filter::new(FIRST, 3, 0, FilterRule::U32(vec![port]));
    let to_class = Filter { class: Some(FIRST.class(1)), protocol: ETH_P_IP, ..any.clone() };
    bench.device.add(&TcObject::Filter(to_class.clone())).expect("filter");
    let found = bench.device.filters(FIRST).expect("filters");
    let ours = found.iter().find(|filter| filter.class.is_some()).expect("ours");
    assert_eq!(
        (ours.kind.as_str(), ours.priority, ours.class),
        ("u32", 3, Some(FIRST.class(1))),
        "{found:?}"
    );

    bench.device.add(&TcObject::clsact()).expect("clsact");
    let far = link::index(&bench.ns, "vb").expect("number");
    let action = Some(FilterAction::RedirectEgress(far));
    let redirect = Filter { hook: Handle::INGRESS, action, ..any };
    match bench.device.add(&TcObject::Filter(redirect)) {
        Ok(()) => assert!(!bench.device.filters(Handle::INGRESS).expect("filters").is_empty()),
        Err(error) => assert!(error.is_missing_kind(), "{error}"),
    }
    let all = TcObject::Filter(Filter::new(Handle::EGRESS, 1, 1, FilterRule::Matchall));
    if let Err(error) = bench.device.add(&all) {
        let expected = "the kernel has no classifier matchall; load cls_matchall or use a kernel that has it";
        assert!(error.to_string().contains(expected), "{error}");
    }
    bench.device.apply(TcAction::Delete, &TcObject::Filter(to_class)).expect("delete");
    assert!(bench.device.filters(FIRST).expect("filters").is_empty());
}
