//! The kernel's own TCP through a bottleneck: it fills the link, fills the queue, and the qdisc's accounting
//! balances.

use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use weft_experiments::experiments::kernel_tcp::{
    Bottleneck, BottleneckSample, MeasurementStage, TcpMeasurement, measure,
};
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, Nanos};

fn through(flows: u32, progress: &mut dyn FnMut(MeasurementStage)) -> (Bottleneck, TcpMeasurement) {
    let bottleneck = Bottleneck {
        rate: BitsPerSec(100_000_000),
        queue: Bytes(200_000),
        delay: Nanos::ZERO,
        flows,
        duration: Nanos::from_secs(3),
        congestion_control: "cubic".to_owned(),
        mtu: 1500,
    };
    let measured = measure(&bottleneck, progress).expect("measured");
    (bottleneck, measured)
}

/// Asserts that the flows filled the time that the machine served, and no more.
fn full(bottleneck: &Bottleneck, measured: &TcpMeasurement) {
    let lost = measured.link_lost;
    let part = measured.throughput.get() as f64 / bottleneck.payload_rate().get() as f64;
    assert!(
        (0.9 - lost..=1.005).contains(&part),
        "{part} of the payload's share: {:?}",
        (measured.throughput, measured.link_use, lost, measured.accounting)
    );
}

fn check(flows: u32) {
    let (bottleneck, measured) = through(flows, &mut |_| {});
    let lost = measured.link_lost;
    let shown =
        (measured.throughput, (measured.link_use, lost), measured.standing_queue, measured.accounting);
    full(&bottleneck, &measured);
    assert!((0.9 - lost..=1.005).contains(&measured.link_use), "{shown:?}");
    assert_eq!(measured.flows.len(), flows as usize);
    assert!(measured.standing_queue.mean > 0.0, "{shown:?}");
    assert!(measured.standing_queue.range.1 <= bottleneck.queue, "{shown:?}");
    let frame = ethernet::frame_of(Bytes(bottleneck.mtu.into())).get();
    // Bytes and packets are two counters, updated one after the other and read in between at times, so they may
    // disagree by one packet. An uncut segment would be worth many.
    let within = |sample: &BottleneckSample, spare: u64| {
        sample.backlog.get() <= (sample.waiting.get() + spare) * frame
    };
    for sample in &measured.samples {
        assert!(within(sample, 1), "uncut segments: {sample:?}");
    }
    let exact = measured.samples.iter().filter(|sample| within(sample, 0)).count();
    assert!(exact * 10 >= measured.samples.len() * 9, "{exact} of {} samples", measured.samples.len());
    assert!(measured.samples.len() > 300, "{} samples", measured.samples.len());
    assert!(measured.accounting.balance(), "{shown:?}");
    assert_eq!(measured.accounting.lost_before.get(), 0, "{shown:?}");
    assert!(measured.accounting.sent.get() > 0 && measured.sent <= measured.accounting.sent);
    assert!(measured.dropped <= measured.accounting.dropped);
    // Packets wait in the queue, so the round trip includes the mean queue, give or take the machine.
    let queueing = bottleneck.rate.time_for(Bytes(measured.standing_queue.mean as u64));
    let rtt = measured.rtt_mean.expect("a round trip");
    assert!(rtt.get() * 2 > queueing.get(), "{rtt} with a queue of {queueing}");
}

#[test]
fn flows_fill_the_link_and_the_accounting_balances() {
    if !weft_host::testing::privileged("flows_fill_the_link_and_the_accounting_balances") {
        return;
    }
    let _alone = weft_host::testing::alone();
    // One after the other: two at once would measure each other.
    for flows in [1, 16] {
        check(flows);
    }
}

/// The iperf3 servers among the children of this process.
fn servers() -> Vec<Pid> {
    let children = std::fs::read_dir("/proc/self/task")
        .expect("threads")
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<i32> = children
        .flat_map(|all| all.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let serves = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"iperf3")) && words.next() == Some(b"--server")
    };
    pids.into_iter().filter(serves).filter_map(Pid::from_raw).collect()
}

/// A receiver that is not scheduled for 60 ms at the beginning of the steady part reads the payload of before within
/// it, which is 2 % of three seconds. Throughput is of payload that arrived.
#[test]
fn a_receiver_that_reads_late_receives_no_more_than_the_link_carries() {
    if !weft_host::testing::privileged("a_receiver_that_reads_late_receives_no_more_than_the_link_carries") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let mut late = None;
    let mut stop = |progress| {
        if progress != MeasurementStage::Connected {
            return;
        }
        late = Some(std::thread::spawn(|| {
            let stopped = servers();
            // iperf3's intervals of half a second have the connection's beginning as their origin.
            for wait in [970, 440] {
                std::thread::sleep(Duration::from_millis(wait));
                stopped.iter().for_each(|pid| kill_process(*pid, Signal::STOP).expect("stopped"));
                std::thread::sleep(Duration::from_millis(60));
                stopped.iter().for_each(|pid| kill_process(*pid, Signal::CONT).expect("continued"));
            }
            stopped.len()
        }));
    };
    let (bottleneck, measured) = through(16, &mut stop);
    assert_eq!(late.map(|thread| thread.join().expect("no panic")), Some(1), "receivers that were stopped");
    full(&bottleneck, &measured);
}
