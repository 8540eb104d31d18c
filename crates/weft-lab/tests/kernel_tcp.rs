//! The kernel's own TCP through a bottleneck: it fills the link, fills the queue, and the qdisc's accounting
//! balances.

use weft_lab::experiments::kernel_tcp::{Bottleneck, Measured, QueueSample, measure};
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, Nanos};

fn through(flows: u32) -> (Bottleneck, Measured) {
    let bottleneck = Bottleneck {
        rate: BitsPerSec(100_000_000),
        queue: Bytes(200_000),
        delay: Nanos::ZERO,
        flows,
        duration: Nanos::from_secs(3),
        congestion_control: "cubic".to_owned(),
        mtu: 1500,
    };
    let measured = measure(&bottleneck, &mut |_| {}).expect("measured");
    (bottleneck, measured)
}

fn check(flows: u32) {
    let (bottleneck, measured) = through(flows);
    let lost = measured.link_lost;
    let shown =
        (measured.throughput, (measured.link_use, lost), measured.standing_queue, measured.accounting);
    let part = measured.throughput.get() as f64 / bottleneck.payload_rate().get() as f64;
    // Flows can fill the time that the machine served. Receivers count whole blocks, which may shift the edge of the
    // steady part a little.
    assert!((0.9 - lost..=1.005).contains(&part), "{part} of the payload's share: {shown:?}");
    assert!((0.9 - lost..=1.005).contains(&measured.link_use), "{shown:?}");
    assert_eq!(measured.flows.len(), flows as usize);
    assert!(measured.standing_queue.mean > 0.0, "{shown:?}");
    assert!(measured.standing_queue.range.1 <= bottleneck.queue, "{shown:?}");
    let frame = ethernet::frame_of(Bytes(bottleneck.mtu.into())).get();
    // Bytes and packets are two counters, updated one after the other and read in between at times, so they may
    // disagree by one packet. An uncut segment would be worth many.
    let within =
        |sample: &QueueSample, spare: u64| sample.backlog.get() <= (sample.waiting.get() + spare) * frame;
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
    // One after the other: two at once would measure each other.
    for flows in [1, 16] {
        check(flows);
    }
}
