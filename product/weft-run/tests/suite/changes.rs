//! Policies that change under full load: 340 TCP flows in three classes, numbered datagrams, and a limit.
//!
//! `WEFT_POLICY_CHANGES` is the number of changes. The default is small; a thousand take a minute or two.

use crate::common::numbered;
use crate::common::{
    FAR, World, address, connect, finish, flood, policy, resend_lost_only, retransmitted, udp,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use weft_host::NetNs;
use weft_host::store::{Store, StoreError};
use weft_host::testing::{privileged, until, wait_for};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::NicError;
use weft_nic::plan::PlanError;
use weft_run::session::{AuthoredPolicy, PortTotals, Session, SessionError, WireCounters};
use weft_units::{BitsPerSec, Nanos};

const LINK: BitsPerSec = BitsPerSec(300_000_000);
/// The destination ports and the flows of the classes `a`, `b` and `c`.
const FLOWS: [(u16, usize); 3] = [(5301, 120), (5302, 120), (5303, 100)];
/// The destination ports of datagrams: a class that never changes, a limited one, one that moves in the tree.
const STEADY: u16 = 6001;
const LIMITED: u16 = 6002;
const MOVING: u16 = 6003;
/// The burst of the limit, and the bytes of a frame on the wire.
const BURST: u64 = 16 << 10;
const FRAME: u64 = 1538;
/// The largest lag of the link's clock behind the wall clock, and the furthest that it is ahead.
const CLOCK_ERROR: Duration = Duration::from_millis(10 + 2);

fn changes() -> u32 {
    std::env::var("WEFT_POLICY_CHANGES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// The values of the policy that the test changes.
#[derive(Clone, Debug)]
struct Text {
    weights: [u32; 3],
    limit: (&'static str, u64),
    passing: bool,
    moved: bool,
}

impl Text {
    const FIRST: Self = Self { weights: [3, 2, 1], limit: ("slow", 20), passing: false, moved: false };

    /// The policy after `number` changes: weights, a limit's rate, a class that comes and goes, a class that moves, a
    /// limit's name.
    fn after(number: u32) -> Self {
        let times = |kind: u32| (number + 4 - kind) / 5;
        let odd = |kind: u32| times(kind) % 2 == 1;
        Self {
            weights: if odd(0) { [1, 2, 3] } else { Self::FIRST.weights },
            limit: (if odd(4) { "late" } else { "slow" }, if odd(1) { 30 } else { 20 }),
            passing: odd(2),
            moved: odd(3),
        }
    }

    fn text(&self) -> String {
        let Self { weights: [a, b, c], limit: (limit, mbps), passing, moved } = self;
        let (class, share) =
            if *passing { ("class x = udp and dport 6004\n", "fair of x: 1, ") } else { ("", "") };
        let (above, below) = if *moved { ("", ", fair of m: 1") } else { ("fair of m: 1, ", "") };
        format!(
            "class a = tcp and dport 5301\nclass b = tcp and dport 5302\nclass c = tcp and dport 5303\n{class}\
             class u = udp and dport {STEADY}\nclass l = udp and dport {LIMITED}\nclass m = udp and dport {MOVING}\n\
             class spare = udp and dport 9\nbound 200 packets of l\n\
             root = wfq {{ {share}fair of a: {a}, fair of b: {b}, fair of c: {c}, fair of u: 4, {limit}: 8, {above}inner: 2 }}\n\
             inner = wfq {{ default: 1, fair of spare: 1{below} }}\n\
             {limit} = limit {mbps}mbps burst 16kib of l\n"
        )
    }

    /// The rate of the limit, in bytes per second.
    fn limit_bytes(&self) -> f64 {
        self.limit.1 as f64 * 1e6 / 8.0
    }
}

fn change(session: &mut Session, text: &Text) -> Nanos {
    let link = LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None });
    let new = policy(&text.text());
    let prepared = match session.prepare_policy(&new, (LINK, link)) {
        // So many changes in a second use up the spare rings. The message says to wait.
        Err(SessionError::Nic(NicError::Plan(PlanError::NoSpareRing { .. }))) => {
            std::thread::sleep(Duration::from_millis(1100));
            session.prepare_policy(&new, (LINK, link))
        }
        prepared => prepared,
    };
    session.change_policy(prepared.expect("prepared")).expect("changed")
}

/// The number of the class `name`.
fn number_of(session: &mut Session, name: &str) -> usize {
    let classes = session.class_counts().expect("counts");
    classes.iter().find(|class| class.name == name).expect("a class").number
}

/// The bytes of a class, read between two times.
#[derive(Clone, Copy, Debug)]
struct Reading {
    before: Instant,
    after: Instant,
    bytes: u64,
}

/// Reads the bytes of class `number` every 10 ms.
fn read(counters: &WireCounters, number: usize, stop: &AtomicBool) -> Vec<Reading> {
    let mut readings = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        let bytes = counters.sent(number).bytes.get();
        readings.push(Reading { before, after: Instant::now(), bytes });
        std::thread::sleep(Duration::from_millis(10));
    }
    readings
}

/// The rate of the limit from a time on, and whether the limit began anew then, with its burst.
#[derive(Clone, Copy, Debug)]
struct RateFrom {
    at: Instant,
    rate: f64,
    anew: bool,
}

/// The most bytes that the limit lets pass from `from` to `to`.
fn allowed(rates: &[RateFrom], (from, to): (Instant, Instant)) -> f64 {
    let mut bytes = (BURST + FRAME) as f64;
    for (at, now) in rates.iter().enumerate() {
        let end = rates.get(at + 1).map_or(to, |next| next.at.min(to));
        let begin = now.at.max(from);
        bytes += now.rate * end.saturating_duration_since(begin).as_secs_f64();
        if now.anew && now.at >= from - CLOCK_ERROR && now.at <= to {
            bytes += BURST as f64;
        }
    }
    let fastest = rates.iter().map(|rate| rate.rate).fold(0.0, f64::max);
    bytes + fastest * CLOCK_ERROR.as_secs_f64()
}

/// Asserts the limit in each window of at least 100 ms, and that it is used.
fn check_limit(readings: &[Reading], rates: &[RateFrom]) {
    let (mut worst, mut end) = (0.0_f64, 0);
    for (at, first) in readings.iter().enumerate() {
        while end < readings.len() && readings[end].before < first.after + Duration::from_millis(100) {
            end += 1;
        }
        let Some(last) = readings.get(end) else { break };
        let most = allowed(rates, (first.before, last.after));
        let bytes = (last.bytes - first.bytes) as f64;
        worst = worst.max(bytes / most);
        assert!(
            bytes <= most,
            "window {at}: {bytes} bytes in {:?}, at most {most}",
            last.after - first.before
        );
    }
    let (first, last) = (readings.first().expect("readings"), readings.last().expect("readings"));
    let all = (last.bytes - first.bytes) as f64;
    let used = all / allowed(rates, (first.after, last.before));
    println!("limit: fullest window {worst:.3} of what is allowed, {used:.3} of it used over all");
    assert!(used > 0.9, "the limit's rate is not reached: {used}");
}

/// The shares of `a`, `b` and `c` over `span`.
fn shares(counters: &WireCounters, numbers: [usize; 3], span: Duration) -> [f64; 3] {
    let sent = || numbers.map(|number| counters.sent(number).bytes.get());
    let before = sent();
    std::thread::sleep(span);
    let now = sent();
    let bytes = [0, 1, 2].map(|i| (now[i] - before[i]) as f64);
    bytes.map(|bytes_of| bytes_of / bytes.iter().sum::<f64>())
}

/// Asserts that everything posted at a port was sent, by class, in packets and bytes.
fn check_port(name: &str, totals: &PortTotals) {
    for (number, class) in totals.classes.iter().enumerate() {
        assert_eq!(class.posted, class.fetched, "{name}, class {number}: {class:?}");
        let gone = (class.sent + class.refused) + class.held;
        assert_eq!(class.fetched, gone, "{name}, class {number}: {class:?}");
    }
    assert_eq!(
        (totals.lost, totals.events.strays.get(), totals.events.unannounced_drops.get()),
        (0, 0, 0),
        "{name}"
    );
}

/// Waits until the ports are empty, as long as they send: what waits in the sockets takes a slow machine longer.
fn drains(session: &Session) -> bool {
    let sent = || ["p0", "p1"].map(|name| session.port_totals(name).expect("a port").sum(|class| class.sent));
    loop {
        let before = sent();
        let moved = until(Duration::from_secs(20), || drained(session) || sent() != before);
        if !moved || drained(session) {
            return moved;
        }
    }
}

fn drained(session: &Session) -> bool {
    ["p0", "p1"].iter().all(|name| {
        let totals = session.port_totals(name).expect("a port");
        totals.sum(|class| class.posted) == totals.sum(|class| class.sent)
    })
}

/// A session with its applications in two namespaces.
struct Load {
    world: World,
    apps: [NetNs; 2],
    session: Session,
}

impl Load {
    fn start() -> Self {
        let world = World::new();
        let mut session = world.session(&Text::FIRST.text(), LINK.get() / 1_000_000);
        let apps = [0, 1].map(|number| {
            let app = world.add(&mut session, number);
            resend_lost_only(&app, number);
            app
        });
        Self { world, apps, session }
    }

    fn resent(&self) -> u64 {
        self.apps.iter().map(retransmitted).sum()
    }

    /// Changes the policy `count` times. Returns the times that the worker took, and the rates of the limit.
    fn change(&mut self, count: u32) -> (Vec<Nanos>, Vec<RateFrom>) {
        let mut rates = vec![RateFrom { at: Instant::now(), rate: Text::FIRST.limit_bytes(), anew: false }];
        let mut before = Text::FIRST;
        let pauses = (1..=count).map(|number| {
            let text = Text::after(number);
            let (old, new) = (before.limit_bytes(), text.limit_bytes());
            // During the change either rate may hold.
            let anew = text.limit.0 != before.limit.0;
            rates.push(RateFrom { at: Instant::now(), rate: old.max(new), anew });
            let pause = change(&mut self.session, &text);
            rates.push(RateFrom { at: Instant::now(), rate: new, anew: false });
            before = text;
            pause
        });
        (pauses.collect(), rates)
    }
}

/// Ends all threads also when the test fails, which would otherwise wait for them for ever.
struct StopAll<'a>(&'a [AtomicBool; 3]);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
    }
}

fn check_pauses(mut pauses: Vec<Nanos>, session: &mut Session) {
    pauses.sort_unstable();
    let at = |part: usize| pauses[(pauses.len() * part / 1000).min(pauses.len() - 1)];
    let most = session.totals().expect("totals").change_pause_max;
    println!("pause of the worker: p50 {}, p99 {}, at most {}", at(500), at(990), most);
    assert_eq!(Some(&most), pauses.last());
    assert!(at(500) <= Nanos::from_millis(1), "{}", at(500));
    // Of few changes p99 is the largest, which a processor taken away decides.
    assert!(pauses.len() < 1000 || at(990) <= Nanos::from_millis(1), "{}", at(990));
}

#[test]
fn policies_change_under_load_and_unchanged_classes_notice_nothing() {
    if !privileged("policies_change_under_load_and_unchanged_classes_notice_nothing") {
        return;
    }
    let mut load = Load::start();
    let numbers = ["a", "b", "c"].map(|name| number_of(&mut load.session, name));
    let limited = number_of(&mut load.session, "l");
    let counters = load.session.wire_counters();
    let count = AtomicU64::new(0);
    let flags = [(); 3].map(|()| AtomicBool::new(false));
    let [stop, stop_reading, stop_receiving] = &flags;
    let apps = [load.apps[0].name(), load.apps[1].name()].map(|name| NetNs::named(name).expect("named"));
    let far = NetNs::named(load.world.far.name()).expect("named");
    std::thread::scope(|scope| {
        let _stop_all = StopAll(&flags);
        // The class `c` sends by both ports.
        let from = |class: usize, flow: usize| &apps[usize::from(class == 2 && flow % 2 == 1)];
        let flows = FLOWS.into_iter().enumerate();
        let flows = flows.flat_map(|(class, (port, flows))| (0..flows).map(move |flow| (class, port, flow)));
        let streams: Vec<_> =
            flows.map(|(class, port, flow)| connect(from(class, flow), (&far, FAR), port)).collect();
        streams.into_iter().for_each(|stream| flood(scope, stream, stop, &count));
        let ms = Duration::from_millis;
        let stream = |app, port, what| {
            let receiver = numbered::receive(scope, (&far, (FAR, port)), stop_receiving);
            (numbered::send(scope, (app, (FAR, port)), what, stop), receiver)
        };
        let steady = stream(&apps[0], STEADY, (1, 64, ms(2)));
        let moving = stream(&apps[1], MOVING, (1, 64, ms(2)));
        let limit = stream(&apps[1], LIMITED, (30, 1400, ms(5)));
        std::thread::sleep(ms(3000));
        let reader = {
            let counters = counters.clone();
            scope.spawn(move || read(&counters, limited, stop_reading))
        };
        let resent = load.resent();
        let (pauses, rates) = load.change(changes());
        let resent = load.resent() - resent;
        stop_reading.store(true, Ordering::Relaxed);
        check_limit(&reader.join().expect("reader"), &rates);
        check_pauses(pauses, &mut load.session);
        for weights in [[1, 1, 1], [6, 2, 1]] {
            change(&mut load.session, &Text { weights, ..Text::FIRST });
            std::thread::sleep(ms(1000));
            let seen = shares(&counters, numbers, ms(2000));
            println!("shares {seen:.3?} for {weights:?}");
            let sum: u32 = weights.iter().sum();
            for (share, weight) in seen.iter().zip(weights) {
                let due = f64::from(weight) / f64::from(sum);
                assert!((share / due - 1.0).abs() < 0.1, "{seen:?} for {weights:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(drains(&load.session), "{:?}", load.session.totals());
        stop_receiving.store(true, Ordering::Relaxed);
        for (name, (sent, arrived)) in [("steady", steady), ("moving", moving), ("limited", limit)] {
            let (sent, arrived) = (sent.join().expect("sender"), arrived.join().expect("receiver"));
            println!("{name}: {sent} sent, {arrived:?}");
            assert_eq!(arrived.overtaken, 0, "{name}");
            assert!(name == "limited" || arrived.count == sent, "{name}: {sent} sent, {arrived:?}");
        }
        println!("{resent} TCP segments sent again");
        assert_eq!(resent, 0, "TCP segments were sent again");
    });
    // The ends of the connections have passed, too.
    assert!(drains(&load.session));
    for name in ["p0", "p1"] {
        check_port(name, &load.session.port_totals(name).expect("a port"));
    }
    finish(load.session);
}

/// The link of a drain.
const DRAIN_LINK: BitsPerSec = BitsPerSec(1_000_000);

/// The policies of a drain: a busy class above one whose flow is to go above both.
fn drained_text(first: bool) -> String {
    let class = if first { "low" } else { "high" };
    let root =
        if first { "priority { busy, low, default }" } else { "priority { high, busy, low, default }" };
    let low = if first { String::new() } else { "class low = udp and dport 9\n".to_owned() };
    format!(
        "class {class} = udp and dport {MOVING}\n{low}class busy = udp and dport {STEADY}\nroot = {root}\n"
    )
}

/// A flow leaves a class that never gets a turn. After the limit its new class sends what the flow has left there.
#[test]
fn a_drain_below_a_busy_priority_ends_at_its_limit() {
    if !privileged("a_drain_below_a_busy_priority_ends_at_its_limit") {
        return;
    }
    let world = World::new();
    let mut session = world.session(&drained_text(true), DRAIN_LINK.get() / 1_000_000);
    let app = world.add(&mut session, 0);
    session.set_drain(Nanos::from_millis(500));
    let flags = [(); 3].map(|()| AtomicBool::new(false));
    let [stop, stop_busy, stop_receiving] = &flags;
    let far = NetNs::named(world.far.name()).expect("named");
    let escorted = |session: &Session| session.totals().expect("totals").draining.escorted;
    std::thread::scope(|scope| {
        let _stop_all = StopAll(&flags);
        let ms = Duration::from_millis;
        let received =
            [STEADY, MOVING].map(|port| numbered::receive(scope, (&far, (FAR, port)), stop_receiving));
        // Eighty times the link. What fits into the socket's buffer is about a second of the link, so the class above is never
        // idle, even if its sender does not run for some hundred milliseconds.
        let busy = numbered::send(scope, (&app, (FAR, STEADY)), (10, 1000, ms(1)), stop_busy);
        std::thread::sleep(ms(300));
        let flow = numbered::send(scope, (&app, (FAR, MOVING)), (1, 64, ms(5)), stop);
        std::thread::sleep(ms(300));
        let link = LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None });
        let prepared =
            session.prepare_policy(&policy(&drained_text(false)), (DRAIN_LINK, link)).expect("prepared");
        session.change_policy(prepared).expect("changed");
        assert!(until(Duration::from_secs(10), || escorted(&session) > 0), "{:?}", session.totals());
        let high = number_of(&mut session, "high");
        let counters = session.wire_counters();
        let sends = || counters.sent(high).packets.get() > 10;
        assert!(until(Duration::from_secs(10), sends), "the flow goes on in its class");
        stop.store(true, Ordering::Relaxed);
        stop_busy.store(true, Ordering::Relaxed);
        let sent = [busy, flow].map(|sender| sender.join().expect("sender"));
        let all = |session: &Session| {
            let totals = session.port_totals("p0").expect("a port");
            totals.sum(|class| class.posted) == totals.sum(|class| class.sent)
        };
        assert!(until(Duration::from_secs(20), || all(&session)), "{:?}", session.totals());
        stop_receiving.store(true, Ordering::Relaxed);
        let received = received.map(|receiver| receiver.join().expect("receiver"));
        assert_eq!(received.map(|stream| stream.overtaken), [0, 0], "{received:?}");
        // Only what the port refused is missing: while the flow waited, or at a bound.
        let totals = session.port_totals("p0").expect("a port");
        let refused = totals.sum(|class| (class.moving + class.bound) + class.full).packets.get();
        let arrived: u64 = received.iter().map(|stream| stream.count).sum();
        assert_eq!(
            arrived + refused,
            sent.iter().sum::<u64>(),
            "{received:?} of {sent:?}, {refused} refused"
        );
    });
    assert_eq!(session.totals().expect("totals").draining.rings, 0);
    check_port("p0", &session.port_totals("p0").expect("a port"));
    finish(session);
}

/// A store that calls its function when it is given a state.
struct OnState(Box<dyn FnMut() + Send>);

impl std::fmt::Debug for OnState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnState")
    }
}

impl Store for OnState {
    fn keep(&mut self, _: &str, _: BorrowedFd<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget(&mut self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn set_state(&mut self, _: &[u8]) -> Result<(), StoreError> {
        (self.0)();
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A process that is killed after its store has the new numbers leaves packets of the former classes, which its successor has.
/// Before that no packet of the new ones may exist: the successor would not have them.
#[test]
fn a_changed_policy_is_stored_before_any_packet_is_of_its_classes() {
    if !privileged("a_changed_policy_is_stored_before_any_packet_is_of_its_classes") {
        return;
    }
    let [former, new] = ["first", "second"].map(|class| {
        format!("class {class} = udp and dport {STEADY}\nroot = wfq {{ {class}: 1, default: 1 }}\n")
    });
    let world = World::new();
    let mut session = world.session(&former, 100);
    let app = world.add(&mut session, 0);
    let socket = udp(&app, (address(0), 0));
    let counters = session.wire_counters();
    // A new class has a number that no former class had. Neighbours are looked for meanwhile.
    let others = number_of(&mut session, "infrastructure");
    let of = move |class: usize| if class == others { 0 } else { counters.sent(class).packets.get() };
    let sent = move || (0..8).map(&of).collect::<Vec<_>>();
    // Sends a packet, and says which class it was sent in.
    let probe = move || {
        let before = sent();
        socket.send_to(b"a packet", (FAR, STEADY)).expect("send");
        wait_for("a packet", || sent() != before);
        sent().iter().zip(&before).position(|(now, then)| now != then).expect("a class")
    };
    let (classes, seen) = std::sync::mpsc::channel();
    let store = OnState(Box::new(move || classes.send(probe()).expect("the test")));
    let source = |text: &str| AuthoredPolicy {
        name: "test".to_owned(),
        text: text.to_owned(),
        rate_bps: None,
        port_limits: Vec::new(),
        tenants: Vec::new(),
    };
    session.hold(Box::new(store), source(&former), serde_json::Value::Null).expect("held");
    let first = number_of(&mut session, "first");
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [first]);
    let link = LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None });
    let prepared = session.prepare_policy(&policy(&new), (BitsPerSec(100_000_000), link)).expect("prepared");
    session.change_policy(prepared.with_source(source(&new))).expect("changed");
    let second = number_of(&mut session, "second");
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [first], "while the change is stored");
    session.set_note(serde_json::Value::Null);
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [second], "afterwards");
    finish(session);
}
