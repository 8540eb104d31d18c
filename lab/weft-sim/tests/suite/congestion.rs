//! Congestion control in closed loops over a path of fixed round-trip time, against closed forms in floating point.

use weft_sim::congestion::{self, Acknowledged, CongestionControl, CongestionWindow, Cubic, Dctcp, Reno};
use weft_units::Nanos;

/// A sender that always has data.
struct Sender {
    control: Box<dyn CongestionControl>,
    window: CongestionWindow,
    now: Nanos,
    delivered: u64,
    limited: bool,
}

impl Sender {
    fn new(control: impl CongestionControl + 'static) -> Self {
        Self::of(Box::new(control))
    }

    fn of(control: Box<dyn CongestionControl>) -> Self {
        Self { control, window: CongestionWindow::INITIAL, now: Nanos::ZERO, delivered: 0, limited: true }
    }

    /// Acknowledges `packets`, `marked` of them marked, `after` the last acknowledgement.
    fn acknowledge(&mut self, packets: u32, marked: u32, rtt: Nanos, after: Nanos) {
        self.now += after;
        self.delivered += u64::from(packets);
        let in_flight = self.window.cwnd;
        // Delivered packets have been replaced in flight, except those of this acknowledgement.
        let sent = self.delivered + u64::from(in_flight.saturating_sub(packets));
        self.control.on_acknowledged(
            &Acknowledged {
                now: self.now,
                packets,
                marked,
                rtt: Some(rtt),
                smoothed_rtt: rtt,
                in_flight,
                sent,
                delivered: self.delivered,
                window_limited: self.limited,
            },
            &mut self.window,
        );
    }

    /// A round trip whose acknowledgements, one per packet, are spread evenly over it.
    fn round(&mut self, rtt: Nanos) {
        let packets = self.window.cwnd;
        for _ in 0..packets {
            self.acknowledge(1, 0, rtt, Nanos(rtt.get() / u64::from(packets)));
        }
    }

    /// A round trip with acknowledgements `spacing` apart at its end.
    fn burst(&mut self, rtt: Nanos, spacing: Nanos) {
        let packets = self.window.cwnd;
        let first = rtt.saturating_sub(Nanos(spacing.get() * u64::from(packets - 1)));
        self.acknowledge(1, 0, rtt, first);
        (1..packets).for_each(|_| self.acknowledge(1, 0, rtt, spacing));
    }

    fn lose(&mut self) {
        self.control.on_loss(self.now, &mut self.window);
    }
}

const RTT: Nanos = Nanos::from_millis(100);

#[test]
fn every_name_builds_and_no_other() {
    for name in congestion::NAMES {
        let control = congestion::build(name).expect(name);
        assert_eq!(control.uses_ecn(), *name == "dctcp", "{name}");
    }
    assert!(congestion::build("bbr").is_none());
}

#[test]
fn reno_doubles_in_slow_start_and_grows_by_one_per_round_after_it() {
    let mut sender = Sender::new(Reno::default());
    for expected in [20, 40, 80, 160] {
        sender.round(RTT);
        assert_eq!(sender.window.cwnd, expected);
    }
    sender.lose();
    assert_eq!(sender.window, CongestionWindow { cwnd: 80, ssthresh: 80 });
    for expected in 81..120 {
        sender.round(RTT);
        assert_eq!(sender.window.cwnd, expected);
    }
    sender.control.on_timeout(sender.now, &mut sender.window);
    assert_eq!(sender.window, CongestionWindow { cwnd: 1, ssthresh: 59 });
    for expected in [2, 4, 8, 16, 32] {
        sender.round(RTT);
        assert_eq!(sender.window.cwnd, expected);
    }
    // Slow start ends at the threshold: 27 packets lead to it, the other 5 count only towards the next packet.
    sender.round(RTT);
    assert_eq!(sender.window.cwnd, 59);
    // One acknowledgement for many packets counts fully.
    sender.acknowledge(59 - 5, 0, RTT, RTT);
    assert_eq!(sender.window.cwnd, 60);
}

#[test]
fn growth_keeps_what_is_left_over() {
    let mut sender = Sender::new(Reno::default());
    sender.window.ssthresh = 5;
    for (packets, expected) in [(15, 11), (5, 11), (1, 12), (25, 14), (12, 14), (1, 15)] {
        sender.acknowledge(packets, 0, RTT, RTT);
        assert_eq!(sender.window.cwnd, expected);
    }
}

/// A timeout resets the maximum, so that beyond the threshold the window grows as before any loss.
#[test]
fn cubic_forgets_its_maximum_at_a_timeout() {
    let mut sender = cubic_after_loss(1000, RTT);
    sender.control.on_timeout(sender.now, &mut sender.window);
    assert_eq!(sender.window, CongestionWindow { cwnd: 1, ssthresh: 490 });
    (0..9).for_each(|_| sender.burst(RTT, Nanos(10)));
    let before = sender.window.cwnd;
    assert!((490..520).contains(&before), "{before}");
    sender.burst(RTT, Nanos(10));
    assert!(sender.window.cwnd >= before + before / 20, "{before}, then {}", sender.window.cwnd);
}

#[test]
fn windows_and_thresholds_have_a_least_value() {
    for name in congestion::NAMES {
        let mut sender = Sender::of(congestion::build(name).expect(name));
        for _ in 0..20 {
            sender.lose();
        }
        assert_eq!(sender.window, CongestionWindow { cwnd: 2, ssthresh: 2 }, "{name}");
        sender.control.on_timeout(sender.now, &mut sender.window);
        assert_eq!(sender.window, CongestionWindow { cwnd: 1, ssthresh: 2 }, "{name}");
    }
}

#[test]
fn nothing_grows_while_the_window_is_not_what_limits() {
    for name in congestion::NAMES {
        for ssthresh in [u32::MAX, 5] {
            let mut sender = Sender::of(congestion::build(name).expect(name));
            sender.window.ssthresh = ssthresh;
            sender.limited = false;
            let before = sender.window;
            (0..100).for_each(|_| sender.burst(RTT, Nanos(10)));
            assert_eq!(sender.window, before, "{name}");
            sender.limited = true;
            sender.burst(RTT, Nanos(10));
            sender.burst(RTT, Nanos(10));
            assert!(sender.window.cwnd > before.cwnd, "{name}");
        }
    }
}

/// Returns a CUBIC sender after a loss at this window.
fn cubic_after_loss(window: u32, rtt: Nanos) -> Sender {
    let mut sender = Sender::new(Cubic::default());
    sender.window = CongestionWindow { cwnd: window, ssthresh: window / 2 };
    // One round-trip time is measured.
    sender.limited = false;
    sender.acknowledge(1, 0, rtt, rtt);
    sender.limited = true;
    sender.lose();
    sender
}

/// Returns the greatest relative distance of the window from `C (t - K)^3 + W_max` over `rounds`.
fn distance_from_cubic(sender: &mut Sender, max: f64, rtt: Nanos, rounds: u32) -> f64 {
    let start = sender.now;
    let inflection = ((max - f64::from(sender.window.cwnd)) / 0.4).cbrt();
    let mut worst: f64 = 0.0;
    for _ in 0..rounds {
        sender.round(rtt);
        let time = (sender.now - start).as_secs_f64();
        let expected = 0.4 * (time - inflection).powi(3) + max;
        worst = worst.max((f64::from(sender.window.cwnd) - expected).abs() / expected);
    }
    worst
}

#[test]
fn cubic_follows_its_function_after_a_loss() {
    for (window, rtt) in
        [(1000, RTT), (3000, RTT), (1000, Nanos::from_millis(50)), (400, Nanos::from_millis(200))]
    {
        let mut sender = cubic_after_loss(window, rtt);
        assert_eq!(sender.window.cwnd, window * 717 / 1024);
        // To the inflection and equally far beyond it.
        let rounds = 2.0 * (f64::from(window) * 0.3 / 0.4).cbrt() / rtt.as_secs_f64();
        let worst = distance_from_cubic(&mut sender, window.into(), rtt, rounds as u32);
        assert!(worst < 0.02, "{window} packets, {rtt}: off by {worst}");
        assert!(sender.window.cwnd > window);
    }
}

/// Fast convergence: a loss below the last maximum makes room, the inflection lies at (1 + beta) / 2 of the window.
#[test]
fn cubic_makes_room_when_it_loses_early() {
    let mut sender = cubic_after_loss(1000, RTT);
    sender.lose();
    assert_eq!(sender.window.cwnd, 490);
    let worst = distance_from_cubic(&mut sender, 700.0 * (1.0 + 0.7) / 2.0, RTT, 120);
    assert!(worst < 0.02, "off by {worst}");
}

/// With short round trips CUBIC is at least as fast as Reno's average (RFC 9438, section 4.3): 3 (1 - beta) / (1 + beta) packets
/// per round.
#[test]
fn cubic_is_as_fast_as_reno_over_short_round_trips() {
    let rtt = Nanos::from_millis(10);
    let mut sender = cubic_after_loss(100, rtt);
    let start = f64::from(sender.window.cwnd);
    for round in 1..=50 {
        sender.round(rtt);
        let expected = start + 3.0 * 0.3 / 1.7 * f64::from(round);
        let off = (f64::from(sender.window.cwnd) - expected).abs() / expected;
        assert!(off < 0.04, "round {round}: {} and not {expected}", sender.window.cwnd);
    }
}

#[test]
fn hystart_ends_slow_start_when_round_trips_grow() {
    // An eighth of 80 ms is 10 ms: within the bounds of 4 and 16 ms; of 8 ms it is 1 ms, which 4 ms replaces.
    for (least, small, large) in [(80, 89, 91), (8, 11, 13), (400, 415, 417)] {
        let [least, small, large] = [least, small, large].map(Nanos::from_millis);
        let mut sender = Sender::new(Cubic::default());
        sender.burst(least, Nanos(10));
        sender.burst(small, Nanos(10));
        assert_eq!(sender.window, CongestionWindow { cwnd: 40, ssthresh: u32::MAX }, "unchanged");
        sender.burst(small, Nanos(10));
        assert_eq!(sender.window, CongestionWindow { cwnd: 80, ssthresh: u32::MAX });
        sender.burst(large, Nanos(10));
        // The first acknowledgement still belongs to the previous round; then eight samples and the deciding one follow.
        let found = sender.window.ssthresh;
        assert!((88..=90).contains(&found), "{found}");
        assert!(sender.window.cwnd >= found && sender.window.cwnd < 100, "{:?}", sender.window);
    }
}

#[test]
fn hystart_ends_slow_start_when_a_train_fills_the_pipe() {
    let rtt = Nanos::from_millis(50);
    let run = |spacing| {
        let mut sender = Sender::new(Cubic::default());
        (0..2).for_each(|_| sender.burst(rtt, Nanos::from_micros(10)));
        sender.burst(rtt, spacing);
        sender.window
    };
    // 40 acknowledgements: 20 ms at 500 us, 31 ms at 800 us, for a one-way pipe of 25 ms.
    assert_eq!(run(Nanos::from_micros(500)), CongestionWindow { cwnd: 80, ssthresh: u32::MAX });
    let window = run(Nanos::from_micros(800));
    assert!((70..76).contains(&window.ssthresh) && window.cwnd < 80, "{window:?}");
    // Acknowledgements more than 2 ms apart never form a train.
    assert_eq!(run(Nanos::from_micros(2100)).ssthresh, u32::MAX);
}

#[test]
fn dctcp_finds_the_marked_fraction() {
    for fraction in [0.05, 0.25, 0.5, 1.0] {
        let mut control = Dctcp::default();
        let (mut window, mut delivered) = (CongestionWindow { cwnd: 100, ssthresh: 50 }, 0);
        for round in 0..200 {
            // 100 packets per window, acknowledged in pairs; the marked ones last.
            for pair in 0..50 {
                delivered += 2;
                let marked = if pair >= 50 - (50.0 * fraction) as u32 { 2 } else { 0 };
                let ack = Acknowledged {
                    now: Nanos(delivered),
                    packets: 2,
                    marked,
                    rtt: Some(RTT),
                    smoothed_rtt: RTT,
                    in_flight: 100,
                    sent: delivered + 98,
                    delivered,
                    window_limited: false,
                };
                control.on_acknowledged(&ack, &mut window);
            }
            // alpha = F + (1 - F) (1 - g)^n for constant F; the kernel's arithmetic is accurate to 1/64.
            let marked = (50.0 * fraction) as u32;
            let exact = f64::from(marked) / 50.0;
            let expected = exact + (1.0 - exact) * (15.0_f64 / 16.0).powi(round);
            assert!(
                (control.alpha() - expected).abs() < 0.08,
                "{fraction}: {} after {round}",
                control.alpha()
            );
            if round > 100 {
                assert!((control.alpha() - exact).abs() < 1.0 / 64.0, "{fraction}: {}", control.alpha());
            }
        }
    }
}

#[test]
fn dctcp_shrinks_by_half_of_alpha_once_per_window() {
    let mut sender = Sender::new(Dctcp::default());
    sender.window = CongestionWindow { cwnd: 100, ssthresh: 50 };
    sender.acknowledge(1, 1, RTT, RTT);
    assert_eq!(
        sender.window,
        CongestionWindow { cwnd: 50, ssthresh: 50 },
        "alpha is 1 before anything is known"
    );
    // The other 99 of that window have no effect, marked or not.
    (0..98).for_each(|i| sender.acknowledge(1, i % 2, RTT, Nanos(1)));
    assert_eq!(sender.window.cwnd, 50);
    // After a long time without marks alpha is 0: a mark has no effect, and growth between marks is Reno's.
    let before = sender.window.cwnd;
    (0..150).for_each(|_| sender.round(RTT));
    assert!(sender.window.cwnd.abs_diff(before + 150) <= 1, "{:?}", sender.window);
    let before = sender.window.cwnd;
    sender.acknowledge(1, 1, RTT, RTT);
    assert_eq!(sender.window, CongestionWindow { cwnd: before, ssthresh: before });
    // A loss still halves the window.
    sender.lose();
    assert_eq!(sender.window.cwnd, before / 2);
}
