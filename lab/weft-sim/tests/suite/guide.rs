//! The code in docs/extending-the-simulator.md is code that is compiled, and it does what the guide says.

pub mod fixed_window;
pub mod lowest_queue;

use fixed_window::FixedWindow;
use lowest_queue::LowestQueue;
use weft_sim::assignment;
use weft_sim::congestion::{Acknowledged, CongestionControl, CongestionWindow};
use weft_sim::nic::scheduler::{AfterTurn, NicScheduler, Pick};
use weft_sim::run::simulate;
use weft_sim::scenario;
use weft_units::{Bytes, Nanos, TxQueueId};

fn file(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The guide's blocks in a language.
fn blocks(language: &str) -> Vec<String> {
    let guide = file("../../docs/extending-the-simulator.md");
    let fence = format!("```{language}\n");
    guide.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_guides_files_are_the_files_here() {
    let rust = blocks("rust");
    for path in ["tests/suite/guide/lowest_queue.rs", "tests/suite/guide/fixed_window.rs"] {
        assert!(rust.contains(&file(path)), "{path} is not in the guide as it is");
    }
    let path = "src/assignment.rs";
    let module = file(path);
    let two_choices = rust.iter().find(|block| block.contains("pub struct TwoChoices;"));
    assert!(two_choices.is_some_and(|block| module.contains(block)), "{path} has not what the guide has");
    assert_eq!(blocks("toml"), [file("tests/suite/guide/two_choices.toml")]);
}

#[test]
fn the_guides_lines_are_in_the_module() {
    let module = file("src/assignment.rs");
    let lines = blocks("rust").into_iter().find(|block| block.starts_with("pub const NAMES"));
    let missing: Vec<_> =
        lines.iter().flat_map(|block| block.lines()).filter(|line| !module.contains(*line)).collect();
    assert!(lines.is_some() && missing.is_empty(), "{missing:?}");
}

/// The guide's scenario, shortened, with each assignment that it compares.
#[test]
fn the_guides_scenario_runs() {
    let text = file("tests/suite/guide/two_choices.toml");
    assert!(text.contains("\"two-choices\""));
    for name in assignment::NAMES {
        let text = text.replace("\"two-choices\"", &format!("{name:?}"));
        let mut scenario = scenario::read(&text, "two-choices.toml", &mut |path| {
            Err(weft_policy::FileError::Missing(path.to_owned()))
        })
        .expect("a sound scenario");
        assert_eq!(scenario.hosts[0].stack.queue_assignment, *name);
        (scenario.warm_up, scenario.duration) = (Nanos::from_millis(5), Nanos::from_millis(20));
        let outcome = simulate(&scenario, 1).expect("it runs");
        assert!(outcome.throughput().0 > 9_000_000_000, "{name}: {:?}", outcome.throughput());
    }
}

#[test]
fn the_lowest_queue_goes_first() {
    let now = Nanos::ZERO;
    let mut scheduler = LowestQueue::default();
    assert_eq!(scheduler.next(now), Pick::Idle);
    scheduler.activate(TxQueueId(3), now);
    assert_eq!(scheduler.next(now), Pick::Queue(TxQueueId(3)));
    scheduler.activate(TxQueueId(1), now);
    scheduler.finish(TxQueueId(3), Bytes(1500), AfterTurn::Backlogged, now);
    assert_eq!(scheduler.next(now), Pick::Queue(TxQueueId(1)));
    scheduler.finish(TxQueueId(1), Bytes(1500), AfterTurn::Empty, now);
    scheduler.set_weight(TxQueueId(1), 9);
    assert_eq!(scheduler.next(now), Pick::Queue(TxQueueId(3)));
}

#[test]
fn the_window_stays_as_it_is() {
    let mut window = CongestionWindow::INITIAL;
    let mut control = FixedWindow { packets: 64 };
    let ack = Acknowledged {
        now: Nanos(1),
        packets: 2,
        marked: 1,
        rtt: None,
        smoothed_rtt: Nanos(1),
        in_flight: 10,
        sent: 20,
        delivered: 10,
        window_limited: true,
    };
    let fixed = CongestionWindow { cwnd: 64, ssthresh: 64 };
    control.on_acknowledged(&ack, &mut window);
    assert_eq!(window, fixed);
    control.on_timeout(Nanos(2), &mut window);
    assert_eq!(window, CongestionWindow { cwnd: 1, ..fixed });
    control.on_loss(Nanos(3), &mut window);
    assert_eq!(window, fixed);
}
