//! Scores out of sample, on two rows of the real tables: the fits use the stated cells, and each kind of parameters
//! has its scores.

use weft_experiments::reproduce::{Cross, CrossOptions, ReproduceError};
use weft_report::reproduce::Sample;

fn options() -> CrossOptions {
    let keys =
        ["copy_in_byte.data_copy", "presets.tr.host.stack.small_queue_floor", "presets.atc.probes.0.core"];
    let keys = keys.map(str::to_owned).to_vec();
    CrossOptions { seeds: 1, seed: 1, threads: 2, keys, rows: vec!["T1".to_owned()], flows: vec![3, 12] }
}

#[test]
fn two_papers_and_two_flow_counts_are_fitted_and_scored_both_ways() {
    let mut cross = Cross::plan(options()).expect("the files are right");
    let most = cross.most_runs();
    assert!(cross.trial(&|| false).expect("a run") > 0.0);
    let mut told = 0;
    let report = cross.run(&|| false, &mut |made| told = made).expect("it runs");
    assert_eq!(report.runs, told as u64);
    assert!(told <= most, "{told} runs of at most {most}");
    let names: Vec<(&str, usize)> = report.fits.iter().map(|fit| (fit.name.as_str(), fit.cells)).collect();
    assert_eq!(names, [("tr", 2), ("atc", 2), ("without 3", 2), ("without 12", 2)]);
    for fit in &report.fits {
        assert_eq!(fit.values.len(), report.parameters.len());
        for (value, parameter) in fit.values.iter().zip(&report.parameters) {
            assert!(parameter.candidates.contains(value), "{} of {}", value, parameter.key);
        }
    }
    let candidates: Vec<usize> = report.parameters.iter().map(|p| p.candidates.len()).collect();
    assert_eq!(candidates.iter().filter(|count| **count > 1).count(), 3, "{candidates:?}");
    // A parameter that only the other paper's cells decide on keeps its first candidate.
    for (paper, other) in [(0, "presets.atc."), (1, "presets.tr.")] {
        let fit = &report.fits[paper];
        let foreign = report.parameters.iter().zip(&fit.values).filter(|(p, _)| p.key.starts_with(other));
        let kept: Vec<bool> = foreign.map(|(parameter, value)| *value == parameter.candidates[0]).collect();
        assert!(!kept.is_empty() && kept.iter().all(|kept| *kept), "{}: {kept:?}", fit.name);
    }
    for sample in Sample::ALL {
        let cells = report.cells.iter().filter(|cell| cell.simulated[&sample].is_some()).count();
        assert_eq!(cells, report.cells.len(), "{sample:?}");
    }
    let score = |paper: &str, sample| {
        let found = report
            .scores
            .iter()
            .find(|score| score.paper == paper && score.column == "nfm_1s" && score.sample == sample);
        found.and_then(|score| score.tau)
    };
    // More flows than queues are less fair than fewer, whatever the fit.
    assert_eq!(score("tr", Sample::OtherPaper), Some(1.0));
    assert_eq!(score("atc", Sample::FlowsLeftOut), Some(1.0));
}

#[test]
fn a_stop_ends_it_without_a_report() {
    let cross = Cross::plan(options()).expect("the files are right");
    let stopped = cross.run(&|| true, &mut |_| ());
    assert!(matches!(stopped, Err(ReproduceError::Stopped)), "{:?}", stopped.map(|report| report.runs));
}
