//! Checks that steering a packet does not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weft_packet::{Field, HeaderMatch};
use weft_steer::nic::{self, Steering, TableId};
use weft_steer::{Action, Configuration, ContextId, RssContext, Rule};
use weft_units::RxQueueId;

/// The system's allocator with a counter.
struct Counting;

thread_local! {
    /// Per thread: the test harness's own threads may allocate.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

// SAFETY: every method passes its arguments unchanged to the system's allocator, which keeps the contract. Counting touches no
// allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A graph with a fork and an O-node, so that several targets are pending.
const FORKS: &str = r#"
nic forks "Forks"
queues 8
table t { capacity 64 match dst-port any order disjoint actions queue, context interface none }
rss { entries 8 fixed queues 8 contexts 1 key 40 bytes fixed ports udp }
node in classify {
  port udp when udp -> both operand 0 is true, filter
  port other -> filter
}
node both and 2 { true -> seven }
node filter filter t else spread
node spread rss else seven
node seven queue 7
"#;

#[test]
fn packets_are_steered_without_allocations() {
    // Operand 1 of the O-node is never decided, so it stays pending while packets pass it.
    let forks = FORKS.replace("port other -> filter", "port other -> filter, both operand 1 is true");
    let mut models: Vec<nic::Nic> =
        nic::shipped().iter().filter_map(|(name, _)| nic::shipped_model(name)).collect();
    models.push(nic::read(&forks, "forks.nic").expect("model"));
    assert_eq!(models.len(), nic::shipped().len() + 1);
    for model in &models {
        let rules = (0..20u16).map(|i| Rule {
            table: TableId(i % (model.tables.len() as u16).max(1)),
            headers: HeaderMatch::ALL.with(Field::DstPort, i.into(), if i % 2 == 0 { 0xffff } else { 0x3f }),
            priority: 1,
            action: if i % 3 == 0 { Action::Context(ContextId::MAIN) } else { Action::Queue(RxQueueId(2)) },
        });
        let main = RssContext { id: ContextId::MAIN, indirection: (0..8).map(RxQueueId).collect() };
        let configuration =
            Configuration { rules: rules.collect(), contexts: vec![main], ..Configuration::default() };
        let steering = Steering::new(model, &configuration);
        let mut queues = [0u32; 8];
        let before = allocations();
        for i in 0..10_000u128 {
            let packet = HeaderMatch::ALL
                .exact(Field::EtherType, [0x0800, 0x86dd, 0x0806][i as usize % 3])
                .exact(Field::IpProtocol, [6, 17][i as usize % 2])
                .exact(Field::SrcIp, i * 77)
                .exact(Field::SrcPort, i)
                .exact(Field::DstPort, i % 64);
            if let Some(queue) = steering.queue(&packet) {
                queues[queue.index() % 8] += 1;
            }
        }
        assert_eq!(allocations() - before, 0, "{}", model.name);
        assert_eq!(queues.iter().sum::<u32>(), 10_000, "{} drops none of them", model.name);
        assert!(queues.iter().filter(|count| **count > 0).count() > 1, "{}: {queues:?}", model.name);
    }
}
