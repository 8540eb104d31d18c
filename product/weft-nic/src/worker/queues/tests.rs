//! Weights from the page, without a kernel.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_packet::tap::TapPacket;
use weft_packet::vnet::VnetHeader;
use weft_sched::queues::Inner;
use weft_titan::page::Load;

const MICRO: Nanos = Nanos::from_micros(1);

fn engine(queues: usize) -> (QueueEngine<Arc<QueuePage>>, Arc<QueuePage>) {
    let page: Arc<QueuePage> = Arc::default();
    let scheduler = QueueScheduler::new(queues, Service::RoundRobin, Inner::Fifo);
    (QueueEngine::new(scheduler, 1, Arc::clone(&page)), page)
}

/// Changes a weight as a program that assigns queues does.
fn change(page: &QueuePage, queue: usize, weight: u64, now: u64) {
    page.loads[queue].set(Load { weight, flows: 1 });
    let _ = page.changed_ns[queue].compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
}

#[test]
fn weights_are_taken_in_batches_and_acknowledged() {
    let (mut engine, page) = engine(3);
    let counters = Counters::new(0, 0);
    change(&page, 1, 5, 1000);
    engine.look(Instant::from_nanos(2000), &counters);
    assert_eq!(engine.scheduler.service(), Service::RoundRobin, "no weights were asked for");
    assert_eq!(page.changed_ns[1].load(Ordering::SeqCst), 1000);
    page.use_weights.store(1, Ordering::SeqCst);
    page.update_interval_ns.store(1_000_000, Ordering::SeqCst);
    engine.look(Instant::from_nanos(2000) + MICRO, &counters);
    assert_eq!(engine.scheduler.service(), Service::RoundRobin, "not looked at so soon again");
    engine.look(Instant::from_nanos(52_000), &counters);
    assert_eq!(engine.scheduler.service(), Service::Deficit { credit: DEFAULT_CREDIT });
    assert_eq!(engine.scheduler.weight_of(TxQueueId(1)), Some(5));
    assert_eq!(page.changed_ns[1].load(Ordering::SeqCst), 0);
    assert_eq!((counters.weights_taken.get(), counters.weights_age_max.get()), (1, 51_000));
    change(&page, 0, 2, 60_000);
    change(&page, 0, 3, 70_000);
    engine.look(Instant::from_nanos(1_051_000), &counters);
    assert_eq!(engine.scheduler.weight_of(TxQueueId(0)), Some(0), "the interval has not passed");
    engine.look(Instant::from_nanos(1_101_001), &counters);
    assert_eq!(engine.scheduler.weight_of(TxQueueId(0)), Some(3));
    assert_eq!((counters.weights_taken.get(), counters.weights_age.get()), (2, 51_000 + 1_041_001));
    page.use_weights.store(0, Ordering::SeqCst);
    engine.look(Instant::from_nanos(2_000_000), &counters);
    assert_eq!(engine.scheduler.service(), Service::RoundRobin);
    assert_eq!(engine.scheduler.weight_of(TxQueueId(0)), Some(0), "all alike");
}

#[test]
fn a_change_during_the_acknowledgement_is_announced_again() {
    let (_, page) = engine(1);
    let queue = of_queue(&page, TxQueueId(0)).expect("a queue");
    change(&page, 0, 5, 100);
    // The NIC has applied 4; the writer of 5 found the time of 4 still set.
    acknowledge(queue, 4, Instant::from_nanos(100), Instant::from_nanos(900));
    assert_eq!(queue.1.load(Ordering::SeqCst), 900);
    acknowledge(queue, 5, Instant::from_nanos(100), Instant::from_nanos(901));
    assert_eq!(queue.1.load(Ordering::SeqCst), 900, "of a time that it has not read it knows nothing");
    acknowledge(queue, 5, Instant::from_nanos(900), Instant::from_nanos(902));
    assert_eq!(queue.1.load(Ordering::SeqCst), 0);
}

/// A writer and the NIC at full speed: at the end the NIC has the last weight, and the time is clear.
#[test]
fn no_final_weight_is_lost_between_two_threads() {
    let (mut engine, page) = engine(2);
    let counters = Counters::new(0, 0);
    page.use_weights.store(1, Ordering::SeqCst);
    let done = AtomicBool::new(false);
    let mut now = 1;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..200_000_u64 {
                change(&page, (i % 2) as usize, i, i + 1);
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            now += 50_000;
            engine.look(Instant::from_nanos(now), &counters);
        }
    });
    // A poll may acknowledge only what the previous one has applied.
    for _ in 0..2 {
        now += 50_000;
        engine.look(Instant::from_nanos(now), &counters);
    }
    for (queue, weight) in [(0, 199_998), (1, 199_999)] {
        assert_eq!(engine.scheduler.weight_of(TxQueueId(queue)), Some(weight));
        assert_eq!(page.changed_ns[queue as usize].load(Ordering::SeqCst), 0);
    }
}

/// Ethernet, IPv4 without options, UDP from port 7 to port 9.
fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12] = 8;
    frame[14..18].copy_from_slice(&[0x45, 0, 0, 46]);
    (frame[23], frame[26], frame[30], frame[35], frame[37]) = (17, 10, 11, 7, 9);
    frame
}

fn super_packet() -> SuperPacket {
    SuperPacket::parse(weft_packet::vnet::VnetHeader::default(), &frame()).expect("a packet")
}

#[test]
fn what_is_held_is_counted_under_its_flow() {
    let (mut engine, page) = engine(1);
    engine.fetch_begins(FlowId(0), false);
    assert_eq!(page.fetching.load(Ordering::SeqCst), 0, "it will be sent whole");
    engine.fetch_ends();
    page.segment_bytes.store(16_000, Ordering::SeqCst);
    engine.fetch_begins(FlowId(0), false);
    assert_eq!(page.fetching.load(Ordering::SeqCst), 0, "nor where the queue is one flow's");
    // Another flow becomes active during the read.
    page.loads[0].set(Load { weight: 2, flows: 2 });
    assert_eq!(
        engine.segments_per_turn(FlowId(0), &super_packet()),
        Some(SegmentsPerTurn::Whole),
        "what is not announced is not cut"
    );
    engine.fetch_ends();
    engine.fetch_begins(FlowId(0), true);
    assert_eq!(page.fetching.load(Ordering::SeqCst), 1, "what is sent later is announced");
    engine.fetch_ends();
    assert!(
        matches!(engine.segments_per_turn(FlowId(0), &super_packet()), Some(SegmentsPerTurn::AtMost(_))),
        "the rest of one that was"
    );
    engine.fetch_begins(FlowId(0), false);
    assert_eq!(page.fetching.load(Ordering::SeqCst), 1, "queue 0");
    let read = [&VnetHeader::default().emit()[..], &frame()].concat();
    let packet = TapPacket::parse(&read).expect("a packet");
    let held = engine.hold(|| packet.flow_key(&read));
    engine.fetch_ends();
    let key = weft_units::FlowKey {
        src: "10.0.0.0".parse().expect("address"),
        dst: "11.0.0.0".parse().expect("address"),
        sport: 7,
        dport: 9,
        protocol: weft_units::Protocol::UDP,
    };
    assert_eq!(held, Some(page::held_slot(&key) as u16));
    assert_eq!(page.holding.load(Ordering::SeqCst), 1);
    let counts = || page.held.iter().map(|h| h.load(Ordering::SeqCst)).sum::<u32>();
    assert_eq!((counts(), page.held[page::held_slot(&key)].load(Ordering::SeqCst)), (1, 1));
    engine.release(held);
    assert_eq!(page.holding.load(Ordering::SeqCst), 0);
    assert_eq!((counts(), page.fetching.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(engine.hold(|| None), None, "what is not IP has no flow");
}
