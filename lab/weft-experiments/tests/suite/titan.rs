//! Queue assignment under churn, and the order of packets, on the path through the software NIC.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use weft_experiments::experiments::titan::order::{self, OrderReport, OrderSettings, OrderStage, PacketPath};
use weft_experiments::traffic::churn::{self, ClosingShares, ShortFlows};
use weft_experiments::traffic::ordered::Mix;
use weft_host::testing::{PATIENCE, privileged, until};
use weft_nic::multiqueue::{self, Multiqueue};
use weft_nic::nic::SoftwareNic;
use weft_nic::testbed::{RECEIVER, SENDER, Testbed};
use weft_sched::queues::Inner;
use weft_titan::device::Titan;
use weft_titan::page::Load;
use weft_titan::settings::Settings;
use weft_titan::tracing_check::TracingCheck;
use weft_units::{BitsPerSec, Nanos, Packets};

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

/// A NIC with Titan attached, which is detached also after a failed test.
struct Bench {
    titan: Option<Titan>,
    reported: TracingCheck,
    nic: SoftwareNic,
    bed: Testbed,
}

impl Bench {
    fn start(role: &str, wanted: &Multiqueue) -> Self {
        let bed = Testbed::create(role).expect("testbed");
        let nic = multiqueue::start(&bed, wanted).expect("nic");
        let titan = Titan::attach(&bed.sender, "port0", &Settings::default()).expect("attached");
        // Counts are read as the programs made them: the sweep must not repair what they missed.
        titan.page().sweep_off.store(1, Ordering::SeqCst);
        let reported = TracingCheck::attach(&bed.nic, "port0-nic").expect("watched");
        Self { titan: Some(titan), reported, nic, bed }
    }

    fn titan(&self) -> &Titan {
        self.titan.as_ref().expect("attached")
    }

    /// Waits until all packets have left, and checks that exactly what was counted in was counted out. A flow that
    /// remains, or was counted out late, must be one whose departure the kernel did not report, by the kernel's own
    /// count.
    #[track_caller]
    fn settled(&self) {
        let totals = self.titan().totals();
        let accounting = || {
            let unreported = self.reported.unreported().expect("the port's own count");
            self.titan().accounting().expect("accounting").with_unreported(unreported)
        };
        let counted_out = || {
            let accounting = accounting();
            accounting.faults().is_empty() && (accounting.missed > 0 || self.titan().page().active() == 0)
        };
        let _ = until(PATIENCE, counted_out);
        // What is counted out too much comes now.
        std::thread::sleep(Duration::from_millis(50));
        let accounting = accounting();
        println!("{accounting:?}");
        assert!(accounting.faults().is_empty(), "{:#?}, {accounting:?}, {totals:?}", accounting.faults());
        if accounting.missed > 0 {
            return self.settled_by_the_sweep();
        }
        for (number, queue) in self.titan().page().queues.iter().enumerate().take(8) {
            let load = self.titan().page().loads[number].get();
            assert_eq!(load, Load::default(), "queue {number}: {queue:?}, {totals:?}");
            let came = (get(&queue.packets), get(&queue.bytes));
            let left = (get(&queue.left_packets), get(&queue.left_bytes));
            assert_eq!(came, left, "queue {number}: packets and bytes, {totals:?}");
        }
        assert_eq!((self.titan().page().active(), get(&totals.repaired)), (0, 0), "{totals:?}");
    }
}

impl Bench {
    /// Lets the sweep find departures that the programs were not shown.
    #[track_caller]
    fn settled_by_the_sweep(&self) {
        let page = self.titan().page();
        page.sweep_off.store(0, Ordering::SeqCst);
        let _ = until(PATIENCE, || page.active() == 0);
        // What is counted out too much comes now.
        std::thread::sleep(Duration::from_millis(50));
        let totals = self.titan().totals();
        let accounting = self.titan().accounting().expect("accounting");
        assert!(accounting.active == 0 && accounting.wrong.is_empty(), "{accounting:?}, {totals:?}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(titan) = self.titan.take() {
            let _ = titan.detach();
        }
    }
}

fn short(per_second: u32) -> ShortFlows {
    let how_closed = ClosingShares { orderly: 4, reset: 3, abandoned: 1 };
    let patience = Nanos::from_secs(2);
    ShortFlows { how_closed, per_second, bytes: 3000, patience, ..ShortFlows::default() }
}

#[test]
fn thousands_of_short_flows_leave_every_count_at_zero() {
    if !privileged("thousands_of_short_flows_leave_every_count_at_zero") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let bench = Bench::start("chr", &Multiqueue::new(BitsPerSec(1_000_000_000)));
    let (stop, two) = (AtomicBool::new(false), Duration::from_secs(2));
    let run = churn::run(&short(3000), &bench.bed.sender, &bench.bed.receiver, RECEIVER, two, &stop);
    let report = run.expect("traffic");
    println!("{report:?}\n{:?}", bench.titan().totals());
    let clients = report.clients;
    assert!(clients.balances() && report.servers.balances(), "{report:?}");
    assert!([clients.orderly, clients.reset, clients.abandoned].iter().all(|&n| n > 100), "{report:?}");
    assert!(bench.titan().page().activations() >= clients.started);
    bench.settled();
}

#[test]
fn short_flows_that_lose_packets_to_full_rings_leave_every_count_at_zero() {
    if !privileged("short_flows_that_lose_packets_to_full_rings_leave_every_count_at_zero") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let wanted = Multiqueue { ring_packets: 3, ..Multiqueue::new(BitsPerSec(20_000_000)) };
    let bench = Bench::start("chf", &wanted);
    let (stop, two) = (AtomicBool::new(false), Duration::from_secs(2));
    let flows = ShortFlows { patience: Nanos::from_secs(1), ..short(2000) };
    let run = churn::run(&flows, &bench.bed.sender, &bench.bed.receiver, RECEIVER, two, &stop);
    let report = run.expect("traffic");
    println!("{report:?}\n{:?}", bench.titan().totals());
    assert!(report.clients.balances(), "{report:?}");
    assert!(bench.nic.totals().expect("totals").drops.ring_full > 100);
    bench.settled();
}

/// Sends mixed traffic until `packets` packets have been checked.
fn ordered(bench: &Bench, packets: u64, there: bool) -> OrderReport {
    let bed = &bench.bed;
    let port = (&bed.sender, "port0");
    let (sender, far, receiver, server) = if there {
        (port, Some((&bed.nic, "port0-nic")), (&bed.receiver, "wire0"), RECEIVER)
    } else {
        ((&bed.receiver, "wire0"), None, port, SENDER)
    };
    let settings = OrderSettings {
        packets: Packets(packets),
        most: Duration::from_secs(8),
        mix: Mix { change_core: Nanos::from_millis(1), ..Mix::default() },
        short: Some(short(300)),
    };
    let path = PacketPath { sender, far, receiver, server };
    order::run(&path, &settings, |_| (), &AtomicBool::new(false)).expect("runs")
}

fn check_order(role: &str, inner: Inner, there: bool) {
    let _alone = weft_host::testing::alone();
    let bench = Bench::start(role, &Multiqueue { inner, ..Multiqueue::new(BitsPerSec(2_000_000_000)) });
    let report = ordered(&bench, 300_000, there);
    let totals = bench.titan().totals();
    for stage in &report.stages {
        println!("{}: {:?} {:?}", stage.stage, stage.counts, stage.late.first());
    }
    println!("{totals:?}\n{:?} {}", report.mix, report.complete);
    assert!(report.packets() > Packets(50_000), "{report:?}");
    assert!(report.mix.core_changes > 100, "{report:?}");
    assert_eq!(report.first_overtaken(), None, "{:?}", report.stages);
    assert_eq!(report.late(OrderStage::Receiver), Some(Packets(0)));
    if there {
        assert!(bench.titan().page().moves() > 100, "flows changed their queues: {totals:?}");
    }
    bench.settled();
}

#[test]
fn no_packet_is_overtaken_on_its_way_out() {
    if !privileged("no_packet_is_overtaken_on_its_way_out") {
        return;
    }
    check_order("oro", Inner::Fair, true);
}

#[test]
fn no_packet_is_overtaken_on_its_way_out_through_fifo_queues() {
    if !privileged("no_packet_is_overtaken_on_its_way_out_through_fifo_queues") {
        return;
    }
    check_order("orf", Inner::Fifo, true);
}

#[test]
fn no_packet_is_overtaken_on_its_way_in() {
    if !privileged("no_packet_is_overtaken_on_its_way_in") {
        return;
    }
    check_order("ori", Inner::Fair, false);
}
