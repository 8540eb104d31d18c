//! Flows between all pairs of hosts: the shuffles of the Titan papers, the all-to-all pattern of the SIGCOMM'21 study.

use super::file::AllToAll;
use toml::{Table, Value};

/// Replaces the document's flows by one between each two of `hosts` hosts, all of the settings of its first `[[flows]]`.
pub(super) fn all_to_all(document: &mut Table, pattern: &AllToAll, hosts: u32) {
    let model = match document.get("flows") {
        Some(Value::Array(groups)) => groups.first().and_then(Value::as_table).cloned().unwrap_or_default(),
        _ => Table::new(),
    };
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
