//! The ranking and the verdict of `weft tune`'s document, on invented runs.

use weft_facts::record::Document;
use weft_facts::table::render_all;
use weft_report::tune::{Candidate, Conclusion, Figures, Tried, TuneReport};

/// Runs of an invented simulator, with a spread of a hundredth around the figure.
fn runs(nfm: f64, bps: f64) -> Vec<Figures> {
    let one = |at: f64| Figures {
        nfm: Some(nfm + 0.01 * at),
        latency_s: Some(1e-3 * (1.0 + 0.01 * at)),
        bps: bps * (1.0 + 0.001 * at),
        ns_per_byte: Some(0.5),
    };
    [-1.0, -0.5, 0.0, 0.5, 1.0].map(one).to_vec()
}

fn candidate(name: &str, nfm: f64) -> Candidate {
    let ranking = runs(nfm, 9.4e9);
    Candidate { name: name.to_owned(), deciding: ranking.clone(), ranking, ..Candidate::default() }
}

fn report(others: Vec<Candidate>) -> TuneReport {
    let present = Candidate { present: true, ..candidate("present", 0.8) };
    let candidates = others.into_iter().chain([present]).collect();
    TuneReport { candidates, seeds: 5, ..TuneReport::default() }.finish()
}

fn conclusion(others: Vec<Candidate>) -> (Conclusion, Option<String>) {
    let verdict = report(others).verdict;
    (verdict.conclusion, verdict.candidate)
}

#[test]
fn the_best_candidate_is_advised() {
    let found = report(vec![candidate("worse", 1.2), candidate("better", 0.5), candidate("best", 0.1)]);
    let names: Vec<&str> = found.candidates.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["present", "best", "better", "worse"]);
    assert_eq!(found.verdict.conclusion, Conclusion::Advice);
    assert_eq!(found.verdict.candidate.as_deref(), Some("best"));
    assert!(found.verdict.price.is_empty(), "{:?}", found.verdict);
    let text = render_all(&found.tables(), false);
    for part in ["set best", "the present setting", "better", "worse", "0.100 instead of 0.800"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_null_is_told_and_not_advised() {
    assert_eq!(
        conclusion(vec![candidate("same", 0.8), candidate("equal", 0.805)]),
        (Conclusion::DoesNotKnow, None)
    );
    assert_eq!(conclusion(Vec::new()).0, Conclusion::DoesNotKnow);
    assert_eq!(
        conclusion(vec![candidate("worse", 1.2), candidate("same", 0.8)]).0,
        Conclusion::NothingBetter
    );
    assert_eq!(
        [0, 1, 2]
            .map(|i| [Conclusion::Advice, Conclusion::NothingBetter, Conclusion::DoesNotKnow][i].exit_code()),
        [0, 1, 3]
    );
}

/// The best of the ranking was lucky: further runs show no difference.
#[test]
fn luck_in_the_ranking_is_not_advice() {
    let lucky = Candidate { deciding: runs(0.8, 9.4e9), ..candidate("lucky", 0.7) };
    let found = report(vec![lucky.clone()]);
    assert_eq!(found.verdict.conclusion, Conclusion::DoesNotKnow);
    assert_eq!(report(vec![lucky, candidate("worse", 1.1)]).verdict.conclusion, Conclusion::NothingBetter);
}

#[test]
fn fairness_at_the_cost_of_throughput_is_not_advised() {
    let slow = Candidate { ranking: runs(0.1, 5e9), deciding: runs(0.1, 5e9), ..candidate("slow", 0.1) };
    assert_eq!(conclusion(vec![slow.clone()]).0, Conclusion::NothingBetter);
    let found = conclusion(vec![slow, candidate("better", 0.4)]);
    assert_eq!(found, (Conclusion::Advice, Some("better".to_owned())));
}

#[test]
fn what_becomes_worse_is_the_price() {
    let mut late = candidate("late", 0.1);
    late.ranking.iter_mut().for_each(|run| run.latency_s = run.latency_s.map(|s| 3.0 * s));
    let price = report(vec![late]).verdict.price;
    assert!(price.len() == 1 && price[0].contains("3 ms instead of 1 ms"), "{price:?}");
}

#[test]
fn an_unknown_fact_that_decides_ends_it() {
    let unknown = vec!["the rate of the link".to_owned()];
    let found = TuneReport { unknown, ..report(vec![candidate("best", 0.1)]) }.finish();
    assert_eq!(found.verdict.conclusion, Conclusion::DoesNotKnow);
    assert!(render_all(&found.tables(), false).contains("unknown: the rate of the link"));
    assert!(TuneReport::default().finish().verdict.because.contains("not simulated"));
}

/// Real traffic decides where it was asked for, and a candidate that only the simulator prefers is not advised.
#[test]
fn real_traffic_decides() {
    let tried =
        |nfm: f64| Some(Tried { simulated: runs(0.1, 1e9), measured: runs(nfm, 1e9), not_tried: None });
    let of = |nfm: f64| {
        let mut found = report(vec![candidate("best", 0.1), candidate("untried", 0.2)]);
        for one in &mut found.candidates {
            one.tried = match one.name.as_str() {
                "present" => tried(0.8),
                "best" => tried(nfm),
                _ => Some(Tried { not_tried: Some("no queues here".to_owned()), ..Tried::default() }),
            };
        }
        found.finish()
    };
    assert_eq!(of(0.3).verdict.candidate.as_deref(), Some("best"));
    assert_eq!(of(0.8).verdict.conclusion, Conclusion::DoesNotKnow);
    assert_eq!(of(1.3).verdict.conclusion, Conclusion::NothingBetter);
    let text = render_all(&of(0.3).tables(), false);
    assert!(text.contains("not tried: untried: no queues here") && text.contains("measured, "), "{text}");
    let mut none = of(0.3);
    none.candidates.iter_mut().filter(|one| !one.present).for_each(|one| {
        one.tried = Some(Tried { not_tried: Some("n/a".to_owned()), ..Tried::default() });
    });
    assert_eq!(none.finish().verdict.conclusion, Conclusion::DoesNotKnow);
}
