//! NIC schedulers against slow reference schedulers, and their guarantees.

use proptest::prelude::*;
use weft_sim::nic::scheduler::dcb::CLASS_CREDIT;
use weft_sim::nic::scheduler::{AfterTurn, NicScheduler, Pick, build};
use weft_sim::scenario::SchedulerKind;
use weft_units::{Bytes, Nanos, TxQueueId};

const NOW: Nanos = Nanos::ZERO;

fn scheduler(kind: &SchedulerKind, queues: u32) -> Box<dyn NicScheduler> {
    build(kind, queues).expect("not the policy tree")
}

/// The rule of a slow scheduler.
trait Rule {
    /// Handles a queue that becomes backlogged.
    fn activated(&mut self, _: usize) {}
    /// Returns the queue of the next turn, given the active queues in the order of activation or last turn.
    fn choose(&mut self, active: &[usize]) -> usize;
    fn charge(&mut self, _: usize, _: i64, _: bool) {}
    fn set_weight(&mut self, _: usize, _: i64) {}
}

/// Round robin: the first.
struct First;

impl Rule for First {
    fn choose(&mut self, active: &[usize]) -> usize {
        active[0]
    }
}

/// Strict priority between classes.
struct Strict(usize);

impl Rule for Strict {
    fn choose(&mut self, active: &[usize]) -> usize {
        *active.iter().min_by_key(|queue| **queue % self.0).expect("some are active")
    }
}

/// Deficit round robin between classes, in lists: `order` has the active classes, which are visited round after round. With a
/// class per queue it is deficit round robin between queues.
struct Rounds {
    classes: usize,
    quantum: i64,
    weight: Vec<i64>,
    credit: Vec<i64>,
    order: Vec<usize>,
    /// Whether the visited class has received its credit.
    credited: bool,
    /// Number of active queues per class.
    members: Vec<usize>,
}

impl Rounds {
    fn new(classes: usize, quantum: i64) -> Self {
        let (weight, credit, members) = (vec![1; classes], vec![0; classes], vec![0; classes]);
        Self { classes, quantum, weight, credit, order: Vec::new(), credited: false, members }
    }

    fn next_class(&mut self) {
        self.order.rotate_left(1);
        self.credited = false;
    }
}

impl Rule for Rounds {
    fn activated(&mut self, queue: usize) {
        let class = queue % self.classes;
        self.members[class] += 1;
        if self.members[class] == 1 {
            self.order.push(class);
        }
    }

    fn choose(&mut self, active: &[usize]) -> usize {
        loop {
            let class = self.order[0];
            if !self.credited {
                self.credit[class] += self.weight[class] * self.quantum;
                self.credited = true;
            }
            if self.credit[class] > 0 {
                return *active
                    .iter()
                    .find(|queue| **queue % self.classes == class)
                    .expect("an active class");
            }
            self.next_class();
        }
    }

    fn charge(&mut self, queue: usize, sent: i64, more: bool) {
        let class = queue % self.classes;
        assert_eq!(self.order[0], class);
        self.members[class] -= usize::from(!more);
        if self.members[class] == 0 {
            self.credit[class] = 0;
            self.order.remove(0);
            self.credited = false;
            return;
        }
        self.credit[class] -= sent;
        if self.credit[class] <= 0 {
            self.next_class();
        }
    }

    fn set_weight(&mut self, queue: usize, weight: i64) {
        self.weight[queue] = weight.max(1);
    }
}

/// A slow scheduler: a list of active queues, and a rule.
struct Slow<R> {
    active: Vec<usize>,
    rule: R,
}

impl<R: Rule> Slow<R> {
    fn new(rule: R) -> Self {
        Self { active: Vec::new(), rule }
    }

    fn activate(&mut self, queue: usize, fast: &mut dyn NicScheduler) {
        if !self.active.contains(&queue) {
            fast.activate(TxQueueId(queue as u32), NOW);
            self.active.push(queue);
            self.rule.activated(queue);
        }
    }
}

/// An event of the queues.
#[derive(Clone, Debug)]
enum Event {
    /// A queue gets this many packets of this size.
    Arrive(usize, u32, u32),
    /// A turn, during which a queue may get packets.
    Turn(Option<(usize, u32)>),
    /// A queue's weight changes.
    Weigh(usize, u32),
}

const QUEUES: usize = 9;

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (0..QUEUES, 1..6_u32, 1..70_000_u32).prop_map(|(queue, count, len)| Event::Arrive(queue, count, len)),
        8 => proptest::option::of((0..QUEUES, 1..3000_u32)).prop_map(Event::Turn),
        1 => (0..QUEUES, 0..5_u32).prop_map(|(queue, weight)| Event::Weigh(queue, weight)),
    ];
    proptest::collection::vec(event, 1..300)
}

/// Runs both schedulers on the same packets and compares every turn.
fn compare<R: Rule>(mut fast: Box<dyn NicScheduler>, rule: R, events: &[Event]) -> Result<(), TestCaseError> {
    let mut slow = Slow::new(rule);
    let mut held: Vec<Vec<u32>> = vec![Vec::new(); QUEUES];
    for event in events {
        match *event {
            Event::Arrive(queue, count, len) => {
                held[queue].extend(std::iter::repeat_n(len, count as usize));
                slow.activate(queue, &mut *fast);
            }
            Event::Weigh(queue, weight) => {
                fast.set_weight(TxQueueId(queue as u32), weight);
                slow.rule.set_weight(queue, i64::from(weight));
            }
            Event::Turn(during) => {
                let pick = fast.next(NOW);
                if slow.active.is_empty() {
                    prop_assert_eq!(pick, Pick::Idle);
                    continue;
                }
                let queue = slow.rule.choose(&slow.active);
                prop_assert_eq!(pick, Pick::Queue(TxQueueId(queue as u32)));
                prop_assert_eq!(fast.next(NOW), pick, "asking twice changes nothing");
                let sent = held[queue].remove(0);
                if let Some((other, len)) = during {
                    held[other].push(len);
                    slow.activate(other, &mut *fast);
                }
                let more = !held[queue].is_empty();
                fast.finish(
                    TxQueueId(queue as u32),
                    Bytes(u64::from(sent)),
                    AfterTurn::holding(usize::from(more)),
                    NOW,
                );
                slow.active.retain(|other| *other != queue);
                if more {
                    slow.active.push(queue);
                }
                slow.rule.charge(queue, i64::from(sent), more);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn round_robin_agrees_with_a_list(events in events()) {
        compare(scheduler(&SchedulerKind::RoundRobin, QUEUES as u32), First, &events)?;
    }

    #[test]
    fn deficit_agrees_with_lists(events in events(), quantum in prop_oneof![1..50_i64, 500..2000_i64, 60_000..80_000_i64]) {
        let kind = SchedulerKind::Deficit { quantum: Bytes(quantum as u64) };
        compare(scheduler(&kind, QUEUES as u32), Rounds::new(QUEUES, quantum), &events)?;
    }

    #[test]
    fn strict_classes_agree_with_a_list(events in events(), classes in 1..=QUEUES) {
        let kind = SchedulerKind::Dcb { classes: classes as u32, strict: true };
        compare(scheduler(&kind, QUEUES as u32), Strict(classes), &events)?;
    }

    #[test]
    fn sharing_classes_agree_with_lists(events in events(), classes in 1..=QUEUES) {
        let kind = SchedulerKind::Dcb { classes: classes as u32, strict: false };
        let mut events = events;
        events.retain(|event| !matches!(event, Event::Weigh(..)));
        compare(scheduler(&kind, QUEUES as u32), Rounds::new(classes, CLASS_CREDIT.0 as i64), &events)?;
    }

    /// Over any window with three constantly backlogged queues, their bytes over their weights differ by less than one quantum
    /// and one packet of each.
    #[test]
    fn deficit_shares_by_weight_over_any_window(
        sizes in proptest::collection::vec(1..=9000_u64, 1..40),
        quantum in 64..20_000_u64,
    ) {
        let weights = [1, 2, 4_u64];
        let mut deficit = scheduler(&SchedulerKind::Deficit { quantum: Bytes(quantum) }, 3);
        for (queue, weight) in weights.iter().enumerate() {
            deficit.set_weight(TxQueueId(queue as u32), *weight as u32);
            deficit.activate(TxQueueId(queue as u32), NOW);
        }
        let mut sums = vec![[0_u64; 3]];
        for size in sizes.iter().cycle().take(250) {
            let Pick::Queue(queue) = deficit.next(NOW) else { panic!("all are active") };
            deficit.finish(queue, Bytes(*size), AfterTurn::Backlogged, NOW);
            let mut sum = *sums.last().expect("begins with one");
            sum[queue.index()] += size;
            sums.push(sum);
        }
        let longest = *sizes.iter().max().expect("at least one") as f64;
        for (from, before) in sums.iter().enumerate() {
            for after in &sums[from..] {
                let share = |i: usize| (after[i] - before[i]) as f64 / weights[i] as f64;
                for (i, j) in [(0, 1), (0, 2), (1, 2)] {
                    let packets = longest / weights[i] as f64 + longest / weights[j] as f64;
                    prop_assert!((share(i) - share(j)).abs() < quantum as f64 + packets);
                }
            }
        }
    }
}

/// Runs turns of 100 bytes; returns the number of each queue's turns.
fn turns(deficit: &mut dyn NicScheduler, count: usize, len: u64) -> [u32; 2] {
    let mut had = [0; 2];
    for _ in 0..count {
        let Pick::Queue(queue) = deficit.next(NOW) else { panic!("both are active") };
        had[queue.index()] += 1;
        deficit.finish(queue, Bytes(len), AfterTurn::Backlogged, NOW);
    }
    had
}

#[test]
fn a_weight_counts_from_the_next_round_on() {
    let mut deficit = scheduler(&SchedulerKind::Deficit { quantum: Bytes(1000) }, 2);
    deficit.activate(TxQueueId(0), NOW);
    deficit.activate(TxQueueId(1), NOW);
    assert_eq!(turns(&mut *deficit, 20, 100), [10, 10]);
    // During queue 0's visit: the credit of this visit stays, that of the next one is five times as large.
    assert_eq!(turns(&mut *deficit, 4, 100), [4, 0]);
    deficit.set_weight(TxQueueId(0), 5);
    assert_eq!(turns(&mut *deficit, 16, 100), [6, 10]);
    assert_eq!(turns(&mut *deficit, 60, 100), [50, 10]);
    deficit.set_weight(TxQueueId(0), 0);
    assert_eq!(turns(&mut *deficit, 20, 100), [10, 10], "0 counts as 1");
}

#[test]
fn an_emptied_queue_has_neither_credit_nor_debt() {
    let mut deficit = scheduler(&SchedulerKind::Deficit { quantum: Bytes(1000) }, 2);
    deficit.activate(TxQueueId(0), NOW);
    deficit.activate(TxQueueId(1), NOW);
    assert_eq!(deficit.next(NOW), Pick::Queue(TxQueueId(0)));
    deficit.finish(TxQueueId(0), Bytes(64_000), AfterTurn::Empty, NOW);
    deficit.activate(TxQueueId(0), NOW);
    assert_eq!(turns(&mut *deficit, 20, 100), [10, 10]);
}

/// A charge of a terabyte is repaid in rounds of one byte, at once.
#[test]
fn a_small_quantum_costs_no_time() {
    let mut deficit = scheduler(&SchedulerKind::Deficit { quantum: Bytes(1) }, 2);
    deficit.activate(TxQueueId(0), NOW);
    deficit.activate(TxQueueId(1), NOW);
    deficit.set_weight(TxQueueId(1), 3);
    assert_eq!(turns(&mut *deficit, 4000, 1 << 40), [1000, 3000]);
}

#[test]
fn a_hundred_thousand_queues_take_turns() {
    let queues = 100_000;
    let kinds = [
        SchedulerKind::RoundRobin,
        SchedulerKind::Deficit { quantum: Bytes(1500) },
        SchedulerKind::Dcb { classes: 8, strict: false },
        SchedulerKind::Dcb { classes: 8, strict: true },
    ];
    for kind in kinds {
        let mut scheduler = scheduler(&kind, queues);
        (0..queues).for_each(|queue| scheduler.activate(TxQueueId(queue), NOW));
        let mut had = vec![0; queues as usize];
        while let Pick::Queue(queue) = scheduler.next(NOW) {
            had[queue.index()] += 1;
            scheduler.finish(
                queue,
                Bytes(1500),
                AfterTurn::holding(usize::from(had[queue.index()] < 2)),
                NOW,
            );
        }
        assert!(had.iter().all(|turns| *turns == 2), "{kind:?}");
    }
}

#[test]
fn queues_beyond_and_turns_that_are_not_outstanding_are_ignored() {
    let kinds = [
        SchedulerKind::RoundRobin,
        SchedulerKind::Deficit { quantum: Bytes(0) },
        SchedulerKind::Dcb { classes: 0, strict: true },
        SchedulerKind::Dcb { classes: u32::MAX, strict: false },
    ];
    for kind in kinds {
        for queues in [0, 2] {
            let mut scheduler = scheduler(&kind, queues);
            for queue in [2, u32::MAX - 1, u32::MAX] {
                scheduler.activate(TxQueueId(queue), NOW);
                scheduler.set_weight(TxQueueId(queue), 7);
                scheduler.finish(TxQueueId(queue), Bytes(1), AfterTurn::Backlogged, NOW);
            }
            assert_eq!(scheduler.next(NOW), Pick::Idle, "{kind:?}");
        }
        let mut scheduler = scheduler(&kind, 2);
        scheduler.activate(TxQueueId(1), NOW);
        scheduler.finish(TxQueueId(1), Bytes(1), AfterTurn::Empty, NOW);
        assert_eq!(scheduler.next(NOW), Pick::Queue(TxQueueId(1)), "{kind:?}");
        scheduler.finish(TxQueueId(0), Bytes(1), AfterTurn::Empty, NOW);
        scheduler.activate(TxQueueId(1), NOW);
        scheduler.finish(TxQueueId(1), Bytes(1), AfterTurn::Empty, NOW);
        assert_eq!(scheduler.next(NOW), Pick::Idle, "{kind:?}");
    }
    assert!(build(&SchedulerKind::PolicyTree, 2).is_none());
}
