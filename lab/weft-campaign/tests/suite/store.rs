//! The store: what is written is found, what is torn is seen, and nothing is left.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use weft_campaign::key::{Identity, ResultKey, ScenarioHash};
use weft_campaign::record::{ResultRecord, ResultRecordError};
use weft_campaign::store::{Lookup, ResultStore, ResultStoreError};
use weft_sim::scenario::{FlowGroup, Scenario};

fn record(seed: u64) -> ResultRecord {
    let scenario = ScenarioHash::of(&Scenario { flows: vec![FlowGroup::default()], ..Scenario::default() });
    let parameters = [("flows.0.count".to_owned(), 12.into()), ("a".to_owned(), "b\n\"".into())];
    let parameters = parameters.into_iter().collect();
    let figures = [("a", Some(0.1 + seed as f64)), ("b", None), ("c", Some(1e300 / 3.0)), ("d", Some(-0.0))];
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ResultRecord {
        identity: Identity { kind: "test/1".to_owned(), model: 1, scenario, parameters, seed },
        figures,
    }
}

fn written(seed: u64) -> (ResultKey, String) {
    let record = record(seed);
    (record.identity.key(), record.write().expect("finite"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[test]
fn what_is_written_is_found() {
    let folder = tempfile::tempdir().expect("folder");
    let store = ResultStore::create(folder.path()).expect("a store");
    let all: Vec<_> = (0..100).map(written).collect();
    assert_eq!(store.look(&all[0].0).expect("readable"), Lookup::Missing);
    let (number, error) = store.write(&all);
    assert!(number == 100 && error.is_none(), "{error:?}");
    for (seed, (key, _)) in all.iter().enumerate() {
        assert_eq!(store.look(key).expect("readable"), Lookup::Whole(record(seed as u64)));
    }
    let mut expected: Vec<ResultKey> = all.into_iter().map(|(key, _)| key).collect();
    expected.sort();
    assert_eq!(store.keys().collect::<Result<Vec<_>, _>>().expect("names"), expected);
    let again = ResultStore::open(folder.path()).expect("the same store");
    assert_eq!(again.keys().count(), 100);
}

#[test]
fn each_part_of_the_identity_makes_another_name() {
    let first = record(1).identity;
    let others = [
        Identity { kind: "test/2".to_owned(), ..first.clone() },
        Identity { model: 2, ..first.clone() },
        Identity { seed: 2, ..first.clone() },
        Identity { parameters: serde_json::Map::new(), ..first.clone() },
        Identity { scenario: ScenarioHash::of(&Scenario::default()), ..first.clone() },
    ];
    assert!(others.iter().all(|other| other.key() != first.key()));
    let named = Scenario { name: "x".to_owned(), seed: 9, ..Scenario::default() };
    assert_eq!(
        ScenarioHash::of(&named),
        ScenarioHash::of(&Scenario::default()),
        "name and seed do not count"
    );
}

#[test]
fn every_cut_and_every_changed_byte_is_seen() {
    let (key, text) = written(1);
    for end in 0..text.len() {
        assert!(ResultRecord::read(&text.as_bytes()[..end], &key).is_err(), "cut at {end}");
    }
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        assert!(ResultRecord::read(&changed, &key).is_err(), "changed at {at}");
    }
    assert_eq!(ResultRecord::read(text.as_bytes(), &written(2).0), Err(ResultRecordError::Foreign));
    assert_eq!(ResultRecord::read(text.as_bytes(), &key), Ok(record(1)));
    let mut odd = record(1);
    odd.figures.insert("odd".to_owned(), Some(f64::NAN));
    assert_eq!(odd.write(), None);
}

#[test]
fn files_that_dead_processes_left_are_removed() {
    let folder = tempfile::tempdir().expect("folder");
    let store = ResultStore::create(folder.path()).expect("a store");
    let (key, text) = written(1);
    let path = store.path(&key);
    let place = path.parent().expect("a folder");
    std::fs::create_dir_all(place).expect("folder");
    let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    for process in ["1-0", &format!("{}-0", std::process::id()), &format!("{}-1", std::process::id())] {
        std::fs::write(place.join(format!("{stem}.{process}.tmp")), &text[..10]).expect("write");
    }
    assert_eq!(store.keys().count(), 0, "unfinished files are no results");
    assert!(store.write(&[(key.clone(), text)]).1.is_none());
    assert_eq!(names(place), [format!("{stem}.json")]);
    assert_eq!(store.keys().count(), 1);
}

#[test]
fn many_writers_of_the_same_results_agree() {
    let folder = tempfile::tempdir().expect("folder");
    thread::scope(|scope| {
        for writer in 0..8 {
            let root = folder.path();
            scope.spawn(move || {
                let store = ResultStore::create(root).expect("a store");
                for batch in 0..10 {
                    // Each in another order.
                    let results: Vec<_> =
                        (0..7).map(|i| written((i * (writer % 6 + 1) + batch) % 7)).collect();
                    let (_, error) = store.write(&results);
                    assert!(error.is_none(), "{error:?}");
                }
            });
        }
    });
    let store = ResultStore::open(folder.path()).expect("a store");
    let found = (0..7).all(|seed| matches!(store.look(&written(seed).0), Ok(Lookup::Whole(_))));
    assert!(found);
    for key in store.keys() {
        let path = store.path(&key.expect("a name"));
        assert_eq!(
            names(path.parent().expect("a folder")).iter().filter(|name| name.ends_with(".tmp")).count(),
            0
        );
    }
}

#[test]
fn other_folders_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    assert!(matches!(ResultStore::open(folder.path()), Err(ResultStoreError::Absent(_))));
    std::fs::write(folder.path().join("thesis.txt"), "x").expect("write");
    assert!(matches!(ResultStore::create(folder.path()), Err(ResultStoreError::NotAStore(_))));
    assert_eq!(names(folder.path()), ["thesis.txt"]);
    assert!(ResultStore::create(&folder.path().join("thesis.txt")).is_err());
}

/// Ten million results: a sample of names says how they spread.
#[test]
fn no_folder_gets_ten_thousand_entries() {
    const SAMPLE: u64 = 100_000;
    let folder = tempfile::tempdir().expect("folder");
    let store = ResultStore::create(folder.path()).expect("a store");
    let mut identity = record(0).identity;
    let mut folders: BTreeMap<_, u64> = BTreeMap::new();
    let mut above: BTreeMap<_, u64> = BTreeMap::new();
    for seed in 0..SAMPLE {
        identity.seed = seed;
        let path = store.path(&identity.key());
        let place = path.parent().expect("a folder");
        *folders.entry(place.to_owned()).or_default() += 1;
        *above.entry(place.parent().expect("a folder").to_owned()).or_default() += 1;
    }
    // 256 folders of at most 256 folders; the fullest of a hundred times as many has less than a hundred times as much.
    assert_eq!(above.len(), 256);
    let fullest = folders.values().max().copied().unwrap_or_default();
    assert!(fullest * (10_000_000 / SAMPLE) < 10_000, "{fullest}");
}
