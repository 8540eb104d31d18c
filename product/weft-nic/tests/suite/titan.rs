//! Queue assignment at the port of a multiqueue NIC: real TCP, exact counts, and no remains after detaching.

use crate::common::bench::{conserved, wait_listening};
use core::time::Duration;
use std::sync::atomic::Ordering;
use weft_host::Spawn;
use weft_host::process::Output;
use weft_host::testing::{PATIENCE, privileged, until};
use weft_nic::multiqueue::{self, Multiqueue};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_sched::queues::Inner;
use weft_titan::device::Titan;
use weft_titan::page::Load;
use weft_titan::settings::Settings;
use weft_titan::status::Watch;
use weft_units::{BitsPerSec, Nanos};

fn iperf(bed: &Testbed, flows: u32, seconds: u32) {
    let mut server = Spawn::new("iperf3")
        .args(["--server", "--one-off", "--version4"])
        .netns(&bed.receiver)
        .stdout(Output::Capture)
        .start()
        .expect("server");
    wait_listening(&bed.receiver, 5201);
    let mut client = Spawn::new("iperf3")
        .args(["--client", &RECEIVER.to_string(), "--parallel", &flows.to_string()])
        .args(["--time", &seconds.to_string(), "--congestion", "cubic"])
        .netns(&bed.sender)
        .stdout(Output::Capture)
        .start()
        .expect("client");
    for process in [&mut client, &mut server] {
        let status = process.wait_timeout(Duration::from_secs(20)).expect("waited").expect("ended");
        assert!(status.success(), "{}", process.stdout().text());
    }
}

#[test]
fn flows_spread_over_the_queues_and_every_queue_reads_zero_at_the_end() {
    if !privileged("flows_spread_over_the_queues_and_every_queue_reads_zero_at_the_end") {
        return;
    }
    let bed = Testbed::create("titan").expect("testbed");
    let fair = Multiqueue { inner: Inner::Fair, ..Multiqueue::new(BitsPerSec(1_000_000_000)) };
    let nic = multiqueue::start(&bed, &fair).expect("nic");
    let titan = Titan::attach(&bed.sender, "port0", &Settings::default()).expect("attached");
    titan.page().sweep_off.store(1, Ordering::SeqCst);
    assert_eq!(titan.state().queues, 8);
    let mut watch = Watch::new(titan).expect("watch");
    let bed = &bed;
    let seen = std::thread::scope(|scope| {
        let load = scope.spawn(|| iperf(bed, 12, 3));
        // On a shared machine some flows are idle at times: only samples in which all are active count.
        let mut seen = Vec::new();
        while !load.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            let flows: Vec<u64> =
                watch.look().expect("status").queues.iter().map(|queue| queue.flows).collect();
            if (12..=13).contains(&flows.iter().sum::<u64>()) {
                seen.push(flows);
            }
        }
        load.join().expect("load");
        seen
    });
    let even = seen.iter().filter(|flows| flows.iter().all(|count| (1..=2).contains(count))).count();
    assert!(!seen.is_empty() && even * 2 > seen.len(), "{even} of {}: {seen:?}", seen.len());
    // The connections' last packets follow the end of the programs.
    let counted_out = || {
        let accounting = watch.titan().accounting().expect("accounting");
        accounting.faults().is_empty() && (accounting.missed > 0 || watch.titan().page().active() == 0)
    };
    let _ = until(PATIENCE, counted_out);
    let accounting = watch.titan().accounting().expect("accounting");
    assert!(accounting.faults().is_empty(), "{:#?}, {accounting:?}", accounting.faults());
    // If the kernel did not report a departure on this host, it may have been one of these.
    if accounting.missed == 0 {
        let page = watch.titan().page();
        for (number, queue) in page.queues.iter().enumerate().take(8) {
            assert_eq!(page.loads[number].get(), Load::default(), "queue {number}");
            let sent = (queue.packets.load(Ordering::Relaxed), queue.bytes.load(Ordering::Relaxed));
            let left = (queue.left_packets.load(Ordering::Relaxed), queue.left_bytes.load(Ordering::Relaxed));
            assert_eq!(sent, left, "queue {number}");
        }
        assert_eq!(watch.titan().totals().repaired.load(Ordering::Relaxed), 0);
    }
    Titan::open(&bed.sender, "port0").expect("open").detach().expect("detached");
    let totals = nic.stop(Nanos::from_secs(1)).expect("stopped");
    conserved(&totals);
}
