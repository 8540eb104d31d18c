//! Algorithms over rings: the order by the arrivals and the times that doorbells report.

use super::*;

/// A packet takes a sixth of a second, so that what is posted meanwhile is ordered on a busy machine too.
const SLOW: BitsPerSec = BitsPerSec(4_000);

/// The order of rings in which packets leave that are posted behind a first one of ring 0, each with the milliseconds from now
/// that its sender requests. No packet may leave before its time if `holds`.
fn order(order: &str, packets: &[(usize, Option<u64>)], holds: bool) -> Vec<usize> {
    let mut bench =
        Bench::with(&format!("class a = udp\nroot = priority {{ {order} of a, default }}"), SLOW, None);
    assert!(bench.classes[..3].iter().all(|class| *class == bench.classes[0]), "three rings of a class");
    bench.put(0);
    bench.ring(0);
    assert_eq!(bench.receive(LONG), Some((0, 0)));
    let now = clock::now();
    let at = |milliseconds: Option<u64>| milliseconds.map(|of| now + Nanos::from_millis(of));
    for (ring, asked) in packets {
        bench.put(*ring);
        bench.ring_asking(*ring, at(*asked));
    }
    let mut left = Vec::new();
    for _ in packets {
        let (ring, _) = bench.receive(LONG).expect("a packet");
        let asked = packets.iter().find(|(of, _)| *of == ring).and_then(|(_, asked)| at(*asked));
        assert!(!holds || asked.is_none_or(|asked| clock::now() >= asked), "ring {ring} left early");
        left.push(ring);
    }
    bench.finish();
    left
}

const PACKETS: [(usize, Option<u64>); 3] = [(0, None), (1, Some(900)), (2, Some(300))];

#[test]
fn what_senders_ask_for_is_the_order_of_algorithms_that_read_it() {
    let cases: [(&str, &[_], bool, &[usize]); 5] = [
        ("edf budget 2s", &PACKETS, false, &[2, 1, 0]),
        ("edf budget 500ms", &PACKETS, false, &[2, 0, 1]),
        ("lstf slack 100ms", &PACKETS, false, &[0, 2, 1]),
        ("edt", &PACKETS, true, &[0, 2, 1]),
        // It reads no time: the order in which the rings became active.
        ("stfq", &PACKETS[1..], false, &[1, 2]),
    ];
    std::thread::scope(|scope| {
        let runs = cases.map(|(of, packets, holds, expected)| {
            (of, expected, scope.spawn(move || order(of, packets, holds)))
        });
        for (of, expected, run) in runs {
            assert_eq!(run.join().expect("no panic"), expected, "{of}");
        }
    });
}
