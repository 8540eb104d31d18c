//! Sleeping and waking: no wake-up while the NIC is awake or idle without traffic, and none lost when it sleeps.

use crate::common::bench;
use crate::common::bench::{Bench, doorbells_only};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, wait_for};
use weft_nic::doorbell::protocol;
use weft_nic::testbed::RECEIVER;

const POLICY: &str = "class u = udp\nroot = fair of u";

#[test]
fn each_single_packet_wakes_a_sleeping_nic() {
    if !weft_host::testing::privileged("each_single_packet_wakes_a_sleeping_nic") {
        return;
    }
    let bench = Bench::roomy("wak", POLICY, 100);
    let far = bench.receiver(false, 6000);
    let near = bench.sender(false);
    near.set_read_timeout(Some(PATIENCE)).expect("timeout");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 100];
            // However long the other thread pauses between two.
            for _ in 0..200 {
                let Ok((n, from)) = far.recv_from(&mut buffer) else { return };
                far.send_to(&buffer[..n], from).expect("answer");
            }
        });
        for number in 0..200_u32 {
            std::thread::sleep(Duration::from_micros(500 + u64::from(number) * 37 % 4000));
            near.send_to(&number.to_ne_bytes(), (RECEIVER, 6000)).expect("ping");
            let mut answer = [0; 4];
            let answered = near.recv(&mut answer);
            assert!(answered.is_ok(), "ping {number}: {answered:?}, {:#?}", bench.nic.totals());
            assert_eq!(u32::from_ne_bytes(answer), number);
        }
    });
    let totals = bench.nic.totals().expect("totals");
    // What the end of a sleep finds, no doorbell has woken the NIC for: so no time has to be bound.
    assert_eq!(totals.wakeups_lost, 0, "found by the end of a sleep: {totals:#?}");
    assert!((100..=200).contains(&totals.wakeups), "at most one for each packet: {}", totals.wakeups);
    assert!(totals.wakeups <= totals.sleeps);
    // It may not have been given the processor yet to go to sleep.
    let mut before = totals;
    wait_for("the NIC sleeps", || {
        std::thread::sleep(Duration::from_millis(50));
        let now = bench.nic.totals().expect("totals");
        let asleep = now.turns == before.turns;
        before = now;
        asleep
    });
    let begin = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    let after = bench.nic.totals().expect("totals");
    let span = begin.elapsed();
    assert_eq!(
        (after.wakeups, after.turns),
        (before.wakeups, before.turns),
        "nothing happens, nobody is woken"
    );
    let idle = after.worker_cpu.saturating_sub(before.worker_cpu);
    assert!(Duration::from(idle) < span / 5, "{idle:?} of processor time in {span:?} of idleness");
}

#[test]
fn a_busy_nic_is_not_woken() {
    if !weft_host::testing::privileged("a_busy_nic_is_not_woken") {
        return;
    }
    let bench = Bench::roomy("bsy", POLICY, 20);
    let _sink = bench.receiver(false, 6000);
    let socket = bench.sender(false);
    setsockopt(&socket, sockopt::SndBufForce, &(1 << 20)).expect("buffer");
    let until = Instant::now() + Duration::from_millis(500);
    let mut packets = 0_u64;
    while Instant::now() < until || packets <= 2000 {
        packets += u64::from(socket.send_to(&[0; 200], (RECEIVER, 6000)).is_ok());
    }
    let totals = bench.nic.totals().expect("totals");
    assert!(packets > 2000, "{packets}");
    assert!(totals.wakeups <= packets / 100, "{} wake-ups for {packets} packets", totals.wakeups);
}

/// However many records wait, there is room for a wake-up.
#[test]
fn a_full_record_ring_swallows_no_wake_up() {
    if !weft_host::testing::privileged("a_full_record_ring_swallows_no_wake_up") {
        return;
    }
    let (ns, doorbells) = doorbells_only("wkf", POLICY, 65_536);
    let records = doorbells.records(|_| ()).expect("records");
    let (shared, summary) = (doorbells.shared(), doorbells.maps().summary());
    let socket = bench::socket(&ns, bench::unspecified(false));
    let mut port = 0_u16;
    for round in 0..3 {
        let lost = shared.records_lost.load(Ordering::SeqCst);
        while shared.records_lost.load(Ordering::SeqCst) == lost {
            port = port.checked_add(1).expect("the record ring is full before the ports end");
            socket.send_to(&[0; 20], ("10.77.0.2", port)).expect("send");
        }
        // The NIC has taken all packets and goes to sleep.
        let class = &shared.classes[0];
        class.done.store(class.packets.load(Ordering::SeqCst), Ordering::SeqCst);
        summary.ready_ports.iter().chain(&shared.ready).for_each(|word| _ = protocol::take(word));
        assert!(protocol::prepare_sleep(&summary.ready_ports, &summary.sleeping));
        socket.send_to(&[0; 20], ("10.77.0.2", 1)).expect("send");
        assert_eq!(summary.sleeping.load(Ordering::SeqCst), 0, "the doorbell was seen");
        let timeout = rustix::time::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::from_borrowed_fd(records.wake_fd(), PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&timeout)).expect("poll"), 1, "wake-up {round}");
        records.consume();
    }
}
