//! The kernel side of a port is restored after another program has changed it, and packets then leave by the policy again.

use crate::common::bench;
use crate::common::bench::{Bench, conserved};
use crate::common::compiled;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_host::ethtool::{Nic, Offload, Switch, WHOLE_TCP};
use weft_host::link::{GsoSizes, VethOptions};
use weft_host::tc::{self, Handle, TcDevice};
use weft_host::testing::{PATIENCE, privileged, unique, wait_for};
use weft_host::{Mac, NetNs, link, sysctl};
use weft_nic::nic::{NicPlan, SoftwareNic};
use weft_nic::testbed::{PORT, RECEIVER, SENDER, Testbed};
use weft_nic::worker::SegmentsPerTurn;
use weft_units::{Bytes, Nanos};

const POLICY: &str = "class a = udp and dport 9000\nroot = wfq { a: 1, default: 1 }";

/// Waits for a line that has all of `words`.
fn line(nic: &SoftwareNic, words: &[&str]) -> String {
    let mut all = Vec::new();
    wait_for(format!("no line with {words:?}"), || {
        all.extend(nic.take_changes());
        all.iter().any(|line| words.iter().all(|word| line.contains(word)))
    });
    all.into_iter().find(|line| words.iter().all(|word| line.contains(word))).expect("found")
}

/// Sends datagrams from `ns` until ten have arrived.
fn datagrams_arrive(bench: &Bench, ns: &NetNs) {
    let receiver = bench.receiver(false, 9000);
    receiver.set_nonblocking(true).expect("socket");
    let sender = bench::socket(ns, bench::unspecified(false));
    let (mut arrived, mut buffer) = (0, [0; 100]);
    wait_for("nothing arrives", || {
        let _ = sender.send_to(&[7; 100], (RECEIVER, 9000));
        arrived += usize::from(receiver.recv(&mut buffer).is_ok());
        arrived >= 10
    });
}

/// Sends `bytes` from the port to the receiver by TCP.
fn transfer(bench: &Bench, bytes: usize) {
    let bind = || TcpListener::bind((RECEIVER, 0));
    let listener = bench.bed.receiver.run(bind).expect("enter").expect("listen");
    let to = listener.local_addr().expect("address");
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            std::io::copy(&mut stream, &mut std::io::sink()).expect("read")
        });
        let mut stream = bench.bed.sender.run(|| TcpStream::connect(to)).expect("enter").expect("connect");
        stream.write_all(&vec![1; bytes]).expect("write");
        drop(stream);
        assert_eq!(reader.join().expect("reader"), bytes as u64);
    });
}

#[test]
fn offloads_that_are_turned_off_are_on_again_and_tcp_has_one_doorbell_for_a_super_packet() {
    if !privileged("offloads_that_are_turned_off_are_on_again_and_tcp_has_one_doorbell_for_a_super_packet") {
        return;
    }
    let bench = Bench::roomy("off", POLICY, 300);
    let mut nic = Nic::open(&bench.bed.sender, PORT).expect("device");
    nic.set_offload(Offload::Tso, Switch::Off).expect("off");
    let said = line(&bench.nic, &["tx-tcp-segmentation", "turned off by another program; restored"]);
    assert!(said.starts_with("port port0: ") && said.contains("tx-tcp6-segmentation"), "{said}");
    assert_eq!(nic.turned_off(&WHOLE_TCP).expect("features"), [""; 0]);
    for feature in ["tx", "sg"] {
        let ethtool = || {
            let mut command = std::process::Command::new("ethtool");
            command.args(["-K", PORT, feature, "off"]).output()
        };
        let done = bench.bed.sender.run(ethtool).expect("enter").expect("ethtool");
        assert!(done.status.success(), "{done:?}");
        let name = if feature == "tx" { "tx-checksum-ip-generic" } else { "tx-scatter-gather" };
        line(&bench.nic, &[name, "restored"]);
        wait_for(name, || nic.turned_off(&WHOLE_TCP).expect("features").is_empty());
    }
    transfer(&bench, 4_000_000);
    bench.wait_closed();
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    assert_eq!(totals.events.strays.get(), 0, "{totals:#?}");
    conserved(&totals);
}

#[test]
fn an_mtu_and_a_larger_segment_are_restored() {
    if !privileged("an_mtu_and_a_larger_segment_are_restored") {
        return;
    }
    let bench = Bench::roomy("mtu", POLICY, 300);
    bench.nic.follow(1400, true).expect("follow");
    assert_eq!(bench.nic.take_changes(), [""; 0], "the NIC's own changes have no line");
    link::set_mtu(&bench.bed.sender, PORT, 900).expect("mtu");
    line(&bench.nic, &["its MTU was changed from 1400 to 900 by another program; restored"]);
    assert_eq!(link::show(&bench.bed.sender, PORT).expect("port").mtu, 1400);
    let before = link::gso_sizes(&bench.bed.sender, PORT).expect("sizes");
    let sizes = GsoSizes { max: 200_000, ipv4_max: before.ipv4_max.map(|_| 200_000) };
    link::set_gso_sizes(&bench.bed.sender, PORT, sizes).expect("sizes");
    line(&bench.nic, &["its gso_max_size was raised to 200000 by another program; restored"]);
    assert_eq!(link::gso_sizes(&bench.bed.sender, PORT).expect("sizes"), before);
}

/// The near end refuses the MTU, and loses its carrier with the uplink's all the same.
#[test]
fn a_refused_mtu_does_not_keep_the_carrier() {
    if !privileged("a_refused_mtu_does_not_keep_the_carrier") {
        return;
    }
    let bench = Bench::roomy("ref", POLICY, 300);
    bench.nic.follow(67, false).expect_err("below the least MTU of IPv4");
    wait_for("the carrier stays", || !link::show(&bench.bed.sender, PORT).expect("port").running);
    bench.nic.follow(1500, true).expect("follow");
    wait_for("the carrier is gone", || link::show(&bench.bed.sender, PORT).expect("port").running);
}

#[test]
fn a_deleted_filter_or_clsact_is_put_back() {
    if !privileged("a_deleted_filter_or_clsact_is_put_back") {
        return;
    }
    let bench = Bench::roomy("del", POLICY, 300);
    let sender = &bench.bed.sender;
    datagrams_arrive(&bench, sender);
    let filters = || tc::filters(sender, PORT, Handle::EGRESS).expect("filters");
    let ours = filters().remove(0);
    TcDevice::open(sender, PORT)
        .and_then(|mut device| device.delete_filter(Handle::EGRESS, ours.priority, ours.handle))
        .expect("delete");
    line(&bench.nic, &["its egress filter was deleted by another program; restored"]);
    datagrams_arrive(&bench, sender);
    let delete = || std::process::Command::new("tc").args(["qdisc", "del", "dev", PORT, "clsact"]).status();
    assert!(sender.run(delete).expect("enter").expect("tc").success());
    line(&bench.nic, &["its clsact was deleted by", "; restored"]);
    assert_eq!(filters().len(), 1);
    datagrams_arrive(&bench, sender);
}

/// A program before ours is named, and left alone until packets pass around ours.
#[test]
fn a_program_that_passes_packets_around_ours_is_told_by_name_and_overtaken() {
    if !privileged("a_program_that_passes_packets_around_ours_is_told_by_name_and_overtaken") {
        return;
    }
    for by_tcx in [false, true] {
        let bench = Bench::roomy("ord", POLICY, 300);
        let sender = &bench.bed.sender;
        datagrams_arrive(&bench, sender);
        let (theirs, index) = (compiled::load("pass"), link::index(sender, PORT).expect("index"));
        let attach = || match by_tcx {
            true => theirs.attach_first("pass_around", index),
            false => theirs.attach_egress("pass_around", index).map(drop),
        };
        let attached = sender.run(attach).expect("enter");
        if by_tcx && attached.is_err() {
            weft_units::testing::skip("a_program_that_passes_packets_around", "no tcx before Linux 6.6");
            continue;
        }
        attached.expect("attached");
        datagrams_arrive(&bench, sender);
        let said = line(&bench.nic, &["packets passed around its program by pass_around", "; restored"]);
        assert!(said.contains(if by_tcx { "tcx program" } else { "filter of priority" }), "{said}");
        let before = bench.nic.totals().expect("totals").events.unannounced_drops.get();
        datagrams_arrive(&bench, sender);
        let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
        assert_eq!(totals.events.unannounced_drops.get(), before, "{totals:#?}");
    }
}

#[test]
fn a_port_that_is_moved_sends_and_is_followed_in_its_new_namespace() {
    if !privileged("a_port_that_is_moved_sends_and_is_followed_in_its_new_namespace") {
        return;
    }
    let bench = Bench::roomy("mov", POLICY, 300);
    datagrams_arrive(&bench, &bench.bed.sender);
    let elsewhere = NetNs::create(&unique("else")).expect("namespace");
    let _ = sysctl::set(&elsewhere, "net.ipv6.conf.default.disable_ipv6", "1");
    link::move_to(&bench.bed.sender, PORT, &elsewhere).expect("move");
    line(&bench.nic, &["it was moved to the namespace", elsewhere.name(), "; restored"]);
    let wire = link::get_mac(&bench.bed.receiver, "wire0").expect("wire").expect("mac");
    link::set_up(&elsewhere, PORT).expect("up");
    link::wait_running(&elsewhere, PORT, PATIENCE).expect("running");
    link::add_address(&elsewhere, PORT, SENDER, 16).expect("address");
    link::add_neighbor(&elsewhere, PORT, RECEIVER, wire).expect("neighbour");
    datagrams_arrive(&bench, &elsewhere);
    bench.nic.follow(1300, true).expect("follow");
    assert_eq!(link::show(&elsewhere, PORT).expect("port").mtu, 1300);
    link::set_mtu(&elsewhere, PORT, 1200).expect("mtu");
    line(&bench.nic, &["its MTU was changed from 1300 to 1200", "; restored"]);
    bench.nic.follow(1300, false).expect("follow");
    wait_for("the carrier stays", || !link::show(&elsewhere, PORT).expect("port").running);
}

/// A namespace that only this test holds has no name, and no process is in it.
#[test]
fn a_port_in_a_namespace_without_a_name_is_followed_too() {
    if !privileged("a_port_in_a_namespace_without_a_name_is_followed_too") {
        return;
    }
    let bench = Bench::roomy("los", POLICY, 300);
    let hidden = NetNs::anonymous().expect("namespace");
    link::move_to(&bench.bed.sender, PORT, &hidden).expect("move");
    let place = format!("net:[{}]", hidden.inode().expect("inode"));
    line(&bench.nic, &["it was moved to the namespace", &place, "; restored"]);
    wait_for("its filter", || tc::filters(&hidden, PORT, Handle::EGRESS).is_ok_and(|f| f.len() == 1));
    link::move_to(&hidden, PORT, &bench.bed.sender).expect("back");
    line(&bench.nic, &["it was moved to the namespace", "snd", "; restored"]);
    wait_for("not put back", || {
        tc::filters(&bench.bed.sender, PORT, Handle::EGRESS).is_ok_and(|f| f.len() == 1)
    });
}

#[test]
fn a_property_that_is_changed_again_and_again_is_restored_once_a_second_and_told_as_a_fight() {
    if !privileged("a_property_that_is_changed_again_and_again_is_restored_once_a_second_and_told_as_a_fight")
    {
        return;
    }
    let bench = Bench::roomy("fig", POLICY, 300);
    bench.nic.follow(1400, true).expect("follow");
    let mut lines = Vec::new();
    wait_for("the fight is not told", || {
        let _ = link::set_mtu(&bench.bed.sender, PORT, 1000);
        lines.extend(bench.nic.take_changes());
        bench.nic.ports()[0].contested().is_some()
    });
    let contested = bench.nic.ports()[0].contested().expect("contested");
    assert!(contested.contains("its MTU was changed from 1400 to 1000"), "{contested}");
    assert!(lines.len() <= 20, "{} lines", lines.len());
    // It is still restored.
    wait_for("not restored", || link::show(&bench.bed.sender, PORT).expect("port").mtu == 1400);
}

#[test]
fn no_chunk_is_longer_than_a_super_packet_while_a_program_raises_the_limit() {
    if !privileged("no_chunk_is_longer_than_a_super_packet_while_a_program_raises_the_limit") {
        return;
    }
    let mut config = bench::config(2000);
    config.segments_per_turn = SegmentsPerTurn::Whole;
    config.departures = Some(100_000);
    let bench = Bench::start("gso", POLICY, &config, 8000, |_: &mut NicPlan| ());
    let sender = &bench.bed.sender;
    let before = link::gso_sizes(sender, PORT).expect("sizes");
    let sizes = GsoSizes { max: 500_000, ipv4_max: before.ipv4_max.map(|_| 500_000) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = link::set_gso_sizes(sender, PORT, sizes);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        wait_for("never raised", || link::gso_sizes(sender, PORT).expect("sizes").max > 400_000);
        for _ in 0..3 {
            transfer(&bench, 3_000_000);
        }
        stop.store(true, Ordering::Relaxed);
    });
    bench.wait_closed();
    let (totals, log) = bench.nic.stop_with_log(Nanos::from_secs(1)).expect("stop");
    // The longest IP packet in segments of at least 536 bytes, each with its headers and what is around it on the wire.
    let longest = Bytes(65_535 + (65_535 / 536 + 1) * (54 + 12 + 24));
    let most = log.departures.iter().map(|departure| departure.wire()).max().expect("departures");
    let refused = totals.sum(|class| class.refused).packets;
    println!("the longest chunk has {most}, {refused} packets were longer and refused");
    assert!(most <= longest, "{most} left at once");
}

#[test]
fn a_deleted_port_is_noticed_and_leaves_the_worker() {
    if !privileged("a_deleted_port_is_noticed_and_leaves_the_worker") {
        return;
    }
    let bench = Bench::roomy("gon", POLICY, 300);
    assert!(bench.nic.is_running());
    link::delete(&bench.bed.sender, PORT).expect("delete");
    wait_for("not noticed", || bench.nic.ports()[0].has_failed());
    assert!(!bench.nic.is_running() && bench.nic.workers_run());
    bench.nic.stop(Nanos::from_secs(1)).expect("a NIC whose port is gone stops as any other");
    // The macvtap alone.
    let bench = Bench::roomy("mac", POLICY, 300);
    link::delete(&bench.bed.nic, "port0-tap").expect("delete");
    wait_for("not noticed", || bench.nic.ports()[0].has_failed());
}

#[test]
fn a_name_that_is_a_format_is_refused_and_leaves_no_device() {
    if !privileged("a_name_that_is_a_format_is_refused_and_leaves_no_device") {
        return;
    }
    let bed = Testbed::create("fmt").expect("testbed");
    let make = |name: &str| {
        let (app, nic, mac) = (&bed.sender, &bed.nic, Mac::local(1));
        let (rings, ring_packets, single_backlog) = (2, 10, false);
        let config = weft_nic::port::PortConfig { app, nic, name, mac, rings, ring_packets, single_backlog };
        weft_nic::port::Port::create(&config)
    };
    let links = || [&bed.sender, &bed.nic].map(|ns| link::list(ns).expect("links").len());
    let error = make("audit%d").expect_err("refused").to_string();
    assert!(error.contains("audit%d") && error.contains("'%'"), "{error}");
    assert_eq!(links(), [1, 1], "only lo");
    // Another error leaves none either.
    link::create_veth((&bed.sender, "taken"), (&bed.sender, "peer"), &VethOptions::default()).expect("veth");
    make("taken").expect_err("exists");
    assert_eq!(links(), [3, 1]);
}
