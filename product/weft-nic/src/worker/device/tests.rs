//! The length of sleeps, and the rate that back-pressure shows, in virtual time.

use super::*;
use crate::link::Link;
use weft_policy::{CompileOptions, Source, compile};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
/// A page of 5 kB on the wire, with headers and framing.
const ANSWER: Bytes = Bytes(5600);

/// A device with one ring, of a class that has the whole link.
fn device() -> Device {
    let text = "class a = udp\nroot = priority { a, default }";
    let policy = compile(Source { name: "t", text }, &CompileOptions::default()).policy.expect("policy");
    let link = DeviceLink { rate: LinkRate::Given, piece: None };
    let mut device = Device::new(link, RATE, Bytes(WHOLE), &policy.program);
    device.add_ring(0, LaneId(0));
    device
}

/// The longest wait of an answer before it is sent, of `count` answers in all. Each of `clients` asks again `thinks` after its answer
/// has left, and the worker sends while the link is free and sleeps as long as [`Device::moderation`] says.
fn longest_wait(clients: usize, thinks: Nanos, count: u32) -> Nanos {
    let (mut device, mut link) = (device(), Link::new(RATE, Nanos::from_millis(10), Instant::ZERO));
    let mut ready: Vec<Instant> = (0..clients).map(|at| Instant::from_nanos(1 + 1000 * at as u64)).collect();
    let (mut now, mut longest, mut sent) = (Instant::ZERO, Nanos::ZERO, 0);
    while sent < count {
        link.follow(now);
        if let Some(until) = link.busy_until(now) {
            let waiting = ready.iter().filter(|ready| **ready <= now).count() as u64;
            let least = device.moderation(now, until - now, |enough| waiting >= enough);
            now = now + (until - now).max(least);
            continue;
        }
        let Some(next) = ready.iter_mut().min() else { break };
        if *next > now {
            // A doorbell wakes the worker.
            now = *next;
            link.idle_until(now);
            continue;
        }
        longest = longest.max(now - *next);
        let departure = link.send(ANSWER);
        device.served(0, (ANSWER, ANSWER), true, (now, now));
        *next = departure.max(now) + thinks;
        sent += 1;
    }
    longest
}

#[test]
fn small_answers_at_an_idle_link_do_not_wait_for_the_long_sleep() {
    // Four clients that use the whole link, and four that think for longer.
    for thinks in [10, 60, 300].map(Nanos::from_micros) {
        let longest = longest_wait(4, thinks, 20_000);
        assert!(longest < Nanos::from_micros(300), "{longest:?} with {thinks:?} between answer and request");
    }
}

#[test]
fn bulk_is_sent_after_the_long_sleep() {
    let mut device = device();
    let (now, packet) = (Instant::from_secs(1), Bytes(68_000));
    for _ in 0..40 {
        device.served(0, (packet, packet), true, (now, now));
    }
    // The class was urgent at first, and counts as active for some time after it.
    let later = now + Nanos::from_millis(200);
    let sleep = |packets: u64, ahead| device.moderation(later, ahead, |enough| packets >= enough);
    assert_eq!(sleep(1, Nanos(1)), BULK_SLEEP, "one super-packet is a standing backlog at 1 Gb/s");
    assert_eq!(sleep(0, Nanos(1)), MODERATION);
    assert_eq!(sleep(0, STANDING), BULK_SLEEP, "the link is busy for as long");
}

/// Writes at `rate` from one blocked write to the next, every millisecond of `from_ms..to_ms`.
fn run(pressure: &mut Pressure, rate: BitsPerSec, from_ms: u64, to_ms: u64) {
    for ms in from_ms..to_ms {
        pressure.wrote(rate.bytes_in(Nanos::from_millis(1)));
        pressure.blocked(Instant::from_millis(ms));
    }
}

#[test]
fn a_bottleneck_is_observed_and_followed() {
    let mut pressure = Pressure::default();
    assert_eq!(pressure.observed(), None);
    run(&mut pressure, BitsPerSec(300_000_000), 0, 200);
    let seen = pressure.observed().expect("a rate").get();
    assert!((290_000_000..=310_000_000).contains(&seen), "{seen}");
    let piece = pressure.piece(Bytes(65_536)).get();
    assert!((14_500..=15_500).contains(&piece), "{piece}");
    assert_eq!(pressure.bound(Bytes(65_536)).get(), piece + piece / 2);
    run(&mut pressure, BitsPerSec(50_000_000), 200, 600);
    let seen = pressure.observed().expect("a rate").get();
    assert!((49_000_000..=51_500_000).contains(&seen), "{seen}");
    assert_eq!(pressure.piece(Bytes(65_536)), PIECE_MIN);
    assert!(pressure.is_on(Instant::from_millis(700)) && !pressure.is_on(Instant::from_millis(900)));
    assert!(!pressure.settle(Instant::from_millis(1500)) && pressure.settle(Instant::from_millis(1700)));
    assert_eq!(pressure.observed(), None);
}

#[test]
fn a_device_that_sends_nothing_for_a_while_has_a_rate_still() {
    let mut pressure = Pressure::default();
    // A packet each 47 ms, and an attempt each 20.
    for ms in (0..2000_u64).step_by(20) {
        if ms / 47 != ms.saturating_sub(20) / 47 {
            pressure.wrote(Bytes(1466));
        }
        pressure.blocked(Instant::from_millis(ms));
        let seen = pressure.observed().map_or(250_000, BitsPerSec::get);
        assert!((100_000..=600_000).contains(&seen), "{seen} after {ms} ms");
    }
    assert!(pressure.observed().is_some());
}

#[test]
fn a_pause_is_not_taken_for_a_slow_device() {
    let mut pressure = Pressure::default();
    run(&mut pressure, BitsPerSec(300_000_000), 0, 100);
    pressure.paused();
    run(&mut pressure, BitsPerSec(300_000_000), 600, 700);
    let seen = pressure.observed().expect("a rate").get();
    assert!((290_000_000..=310_000_000).contains(&seen), "{seen}");
}
