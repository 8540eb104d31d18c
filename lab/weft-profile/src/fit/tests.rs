//! Invented machines whose costs are known.

use super::*;
use weft_report::profile::{ConfigReport, SideTime, Sizes, SkbSizes, Work};
use weft_sim::scenario::{SourcedFile, sources};

/// The invented machine's costs in nanoseconds, in the order of [`CostSource::ALL`].
const SENDER: [f64; 5] = [0.1, 0.0, 900.0, 1500.0, 250.0];
const RECEIVER: [f64; 5] = [0.15, 300.0, 700.0, 2000.0, 350.0];

fn run(number: u64, skb: u64, skew: f64) -> Run {
    let bytes = 1_000_000_000 + number * 130_000_000;
    let skbs = bytes / skb;
    let mut counts = vec![0; Sizes::BUCKETS];
    counts[1] = if skb < 60_000 { skbs / u64::from(EVERY) } else { 0 };
    let work = Work {
        bytes,
        skbs,
        acks: skbs / (1 + number % 3),
        receiver_waits: 3000 * (number * 7 % 5),
        sender_waits: 2000 * (number * 3 % 4),
        ..Work::default()
    };
    let sizes = Some(SkbSizes { before_gro: Sizes { counts, mean: None }, ..SkbSizes::default() });
    let mut run = Run { repeat: 1, span_s: 1.0, work, sizes, ..Run::default() };
    let time = |run: &Run, side, costs: [f64; 5]| {
        // A cost that passes in both contexts passes in the first here.
        let of = |context: Context| -> f64 {
            let here = |cost: &CostSource| match context {
                Context::Process => Context::Process.has(*cost, side),
                Context::Softirq => !Context::Process.has(*cost, side),
            };
            let costs = CostSource::ALL.into_iter().zip(costs).filter(|(cost, _)| here(cost));
            costs.map(|(cost, ns)| cost.units(run, side) * ns * 1e-9 * skew).sum()
        };
        let (system_s, softirq_s) = (of(Context::Process), of(Context::Softirq));
        SideTime { system_s, softirq_s, ..SideTime::default() }
    };
    run.sender = time(&run, Side::Sender, SENDER);
    run.receiver = time(&run, Side::Receiver, RECEIVER);
    run
}

fn report(skews: [f64; 2]) -> ProfileReport {
    let sizes = [1448, 8948, 20_000, 40_000, 65_160, 30_000, 5000, 2896];
    let config = |(i, skb): (usize, u64)| {
        let runs = skews.iter().zip(0..).map(|(skew, j)| run(i as u64 * 2 + j, skb, *skew)).collect();
        ConfigReport::conclude(&format!("level{i}"), 1, [1, 1], runs)
    };
    let configs = sizes.into_iter().enumerate().map(config).collect();
    ProfileReport { pattern: "single".into(), configs, ..ProfileReport::default() }
}

#[test]
fn costs_of_an_invented_machine_are_found() {
    let [sender, receiver] = fit(&[report([1.0, 1.0])]).expect("a fit");
    for (fit, truth) in [(&sender, SENDER), (&receiver, RECEIVER)] {
        for (found, expected) in fit.costs_ns.iter().zip(truth) {
            assert!((found - expected).abs() <= 1e-3 * expected.max(1.0), "{fit:?}");
        }
        assert!(fit.residual < 1e-6 && fit.error() < 1e-4 && fit.held_back.len() == 8);
    }
}

#[test]
fn noise_shows_in_the_errors_and_not_as_negative_costs() {
    let fits = fit(&[report([1.05, 0.95])]).expect("a fit");
    for fit in &fits {
        assert!(fit.costs_ns.iter().all(|ns| *ns >= 0.0));
        assert!((0.01..0.15).contains(&fit.residual) && fit.error() < 0.15, "{fit:?}");
    }
    let text: String = tables(&fits).iter().map(|table| table.render(false)).collect();
    assert!(text.contains("1 single 1x: level0") && text.contains("simulated") && text.contains("measured"));
}

#[test]
fn the_machine_s_file_is_one_of_the_simulator_s() {
    let fits = fit(&[report([1.0, 1.0])]).expect("a fit");
    let text = machine_file(&fits, &Fitted::of(&[report([1.0, 1.0])]), "an invented\nmachine");
    let read = sources(&text, "machine.toml", SourcedFile::Costs).expect("a cost file with sources");
    assert_eq!(read.len(), 1);
    // A wait costs the sender 1500 ns and the receiver 2000, and the receiver waits more often.
    let [sender, receiver] = [fits[0].waits, fits[1].waits];
    let mean = (sender * 1500.0 + receiver * 2000.0) / (sender + receiver);
    assert!(receiver > 1.5 * sender && mean > 1800.0, "{sender} {receiver}");
    let wake_up = format!("[wake_up]\nsched = {mean:.4}\n");
    assert!(text.contains("[copy_in_byte]\ndata_copy = 0.1000") && text.contains(&wake_up), "{text}");
}

/// Without the comment signs the lines are a cost with its source.
#[test]
fn the_price_of_a_doorbell_can_be_taken_in() {
    let fits = fit(&[report([1.0, 1.0])]).expect("a fit");
    let text = machine_file(&fits, &Fitted::default(), "");
    assert!(!text.contains("\n[register_write]"), "{text}");
    let (from, to) =
        (text.find("# [register_write]").expect("lines"), text.find("\n# The cells").expect("cells"));
    let taken = format!("{}{}{}", &text[..from], text[from..to].replace("# ", ""), &text[to..]);
    let read = sources(&taken, "machine.toml", SourcedFile::Costs).expect("a cost file with sources");
    assert_eq!(read.len(), 2, "{taken}");
}

/// An acknowledgement of 250 ns passes `receive_packet` of 300 in the simulator, so nothing is left for itself.
#[test]
fn an_acknowledgement_is_not_counted_twice() {
    let mut fits = fit(&[report([1.0, 1.0])]).expect("a fit");
    let own =
        |fits: &[SideFit; 2]| machine_file(fits, &Fitted::default(), "").contains("receive_acknowledgement");
    assert!(!own(&fits));
    fits[0].costs_ns[CostSource::Acknowledgement as usize] = 350.0;
    assert!(machine_file(&fits, &Fitted::default(), "").contains("[receive_acknowledgement]\ntcpip = 50.0"));
}

#[test]
fn the_file_has_what_it_was_fitted_to() {
    let report = report([1.0, 1.0]);
    let fitted = Fitted::of(&[report.clone(), report]);
    assert!(fitted.cells.len() == 8 && fitted.cells.contains(&"single 1x level0".to_owned()), "{fitted:?}");
    // At least a byte's cost, at most with a packet of 1448 B for everything else.
    assert!((0.1..2.0).contains(&fitted.mean.sender_ns_per_byte), "{fitted:?}");
    assert_eq!(Fitted::of(&[]).cells, Vec::<String>::new());
}

#[test]
fn too_few_levels_are_refused() {
    let mut report = report([1.0, 1.0]);
    report.configs.truncate(3);
    let error = fit(&[report.clone()]).expect_err("too few").to_string();
    assert!(error.contains("3 levels were measured, 4 are needed"), "{error}");
    report.peer = Some(weft_report::profile::Peer { name: "server1".to_owned(), ..Default::default() });
    let error = fit(&[report]).expect_err("two machines").to_string();
    assert!(error.contains("this host and server1"), "{error}");
}
