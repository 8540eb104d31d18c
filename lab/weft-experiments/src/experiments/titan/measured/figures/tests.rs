//! Figures of logs with known results, and of random ones against a count of each byte.

use super::*;
use core::net::{IpAddr, Ipv4Addr};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use weft_units::{Packets, Protocol, TxQueueId};

const GIGABIT: BitsPerSec = BitsPerSec(1_000_000_000);

fn key(sport: u16) -> FlowKey {
    let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    FlowKey { src: address(1), dst: address(2), sport, dport: 5201, protocol: Protocol::TCP }
}

/// The flow whose local port is 1000 more than its number.
fn number(key: &FlowKey) -> Option<u32> {
    u32::from(key.sport).checked_sub(1000)
}

fn departure(flow: u32, start: u64, end: u64, wire: u64, segments: u64) -> WireDeparture {
    WireDeparture {
        start: Instant::from_nanos(start),
        end: Instant::from_nanos(end),
        queue: TxQueueId(0),
        flow,
        wire: Bytes(wire),
        segments: Packets(segments),
    }
}

fn log(flows: u32, departures: Vec<WireDeparture>) -> WireLog {
    WireLog {
        flows: (0..flows).map(|flow| Some(key(1000 + flow as u16))).collect(),
        departures,
        ..WireLog::default()
    }
}

/// Full frames on a full link, with the flows in the order of `turns`, repeated.
fn turns(flows: u32, order: &[u32], span: Nanos) -> WireLog {
    let frame = GIGABIT.time_for(Bytes(1538)).get();
    let count = span.get() / frame;
    let at = |i: u64| departure(order[i as usize % order.len()], i * frame, (i + 1) * frame, 1538, 1);
    log(flows, (0..count).map(at).collect())
}

fn close(a: f64, b: f64, by: f64) -> bool {
    (a - b).abs() <= by
}

#[test]
fn turns_by_packet_are_fair_and_one_flow_alone_is_not() {
    let span = Nanos::from_secs(1);
    let window = Instant::ZERO..Instant::after_epoch(span);
    let fair = Steady::new(&turns(4, &[0, 1, 2, 3], span), 4, window.clone(), number);
    let nfm = fair.nfm(GIGABIT, Nanos::from_millis(100)).expect("intervals");
    assert_eq!(nfm.intervals, 10);
    assert!(nfm.max < 0.001, "{nfm:?}");
    // In a millisecond a flow's share is 20.3 frames, give or take one.
    let short = fair.nfm(GIGABIT, Nanos::from_millis(1)).expect("intervals");
    assert!(short.mean > 0.005 && short.max < 0.06, "{short:?}");

    // One of four flows uses the whole link: its four fair shares against zero.
    let alone = Steady::new(&turns(4, &[2], span), 4, window, number);
    let nfm = alone.nfm(GIGABIT, Nanos::from_millis(10)).expect("intervals");
    assert!(close(nfm.mean, 4.0, 0.001) && close(nfm.max, 4.0, 0.001), "{nfm:?}");
}

/// Three flows over eight queues: two share a queue and each get half of the third's rate. With shares 1/4, 1/4 and
/// 1/2 of the link, the difference is a quarter and the fair share a third: 3/4, as in the report's collisions.
#[test]
fn two_of_three_flows_in_a_queue() {
    let span = Nanos::from_secs(2);
    let log = turns(3, &[0, 2, 1, 2], span);
    let steady = Steady::new(&log, 3, Instant::ZERO..Instant::after_epoch(span), number);
    let nfm = steady.nfm(GIGABIT, Nanos::from_secs(1)).expect("intervals");
    assert!(close(nfm.mean, 0.75, 0.001), "{nfm:?}");
    let rates = steady.rates();
    assert!(close(rates[2].get() as f64 / rates[0].get() as f64, 2.0, 0.001), "{rates:?}");
    let all: BitsPerSec = rates.iter().copied().sum();
    assert!(close(all.get() as f64 / 1e9, 1.0, 1e-4), "{all}");
    // 1448 of 1538 bytes are payload.
    assert!(close(steady.payload().get() as f64 / 1e9, 1448.0 / 1538.0, 1e-3), "{}", steady.payload());
}

#[test]
fn a_long_packet_is_spread_over_its_time() {
    // 64 KB that take 10 intervals: a tenth in each.
    let steady = Steady::new(
        &log(1, vec![departure(0, 500, 10_500, 64_000, 43)]),
        1,
        Instant::from_nanos(1000)..Instant::from_nanos(10_000),
        number,
    );
    let mut seen = Vec::new();
    steady.intervals(Nanos(1000), |sent| seen.push(sent[0]));
    assert_eq!(seen, [Bytes(6400); 9]);
    assert_eq!(steady.sent(), [Bytes(57_600)]);
    assert_eq!(steady.payload(), BitsPerSec(0), "it ends after the window");
}

#[test]
fn other_flows_do_not_count_and_silent_flows_do() {
    let mut log = turns(3, &[0, 1, 2], Nanos::from_millis(10));
    log.flows[2] = Some(key(22));
    log.flows.push(None);
    log.departures.push(departure(3, 0, 1000, 1_000_000, 1));
    let steady = Steady::new(&log, 3, Instant::ZERO..Instant::from_millis(10), number);
    let sent = steady.sent();
    assert!(sent[0] > Bytes(400_000) && sent[1] > Bytes(400_000), "{sent:?}");
    assert_eq!(sent[2], Bytes(0), "the third flow has sent nothing; what port 22 sent is not its");
    let nfm = steady.nfm(GIGABIT, Nanos::from_millis(10)).expect("an interval");
    assert!(close(nfm.mean, 1.0, 0.01), "{nfm:?}");
}

#[test]
fn what_is_not_there_has_no_figure() {
    let log = turns(2, &[0, 1], Nanos::from_millis(5));
    let steady = Steady::new(&log, 2, Instant::ZERO..Instant::from_millis(5), number);
    assert_eq!(steady.nfm(GIGABIT, Nanos::from_millis(6)), None, "no whole interval");
    assert_eq!(steady.nfm(GIGABIT, Nanos::ZERO), None);
    assert_eq!(steady.nfm(BitsPerSec(0), Nanos::from_millis(1)), None);
    let none = Steady::new(&log, 0, Instant::ZERO..Instant::from_millis(5), number);
    assert_eq!(none.nfm(GIGABIT, Nanos::from_millis(1)), None);
    // A log from outside may have any content.
    let odd =
        super::WireLog { departures: vec![departure(9, 5, 1, 10, 1), departure(0, 7, 7, 10, 1)], ..log };
    assert_eq!(
        Steady::new(&odd, 2, Instant::from_nanos(0)..Instant::from_nanos(10), number).sent(),
        [Bytes(10), Bytes(0)]
    );
}

#[test]
fn shares_follow_the_weights() {
    // Weights 1:2:4 over six flows, each three consecutive ones being a set: flow i is in group i % 3.
    let order = [2, 5, 2, 5, 1, 4, 2, 5, 2, 5, 1, 4, 0, 3];
    let log = turns(6, &order, Nanos::from_secs(2));
    let steady = Steady::new(&log, 6, Instant::ZERO..Instant::from_secs(2), number);
    let shares = steady.shares(&[1.0, 2.0, 4.0], Nanos::from_secs(1));
    assert_eq!(shares.len(), 2);
    for share in shares.iter().flatten() {
        assert!(close(*share, 1.0, 0.001), "{shares:?}");
    }
    let equal = steady.shares(&[1.0, 1.0, 1.0], Nanos::from_secs(1));
    assert!(close(equal[0][2], 12.0 / 7.0, 0.001) && close(equal[0][0], 3.0 / 7.0, 0.001), "{equal:?}");
    assert!(steady.shares(&[], Nanos::from_secs(1)).is_empty());
}

/// Counts byte by byte: byte `k` has left at the first nanosecond at which more than `k` bytes have.
fn slowly(log: &WireLog, flows: usize, window: Range<Instant>, tau: u64) -> Vec<Vec<Bytes>> {
    let count = (window.end - window.start).get() / tau;
    let mut all = vec![vec![Bytes(0); flows]; count as usize];
    for one in &log.departures {
        let Some(flow) = log.flows[one.flow as usize].as_ref().and_then(number) else { continue };
        for byte in 0..one.wire.get() {
            let mut at = one.start.as_nanos();
            while at < one.end.as_nanos()
                && one.wire.get() * (at - one.start.as_nanos()) / (one.end - one.start).get() <= byte
            {
                at += 1;
            }
            // An interval has the bytes that left after its beginning, up to and including its end.
            if at > window.start.as_nanos() && at - window.start.as_nanos() <= count * tau {
                all[((at - window.start.as_nanos() - 1) / tau) as usize][flow as usize] += Bytes(1);
            }
        }
    }
    all
}

#[test]
fn random_logs_against_counting_each_byte() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for _ in 0..200 {
        let mut below = |bound: u64| random.next_u64() % bound;
        let departures = (0..below(20)).map(|_| {
            let start = below(200);
            departure(below(3) as u32, start, start + 1 + below(90), below(60), 1)
        });
        let log = log(3, departures.collect());
        let (from, tau) = (below(100), 1 + below(40));
        let window = Instant::from_nanos(from)..Instant::from_nanos(from + below(150));
        let mut fast = Vec::new();
        let steady = Steady::new(&log, 3, window.clone(), number);
        steady.intervals(Nanos(tau), |sent| fast.push(sent.to_vec()));
        let slow = slowly(&log, 3, window.clone(), tau);
        assert_eq!(fast, slow, "{log:?} {window:?} {tau}");
        let expected: Vec<f64> =
            slow.iter().filter_map(|sent| stats::nfm(sent, GIGABIT, Nanos(tau))).collect();
        let nfm = steady.nfm(GIGABIT, Nanos(tau));
        assert_eq!(nfm.map(|nfm| nfm.intervals), (!expected.is_empty()).then_some(expected.len() as u64));
        let mean = stats::mean(&expected).unwrap_or(0.0);
        assert!(close(nfm.map_or(0.0, |nfm| nfm.mean), mean, 1e-9 * mean.max(1.0)), "{nfm:?} {mean}");
    }
}
