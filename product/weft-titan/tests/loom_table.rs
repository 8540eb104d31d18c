//! The protocol of the flow table under every interleaving of two cores, with a few preemptions:
//!
//! ```text
//! cargo test -p weft-titan --test loom_table
//! ```
//!
//! [`Table`] implements the rules of `bpf/titan.h`, and its functions have the names of those in `bpf/titan_table.h`
//! and `bpf/titan_assign.h`.
//! * A core that removes a flow from a queue must find there what was added.
//! * In the end every queue is empty.
//! * No packet of a thread may overtake an earlier one of the same thread.
//!
//! Each rule has a twin here that breaks it: the model must detect it, or the test is worthless.

use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Plain};
use word::{ENDED, FLAGS, NEW, PASSING, TAKEN, ended, is_active, out, place, queue, weight};

#[allow(unreachable_pub, dead_code, reason = "public in the crate that it is part of")]
#[path = "../src/flow_word.rs"]
mod word;

/// Sockets: the entry's first owner, and a new one.
const OLD: u64 = 1;
const YOUNG: u64 = 2;
/// `WEFT_CLAIM_MAKING` and `WEFT_CLAIM_PASSED`.
const MAKING: u64 = 1;
const PASSED: u64 = 2;
/// The weight of every flow.
const WEIGHT: u64 = 5;
/// As in `bpf/titan.bpf.c`.
const LOOKS: usize = 4;
/// No bound of active flows.
const ALL: u64 = u64::MAX;

/// A load: one flow, and its weight (`WEFT_LOAD`).
fn one(weight: u64) -> u64 {
    weight << 20 | 1
}

/// An entry whose flow has been idle long enough to be replaced, since a model has no clock.
struct Entry {
    socket: AtomicU64,
    state: AtomicU64,
}

struct Table {
    entries: Vec<Entry>,
    claim: AtomicU64,
    loads: [AtomicU64; 2],
    /// The value of `sk_wmem_alloc` less the socket's own reference, by socket.
    charge: [AtomicU64; 3],
    /// The maximum number of active flows.
    most: u64,
    repaired: AtomicUsize,
}

/// The rules that have broken twins.
#[derive(Clone, Copy)]
struct Rules {
    add: fn(&Table, &Entry, u64) -> u64,
    leave_alone: fn(&Entry, u64) -> Became,
    take_out: fn(&Table, &Entry),
    take_entry: fn(&Entry, u64) -> bool,
    repair: fn(&Table, &Entry, u64),
    claims: bool,
}

const RULES: Rules = Rules { add, leave_alone, take_out, take_entry, repair, claims: true };

/// The fate of a packet whose flow was not active.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Became {
    Counted(u64),
    LeftAlone,
    LookAgain,
}

fn fetch_state(entry: &Entry) -> u64 {
    entry.state.fetch_add(0, SeqCst)
}

fn swapped(entry: &Entry, old: u64, new: u64) -> bool {
    entry.state.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
}

impl Table {
    fn count_in(&self, state: u64) {
        self.loads[queue(state) as usize].fetch_add(one(weight(state)), SeqCst);
    }

    /// Checks that the load to be removed is present.
    fn count_out(&self, state: u64) {
        let before = self.loads[queue(state) as usize].fetch_sub(one(weight(state)), SeqCst);
        let (flows, weights) = (before & 0xfffff, before >> 20);
        assert!(flows >= 1 && weights >= weight(state), "{flows} flows of weight {weights} less {state:x}");
    }

    fn active(&self) -> u64 {
        self.loads.iter().map(|load| load.load(SeqCst) & 0xfffff).sum()
    }

    fn is_alone(&self, socket: u64) -> bool {
        self.charge[socket as usize].load(SeqCst) <= 1
    }

    /// Counts a flow into the least occupied queue, or into its own.
    fn claim_queue(&self, own: u64, may_move: bool) -> u64 {
        let load = |queue: u64| self.loads[queue as usize].load(SeqCst);
        let chosen = if may_move && load(1 - own) < load(own) { 1 - own } else { own };
        self.count_in(place(chosen, WEIGHT));
        chosen
    }

    fn activate(&self, rules: Rules, entry: &Entry, old: u64, alone: bool) -> Became {
        let unknown = old & (PASSING | NEW) != 0 && !alone;
        let bounded = self.most != ALL;
        if old & TAKEN != 0 || out(old) > 0 || unknown || (bounded && self.active() >= self.most) {
            return (rules.leave_alone)(entry, old);
        }
        let now = place(self.claim_queue(queue(old), alone), WEIGHT) | (old & !(ENDED - 1)) | 1;
        if bounded && self.active() > self.most {
            self.count_out(now);
            return (rules.leave_alone)(entry, old);
        }
        if !swapped(entry, old, now) {
            self.count_out(now);
            return Became::LookAgain;
        }
        Became::Counted(now)
    }

    /// The queue in which a packet of the socket was counted; `None` when it is left to the device's choice.
    fn assign(&self, rules: Rules, entry: &Entry, socket: u64) -> Option<u64> {
        for _ in 0..LOOKS {
            let old = fetch_state(entry);
            if entry.socket.load(SeqCst) != socket {
                return None;
            }
            let alone = self.is_alone(socket);
            if !is_active(old) {
                match self.activate(rules, entry, old, alone) {
                    Became::Counted(now) => return Some(queue(now)),
                    Became::LeftAlone => return None,
                    Became::LookAgain => {}
                }
            } else if alone {
                (rules.repair)(self, entry, old);
            } else {
                break;
            }
        }
        let state = (rules.add)(self, entry, socket);
        (out(state) > 0).then(|| queue(state))
    }

    fn find(&self, socket: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.socket.load(SeqCst) == socket)
    }

    fn new_flow(&self, rules: Rules, socket: u64) -> Option<&Entry> {
        if rules.claims && self.claim.compare_exchange(0, MAKING, SeqCst, SeqCst).is_err() {
            let seen = self.claim.compare_exchange(MAKING, MAKING | PASSED, SeqCst, SeqCst);
            return if seen == Err(0) { self.find(socket) } else { None };
        }
        if let Some(entry) = self.find(socket) {
            self.claim.swap(0, SeqCst);
            return Some(entry);
        }
        let made = self.entries.iter().find(|entry| (rules.take_entry)(entry, socket));
        let seen = self.claim.swap(0, SeqCst);
        let entry = made?;
        if seen & PASSED != 0 {
            entry.state.fetch_or(PASSING, SeqCst);
        }
        entry.state.fetch_and(!TAKEN, SeqCst);
        Some(entry)
    }

    /// Runs the classifier. Returns the entry and the queue in which the packet was counted.
    fn classify(&self, rules: Rules, socket: u64) -> Option<(&Entry, u64)> {
        let entry = self.find(socket).or_else(|| self.new_flow(rules, socket))?;
        Some((entry, self.assign(rules, entry, socket)?))
    }
}

fn add(table: &Table, entry: &Entry, socket: u64) -> u64 {
    let old = entry.state.fetch_add(1, SeqCst);
    if old & FLAGS != 0 {
        entry.state.fetch_add(ENDED - 1, SeqCst);
        return 0;
    }
    if out(old) == 0 {
        table.count_in(old);
    }
    if entry.socket.load(SeqCst) == socket {
        return old + 1;
    }
    take_out(table, entry);
    0
}

fn leave_alone(entry: &Entry, old: u64) -> Became {
    if swapped(entry, old, (old | PASSING).wrapping_add(ENDED)) {
        Became::LeftAlone
    } else {
        Became::LookAgain
    }
}

fn take_out(table: &Table, entry: &Entry) {
    loop {
        let old = fetch_state(entry);
        if old & FLAGS != 0 || out(old) == 0 {
            return;
        }
        let now = if out(old) == 1 { ended(old - 1) } else { old - 1 };
        if swapped(entry, old, now) {
            if out(old) == 1 {
                table.count_out(old);
            }
            return;
        }
        thread::yield_now();
    }
}

fn take_entry(entry: &Entry, socket: u64) -> bool {
    let old = fetch_state(entry);
    if out(old) > 0 || old & TAKEN != 0 || entry.socket.load(SeqCst) == YOUNG {
        return false;
    }
    let taken = place(1, 0) | (ended(old) & !(ENDED - 1)) | TAKEN | NEW;
    let took = swapped(entry, old, taken);
    if took {
        entry.socket.swap(socket, SeqCst);
    }
    took
}

fn repair(table: &Table, entry: &Entry, old: u64) {
    if swapped(entry, old, ended(old)) {
        table.count_out(old);
        table.repaired.fetch_add(1, Plain::SeqCst);
    }
}

/// The packets of one core: of two in a row the first leaves when the second has been sent.
#[derive(Clone, Copy)]
struct Sends {
    socket: u64,
    packets: usize,
    /// Whether the departure of the last is missed.
    last_unseen: bool,
}

fn sends(socket: u64, packets: usize) -> Sends {
    Sends { socket, packets, last_unseen: false }
}

fn send(table: &Table, rules: Rules, sends: Sends) {
    let charge = &table.charge[sends.socket as usize];
    let leave = |packet: Option<(&Entry, u64)>, seen: bool| {
        if let (Some((entry, _)), true) = (packet, seen) {
            (rules.take_out)(table, entry);
        }
        charge.fetch_sub(1, SeqCst);
    };
    let mut before: Option<Option<(&Entry, u64)>> = None;
    for _ in 0..sends.packets {
        charge.fetch_add(1, SeqCst);
        let packet = table.classify(rules, sends.socket);
        if let Some(before) = before {
            let (went, goes) = (before.map(|(_, queue)| queue), packet.map(|(_, queue)| queue));
            assert_eq!(went, goes, "another queue than the packet before, which has not left");
            leave(before, true);
        }
        before = Some(packet);
    }
    if let Some(last) = before {
        leave(last, !sends.last_unseen);
    }
}

/// The initial entries, and the packets of two cores.
#[derive(Clone)]
struct Scene {
    /// The socket and the state of each entry.
    entries: Vec<(u64, u64)>,
    most: u64,
    cores: [Sends; 2],
    preemptions: usize,
}

/// Nothing is outstanding except the segments in the entries.
fn table(entries: &[(u64, u64)], most: u64) -> Table {
    let entry = |&(socket, state): &(u64, u64)| Entry {
        socket: AtomicU64::new(socket),
        state: AtomicU64::new(state),
    };
    Table {
        entries: entries.iter().map(entry).collect(),
        claim: AtomicU64::new(0),
        loads: [AtomicU64::new(0), AtomicU64::new(0)],
        charge: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
        most,
        repaired: AtomicUsize::new(0),
    }
}

/// Runs the scene in all interleavings. In the end all packets are counted out.
fn model(scene: Scene, rules: Rules) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(scene.preemptions);
    builder.check(move || {
        let table = Arc::new(table(&scene.entries, scene.most));
        let [here, there] = scene.cores;
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || send(&other, rules, there));
        send(&table, rules, here);
        thread.join().expect("a core");
        // The next packet repairs a flow left active by a missed departure.
        let unseen = scene.cores.iter().filter(|core| core.last_unseen).count();
        if unseen > 0 {
            send(&table, rules, sends(OLD, 1));
        }
        end(&table, unseen);
    });
}

fn end(table: &Table, unseen: usize) {
    let states: Vec<u64> = table.entries.iter().map(fetch_state).collect();
    let loads: Vec<u64> = table.loads.iter().map(|load| load.fetch_add(0, SeqCst)).collect();
    assert_eq!(loads, [0, 0], "{states:x?}");
    assert!(states.iter().all(|state| out(*state) == 0 && state & TAKEN == 0), "{states:x?}");
    assert!(table.repaired.load(Plain::SeqCst) <= unseen, "more was repaired than was missed");
    let entries = |socket: u64| table.entries.iter().filter(|e| e.socket.load(SeqCst) == socket).count();
    assert!(entries(OLD) <= 1 && entries(YOUNG) <= 1, "a socket has one entry");
}

/// A flow of the first socket with this state.
fn known(state: u64, here: usize, there: usize) -> Scene {
    let cores = [sends(OLD, here), sends(OLD, there)];
    Scene { entries: vec![(OLD, state)], most: ALL, cores, preemptions: 3 }
}

fn idle() -> u64 {
    place(1, WEIGHT)
}

/// Two cores send from a socket whose packets were passed.
fn passing() -> Scene {
    known(idle() | PASSING, 2, 2)
}

/// Two cores send the first packets of a socket.
fn first_packets() -> Scene {
    let (entries, cores) = (vec![(0, 0), (0, 0)], [sends(YOUNG, 2), sends(YOUNG, 2)]);
    Scene { entries, most: ALL, cores, preemptions: 2 }
}

/// A flow sends again while its entry is being reassigned.
fn an_entry_goes() -> Scene {
    Scene { cores: [sends(OLD, 2), sends(YOUNG, 2)], preemptions: 2, ..known(idle(), 0, 0) }
}

/// Runs a model that must fail.
fn fails(scene: Scene, rules: Rules) -> bool {
    std::panic::catch_unwind(|| model(scene, rules)).is_err()
}

#[test]
fn a_flow_that_ends_and_begins_is_counted_out_as_it_was_counted_in() {
    model(known(idle(), 2, 2), RULES);
}

#[test]
fn a_flow_that_is_left_alone_is_not_counted() {
    model(passing(), RULES);
}

#[test]
fn a_flow_beyond_the_bound_is_not_counted() {
    let two = Scene { entries: vec![(OLD, idle()), (YOUNG, place(0, WEIGHT))], ..an_entry_goes() };
    model(Scene { most: 1, ..two }, RULES);
    model(Scene { most: 1, preemptions: 2, ..known(idle(), 2, 2) }, RULES);
}

#[test]
fn a_new_socket_has_one_entry() {
    model(first_packets(), RULES);
}

#[test]
fn an_entry_that_goes_to_another_flow_counts_one_of_them() {
    model(an_entry_goes(), RULES);
    // The old flow finds another entry.
    model(Scene { entries: vec![(OLD, idle()), (0, 0)], ..an_entry_goes() }, RULES);
}

#[test]
fn a_missed_departure_is_repaired_once() {
    let missed = Sends { last_unseen: true, ..sends(OLD, 1) };
    model(Scene { cores: [missed, sends(OLD, 2)], ..known(idle(), 0, 0) }, RULES);
}

/// One packet is outstanding, and a core reads the flow's word. The packet leaves before that core reads the charge,
/// and another arrives before it repairs the flow.
fn one_leaves_and_one_comes(rules: Rules) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let table = Arc::new(table(&[(OLD, idle() | 1)], ALL));
        table.loads[1].store(one(WEIGHT), SeqCst);
        table.charge[OLD as usize].store(1, SeqCst);
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || {
            let charge = &other.charge[OLD as usize];
            (rules.take_out)(&other, &other.entries[0]);
            charge.fetch_sub(1, SeqCst);
            charge.fetch_add(1, SeqCst);
            other.classify(rules, OLD).is_some()
        });
        table.charge[OLD as usize].fetch_add(1, SeqCst);
        let here = table.classify(rules, OLD).is_some();
        for counted in [here, thread.join().expect("a core")] {
            if counted {
                (rules.take_out)(&table, &table.entries[0]);
            }
            table.charge[OLD as usize].fetch_sub(1, SeqCst);
        }
        end(&table, 0);
    });
}

#[test]
fn nothing_is_repaired_where_nothing_was_missed() {
    model(known(idle(), 3, 1), RULES);
    one_leaves_and_one_comes(RULES);
}

#[test]
fn the_model_notices_segments_that_count_before_the_flow_does() {
    fn at_once(_: &Table, entry: &Entry, _: u64) -> u64 {
        entry.state.fetch_add(1, SeqCst) + 1
    }
    assert!(fails(known(idle(), 2, 2), Rules { add: at_once, ..RULES }));
}

#[test]
fn the_model_notices_a_flag_that_is_set_beside_segments() {
    fn set(entry: &Entry, _: u64) -> Became {
        entry.state.fetch_or(PASSING, SeqCst);
        Became::LeftAlone
    }
    assert!(fails(passing(), Rules { leave_alone: set, ..RULES }));
}

#[test]
fn the_model_notices_a_packet_left_alone_that_leaves_no_trace() {
    fn silent(entry: &Entry, old: u64) -> Became {
        if old & PASSING != 0 { Became::LeftAlone } else { leave_alone(entry, old) }
    }
    assert!(fails(passing(), Rules { leave_alone: silent, ..RULES }));
}

#[test]
fn the_model_notices_a_queue_that_is_read_after_the_last_segment_has_gone() {
    fn later(table: &Table, entry: &Entry) {
        if out(entry.state.fetch_sub(1, SeqCst)) == 1 {
            table.count_out(fetch_state(entry));
        }
    }
    assert!(fails(known(idle(), 2, 2), Rules { take_out: later, ..RULES }));
}

#[test]
fn the_model_notices_an_entry_that_is_filled_after_it_was_given() {
    fn stored(entry: &Entry, socket: u64) -> bool {
        let before = entry.socket.load(SeqCst);
        if out(fetch_state(entry)) > 0 || before == YOUNG {
            return false;
        }
        let took = entry.socket.compare_exchange(before, socket, SeqCst, SeqCst).is_ok();
        if took {
            entry.state.store(place(1, 0) | NEW, SeqCst);
        }
        took
    }
    assert!(fails(an_entry_goes(), Rules { take_entry: stored, ..RULES }));
}

#[test]
fn the_model_notices_two_entries_of_a_socket() {
    assert!(fails(first_packets(), Rules { claims: false, ..RULES }));
}

#[test]
fn the_model_notices_a_repair_of_what_has_just_come() {
    fn whatever(table: &Table, entry: &Entry, _: u64) {
        // The segments outstanding now, not those before the charge was read.
        let now = fetch_state(entry);
        if is_active(now) {
            repair(table, entry, now);
        }
    }
    let rules = Rules { repair: whatever, ..RULES };
    assert!(std::panic::catch_unwind(|| one_leaves_and_one_comes(rules)).is_err());
}
