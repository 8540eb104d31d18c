//! Flows between all pairs of hosts: the shuffles of the Titan papers, the all-to-all pattern of the SIGCOMM'21 study.

use super::file::AllToAll;
use toml::{Table, Value};

/// Replaces the document's flows by one between each two of `hosts` hosts, with the settings of its first
/// `[[flows]]`. If the pattern says so, by one from each of `hosts` cores of the first host to each of `hosts` cores
/// of the second.
pub(super) fn all_to_all(document: &mut Table, pattern: &AllToAll, hosts: u32) {
    let model = match document.get("flows") {
        Some(Value::Array(groups)) => groups.first().and_then(Value::as_table).cloned().unwrap_or_default(),
        _ => Table::new(),
    };
    if pattern.cores {
        let cores =
            |from: u32, to: u32| Value::Array((from..to).map(|core| Value::Integer(core.into())).collect());
        let groups = (0..hosts).map(|core| {
            let mut group = model.clone();
            group.insert("name".to_owned(), Value::String(format!("core {core}")));
            group.insert("count".to_owned(), Value::Integer(hosts.into()));
            group.insert("cores".to_owned(), cores(core, core + 1));
            group.insert("receiver_cores".to_owned(), cores(0, hosts));
            Value::Table(group)
        });
        document.insert("flows".to_owned(), Value::Array(groups.collect()));
        return;
    }
    let pairs =
        (0..hosts).flat_map(|from| (0..hosts).filter(move |&to| to != from).map(move |to| (from, to)));
    let groups = pairs.map(|(from, to)| {
        let mut group = model.clone();
        group.insert("name".to_owned(), Value::String(format!("{from} to {to}")));
        group.insert("from".to_owned(), Value::Integer(i64::from(from)));
        group.insert("to".to_owned(), Value::Integer(i64::from(to)));
        if let Some(size) = &pattern.size {
            let transfer = [("transfer".to_owned(), Value::String(size.clone()))];
            group.insert("traffic".to_owned(), Value::Table(transfer.into_iter().collect()));
        }
        Value::Table(group)
    });
    document.insert("flows".to_owned(), Value::Array(groups.collect()));
    document.insert("hosts".to_owned(), Value::Integer(i64::from(hosts)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::files::beside_scenarios;
    use crate::reproduce::file;
    use std::collections::BTreeSet;
    use weft_sim::scenario;

    /// The study's "x sender cores transmit a flow to each of the x receiver cores": every pair once, on x cores at each end.
    #[test]
    fn all_to_all_is_all_to_all() {
        let experiment = file::experiment("hoststack-all-to-all").expect("its file");
        let parameters = file::parameters(&experiment.parameters).expect("its parameters");
        let pattern = experiment.all_to_all.expect("a pattern");
        for cores in [1, 8, 24] {
            let mut document = parameters.document(None, "aRFS").expect("a scenario");
            all_to_all(&mut document, &pattern, cores);
            let read = scenario::read(&document.to_string(), "test", &mut |path| beside_scenarios(path));
            let scenario = read.unwrap_or_else(|error| panic!("{error}"));
            // The simulator's use of the lists: the i-th flow takes the i-th core, in turn.
            let pairs = scenario.flows.iter().flat_map(|group| {
                let core = |list: &[u32], i: usize| list[i % list.len()];
                (0..group.count as usize)
                    .map(move |i| (core(&group.cores, i), core(&group.receiver_cores, i)))
            });
            let pairs: Vec<(u32, u32)> = pairs.collect();
            let once: BTreeSet<(u32, u32)> = pairs.iter().copied().collect();
            let all: BTreeSet<(u32, u32)> =
                (0..cores).flat_map(|a| (0..cores).map(move |b| (a, b))).collect();
            assert_eq!((pairs.len(), once), ((cores * cores) as usize, all), "{cores} cores");
        }
    }
}
