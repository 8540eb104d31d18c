//! Tests that need no kernel: descriptions, errors, and figures computed from samples.

use super::*;
use weft_units::Counted;

fn bottleneck() -> Bottleneck {
    Bottleneck {
        rate: BitsPerSec(153_800_000),
        queue: Bytes(100_000),
        delay: Nanos::ZERO,
        flows: 1,
        duration: Nanos::from_secs(3),
        congestion_control: "cubic".to_owned(),
        mtu: 1500,
    }
}

#[test]
fn the_payloads_share_of_the_wire() {
    assert_eq!(bottleneck().segment(), Bytes(1448));
    assert_eq!(bottleneck().payload_rate(), BitsPerSec(144_800_000));
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_made() {
    let text = |b: Bottleneck| b.check().expect_err("refused").to_string();
    let delayed = text(Bottleneck { delay: Nanos::from_millis(5), ..bottleneck() });
    assert!(delayed.contains("5 ms") && delayed.contains("netem"), "{delayed}");
    assert!(text(Bottleneck { flows: 0, ..bottleneck() }).contains("0 flows"));
    assert!(text(Bottleneck { flows: MAX_FLOWS + 1, ..bottleneck() }).contains("1025 flows"));
    assert!(text(Bottleneck { queue: Bytes(1513), ..bottleneck() }).contains("frame"));
    assert!(text(Bottleneck { duration: Nanos::ZERO, ..bottleneck() }).contains("duration"));
    assert!(text(Bottleneck { mtu: 100, ..bottleneck() }).contains("MTU"));
    assert!(text(Bottleneck { rate: BitsPerSec(1), ..bottleneck() }).contains("rate"));
    assert!(bottleneck().check().is_ok());
}

#[test]
fn missing_rights_are_named() {
    let error = KernelTcpError::from(weft_host::RightsError { missing: vec!["CAP_NET_ADMIN"] });
    let text = error.to_string();
    assert!(text.starts_with("measuring the kernel's TCP: ") && text.contains("CAP_NET_ADMIN"), "{text}");
    assert!(text.contains("run as root"), "{text}");
}

#[test]
fn a_missing_congestion_control_is_named_with_those_there_are() {
    if !weft_host::testing::privileged("a_missing_congestion_control_is_named_with_those_there_are") {
        return;
    }
    let wanted = Bottleneck { congestion_control: "no-such".to_owned(), ..bottleneck() };
    let text = measure(&wanted, &mut |_| {}).expect_err("none").to_string();
    assert!(text.contains("no-such") && text.contains("reno"), "{text}");
}

#[test]
fn the_queues_figures_are_those_of_its_samples() {
    let samples: Vec<BottleneckSample> = (1..=100)
        .map(|i| BottleneckSample {
            at: Nanos::from_millis(2 * i),
            backlog: Bytes(1000 * i),
            waiting: Packets(i),
        })
        .collect();
    let queue = standing_queue(&samples).expect("samples");
    assert!((queue.mean - 50_500.0).abs() < 1e-6);
    assert_eq!(queue.percentiles[2], (50.0, Bytes(50_000)));
    assert_eq!(queue.percentiles[4], (99.0, Bytes(99_000)));
    assert_eq!(queue.range, (Bytes(1000), Bytes(100_000)));
    assert_eq!(queue.longest_gap, Nanos::from_millis(2));
    assert_eq!(standing_queue(&[]), None);
}

/// Readings of a queue at an interval: packets waiting, and the fraction of the link's capacity sent.
fn lost(readings: &[(u64, f64)], interval: Nanos) -> f64 {
    let rate = BitsPerSec(100_000_000);
    let mut lost = LostTime::new(rate);
    let mut before = (Instant::ZERO, QdiscCounters::default());
    for &(waiting, part) in readings {
        let bytes = (rate.bytes_in(interval).get() as f64 * part) as u64;
        // Frames of 1538 bytes on the wire, 1514 in the kernel's count.
        let packets = Packets(bytes / 1538);
        let stats = QdiscCounters {
            sent: before.1.sent + Counted { packets, bytes: Bytes(packets.get() * 1514) },
            backlog: Counted::new(waiting, waiting * 1514),
            ..QdiscCounters::default()
        };
        let now = (before.0 + interval, stats);
        lost.read(&before, &now);
        before = now;
    }
    lost.part_of(before.0.since_epoch())
}

#[test]
fn a_bottleneck_loses_time_only_while_packets_wait() {
    let near = |seen: f64, expected: f64| assert!((seen - expected).abs() < 0.06, "{seen} for {expected}");
    let each = SAMPLE_INTERVAL;
    near(lost(&[(100, 1.0); 100], each), 0.0);
    near(lost(&[(100, 0.6); 100], each), 0.4);
    // A pause that is made up for is no loss.
    let by_turns: Vec<_> = (0..100).map(|i| (100, if i % 2 == 0 { 0.5 } else { 1.5 })).collect();
    near(lost(&by_turns, each), 0.0);
    // Nothing waits: senders that send too little lose none of the machine's time.
    near(lost(&[(0, 0.5); 100], each), 0.0);
    near(lost(&[(3, 0.5); 100], each), 0.0);
    // With late readings the backlog proves nothing; packets waited and the machine was late.
    near(lost(&[(3, 0.5); 100], Nanos(20 * each.get())), 0.5);
    near(lost(&[(0, 0.5); 100], Nanos(20 * each.get())), 0.0);
}
