//! Waiting times of classes on real packets: a queue of known length, and a class that does not wait.

use crate::common::{FAR, GRACE, World, policy, udp};
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, privileged, until};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_run::session::{ClassCounts, Session};
use weft_units::{BitsPerSec, Nanos};

const LINK: BitsPerSec = BitsPerSec(100_000_000);
/// 60 packets of 1466 bytes on the wire at 8 Mb/s are 88 ms.
const TEXT: &str = "class slow = udp and dport 7001\nclass quick = udp and dport 7002\nbound 60 packets of slow\n\
                    root = priority { quick, capped, default }\ncapped = limit 8mbps burst 0 of slow\n";
const FULL: Nanos = Nanos::from_micros(60 * 1466);

fn class(session: &mut Session, name: &str) -> ClassCounts {
    let classes = session.class_counts().expect("counts");
    classes.into_iter().find(|class| class.name == name).expect("a class")
}

fn change(session: &mut Session, text: &str) {
    let link = LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None });
    let prepared = session.prepare_policy(&policy(text), (LINK, link)).expect("prepared");
    session.change_policy(prepared).expect("changed");
}

/// The longest time until `stop` in which a thread that sleeps a millisecond at a time did not run, beyond 10 ms: the host gave it,
/// with a NIC's priority, no processor at all. A worker that is late by itself does not show here.
fn longest_standstill(stop: &AtomicBool) -> Nanos {
    let _ = rustix::process::setpriority_process(None, -10);
    let mut longest = Duration::from_millis(10);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        longest = longest.max(begin.elapsed());
    }
    Nanos::from_millis((longest - Duration::from_millis(10)).as_millis() as u64)
}

#[test]
fn the_time_in_a_full_queue_is_measured_and_an_idle_class_does_not_wait() {
    if !privileged("the_time_in_a_full_queue_is_measured_and_an_idle_class_does_not_wait") {
        return;
    }
    let world = World::new();
    let mut session = world.session(TEXT, 100);
    let app = world.add(&mut session, 0);
    assert_eq!(class(&mut session, "slow").sojourns.quantile(0.5), None);
    let stop = AtomicBool::new(false);
    let standstill = std::thread::scope(|scope| {
        let standstill = scope.spawn(|| longest_standstill(&stop));
        for (port, bytes, pause) in [(7001, 1400, 1), (7002, 64, 3)] {
            let (socket, stop) = (udp(&app, (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A full class refuses.
                    (0..if port == 7001 { 4 } else { 1 })
                        .for_each(|_| _ = socket.send_to(&vec![1; bytes], (FAR, port)));
                    std::thread::sleep(Duration::from_millis(pause));
                }
            });
        }
        std::thread::sleep(Duration::from_secs(4));
        stop.store(true, Ordering::Relaxed);
        standstill.join().expect("the clock")
    });
    let drained =
        |session: &mut Session| class(session, "slow").totals.posted == class(session, "slow").totals.sent;
    assert!(until(PATIENCE, || drained(&mut session)));
    let [slow, quick] = ["slow", "quick"].map(|name| class(&mut session, name));
    for class in [&slow, &quick] {
        assert_eq!(
            class.sojourns.count(),
            class.totals.sent.packets.get(),
            "every packet is measured: {}",
            class.name
        );
    }
    let at = |class: &ClassCounts, part: f64| class.sojourns.quantile(part).expect("packets");
    let [median, most] = [0.5, 0.99].map(|part| at(&slow, part));
    let urgent = at(&quick, 0.5);
    println!(
        "full queue: p50 {median}, p99 {most}, of {FULL}; idle class: p50 {urgent}, p99 {}; standstill {standstill}",
        at(&quick, 0.99)
    );
    // Marks and buckets may each add an eighth.
    let near = |wait: Nanos| wait.get() * 100 / FULL.get();
    assert!((95..=130).contains(&near(median)), "{median}");
    // A full queue of packets waits as much longer as the whole host pauses.
    assert!((95..=140).contains(&near(most.saturating_sub(standstill).max(median))), "{most}, {standstill}");
    // 64 bytes of payload take 10 us of the link.
    assert!(urgent > Nanos::from_micros(9) && urgent < Nanos::from_millis(1), "{urgent}");
    // The mean over the buckets is that of the counter of all times.
    let mean = slow.sojourns.sum.get() / slow.sojourns.count();
    assert!((90..=125).contains(&near(Nanos(mean))), "{mean}");

    // A class that takes the number of one that is gone begins anew.
    change(&mut session, "root = fair of default");
    std::thread::sleep(Duration::from_millis(1100));
    change(&mut session, &TEXT.replace("slow", "other"));
    let again = class(&mut session, "other");
    assert_eq!((again.number, slow.number), (slow.number, again.number));
    assert_eq!(
        (again.totals.sent.packets.get(), again.sojourns.count(), again.totals.bound.packets.get()),
        (0, 0, 0)
    );
    let report = session.finish(GRACE).expect("finish");
    assert_eq!(report.conservation.violations(), [""; 0]);
}
