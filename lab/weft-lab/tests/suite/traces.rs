//! Traces and tables of `weft sim`, `weft run` and `weft campaign`, beside the documents of the same runs. `make test-traces` reads them
//! with independent readers too: Perfetto's own messages, and pyarrow.

use crate::common::world;
use crate::common::world::{FAR, World, transfer};
use crate::common::{file, json, run};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use weft_host::testing::{privileged, skip};
use weft_trace::testing::{self, Seen};

const SCENARIO: &str = "duration = \"10ms\"\nwarm_up = \"2ms\"\n[host.nic]\ntransmit_queues = 2\n\
                        [[flows]]\nname = \"bulk\"\ncount = 3\n[[probes]]\n";

/// Python with the readers, which `make test-traces` names.
fn reader(test: &str) -> Option<String> {
    let reader = std::env::var("WEFT_TRACE_READER").ok();
    if reader.is_none() {
        skip(test, "no readers of traces (`make test-traces` fetches them)");
    }
    reader
}

/// The readers' summaries of files.
fn summaries(python: &str, files: &[&str]) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/traces/read.py");
    let said = Command::new(python).arg(script).args(files).output().expect("python");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).expect("JSON")
}

/// Paths in a folder.
fn paths<const N: usize>(folder: &TempDir, names: [&str; N]) -> [String; N] {
    names.map(|name| folder.path().join(name).to_str().expect("UTF-8").to_owned())
}

/// The rows of a CSV file without quotes, by column.
fn rows(path: &str) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).expect("read");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().expect("names").collect();
    lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
}

fn trace(path: &str) -> Seen {
    testing::read(&std::fs::read(path).expect("read"))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn traces_of_the_simulator_have_each_packet_of_its_account() {
    let folder = tempfile::tempdir().expect("folder");
    let scenario = file(&folder, "small.toml", SCENARIO);
    let [events, way, departures, document] = paths(&folder, ["e.csv", "w.pftrace", "d.csv", "o.json"]);
    let outputs = ["--trace", &events, "--trace", &way, "--departures", &departures, "--json", &document];
    let said = run(&[&["sim", &scenario][..], &outputs].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let packets = count(&json(&document)["counters"]["packets"]);
    assert!(said.err.contains(&format!("{packets} departures of seed")), "{}", said.err);
    let (table, seen) = (rows(&departures), trace(&way));
    assert_eq!((table.len() as u64, seen.on("wire").len() as u64), (packets, packets));
    let events = rows(&events);
    let of = |kind: &str| events.iter().filter(|row| row["event"] == kind).count();
    assert_eq!((of("sent") as u64, of("fetched") as u64), (packets, packets));
    assert_eq!((of("queued"), of("queued")), (seen.on("sockets").len(), seen.flows().len()));
    assert!(table.iter().any(|row| row["class"] == "bulk" && row["source"] == "192.0.2.1"));
    assert!(seen.on("wire").iter().any(|span| span.name.starts_with("bulk ")));
}

#[test]
fn names_of_files_that_cannot_be_meant_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let scenario = file(&folder, "small.toml", SCENARIO);
    for (args, named) in [
        (&["sim", &scenario, "--departures", "d.pftrace"][..], "--trace d.pftrace"),
        (&["campaign", "export", "x", "--format", "excel"], "parquet"),
    ] {
        let said = run(args);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(named), "{}", said.err);
    }
}

#[test]
fn independent_readers_find_each_packet_of_the_simulator_s_account() {
    let name = "independent_readers_find_each_packet_of_the_simulator_s_account";
    let Some(python) = reader(name) else { return };
    let folder = tempfile::tempdir().expect("folder");
    let scenario = file(&folder, "small.toml", SCENARIO);
    let files = paths(&folder, ["w.pftrace", "d.parquet", "e.parquet", "o.json", "e.csv", "d.csv"]);
    let [way, departures, events, document, text, table] = files.each_ref().map(String::as_str);
    let outputs =
        ["--trace", way, "--trace", events, "--trace", text, "--departures", departures, "--json", document];
    let said = run(&[&["sim", &scenario][..], &outputs].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(run(&["sim", &scenario, "--departures", table]).code, 0);
    let packets = count(&json(document)["counters"]["packets"]);
    let [seen, left, all] =
        <[Value; 3]>::try_from(summaries(&python, &[way, departures, events])).expect("three");
    println!("{packets} packets\n{seen}\n{left}\n{all}");

    assert_eq!(count(&seen["spans"]["wire"]), packets);
    let (events, table) = (rows(text), rows(table));
    let of = |kind: &str| events.iter().filter(|row| row["event"] == kind).count() as u64;
    assert_eq!([&seen["flows"], &seen["joined"], &seen["spans"]["sockets"]].map(count), [of("queued"); 3]);
    assert_eq!(count(&seen["spans"]["network"]), of("delivered"));
    assert_eq!(seen["roots"], serde_json::json!(["host 0", "host 1"]));
    assert!(count(&seen["counters"]["qdisc backlog"]) > 0 && count(&seen["counters"]["ring backlog"]) > 0);

    assert_eq!((count(&left["rows"]), &left["schema"]), (packets, &"weft-departures/1".into()));
    assert_eq!(count(&left["sums"]["packets"]), packets);
    for column in ["start_ns", "end_ns", "arrival_ns", "wire_bytes", "queue", "flow", "number", "source_port"]
    {
        let sum = table.iter().map(|row| row[column].parse().unwrap_or(0_u64)).sum::<u64>();
        assert_eq!(
            (count(&left["sums"][column]), &left["columns"][column]),
            (sum, &"uint64".into()),
            "{column}"
        );
    }
    assert_eq!((&left["columns"]["class"], &left["columns"]["last"]), (&"string".into(), &"bool".into()));
    // Between frames are 24 bytes of preamble, check sequence and gap.
    assert_eq!(count(&left["sums"]["wire_bytes"]), count(&seen["wire_bytes"]) + 24 * packets);
    assert_eq!((count(&all["rows"]), &all["schema"]), (events.len() as u64, &"weft-events/1".into()));
    assert_eq!(count(&all["texts"]["event"]["sent"]), packets);
}

/// Runs [`world::POLICY`] over a transfer, and returns the document, with the files below the world's folder.
fn run_traced(world: &World, outputs: &[&str]) -> Value {
    let document = world.folder.path().join("o.json");
    let args = [outputs, &["--json", document.to_str().expect("UTF-8")]].concat();
    let running = world.start(&args);
    transfer(&world.app, &world.far, FAR);
    running.signal(Signal::TERM);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 143, "{}", said.err);
    assert!(said.err.contains(" departures: "), "{}", said.err);
    json(&document)
}

/// The packets that the account says each class has sent.
fn sent(document: &Value) -> BTreeMap<String, u64> {
    let classes = document["classes"].as_array().expect("classes").iter();
    let sent = classes.map(|of| (of["class"].as_str().expect("a name").to_owned(), count(&of["packets"])));
    sent.filter(|(_, packets)| *packets > 0).collect()
}

#[test]
fn departures_of_the_software_nic_are_those_of_its_account() {
    if !privileged("departures_of_the_software_nic_are_those_of_its_account") {
        return;
    }
    let world = World::new();
    let [table, way] = paths(&world.folder, ["d.csv", "w.pftrace"]);
    let document = run_traced(&world, &["--departures", &table, "--trace", &way]);
    let (table, seen) = (rows(&table), trace(&way));
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for row in table.iter().filter(|row| row["last"] == "true") {
        *last.entry(row["class"].clone()).or_default() += 1;
    }
    let sent = sent(&document);
    assert!(sent.contains_key("web"), "{sent:?}");
    assert!(sent.iter().all(|(class, packets)| last.get(class) == Some(packets)), "{sent:?} {last:?}");
    assert_eq!(last.values().sum::<u64>(), count(&document["conservation"]["out_packets"]), "{last:?}");
    assert_eq!(seen.on("wire").len(), table.len());
    assert_eq!(seen.on("waiting").len(), seen.flows().len());
    // The transfer's own packets have its ends, and leave one after the other.
    let web: Vec<_> =
        table.iter().filter(|row| row["class"] == "web" && row["destination"] == FAR.to_string()).collect();
    assert!(web.iter().all(|row| row["destination_port"] == "5201" && row["protocol"] == "6"));
    let number = |row: &BTreeMap<String, String>, column: &str| row[column].parse::<u64>().expect("a number");
    assert!(table.windows(2).all(|pair| number(&pair[0], "end_ns") <= number(&pair[1], "start_ns")));
    assert!(web.iter().map(|row| number(row, "wire_bytes")).sum::<u64>() > world::BYTES as u64);
    world.assert_clean();
}

#[test]
fn independent_readers_find_each_packet_of_the_software_nic_s_account() {
    let name = "independent_readers_find_each_packet_of_the_software_nic_s_account";
    let Some(python) = reader(name) else { return };
    if !privileged(name) {
        return;
    }
    let world = World::new();
    let [table, way] = paths(&world.folder, ["d.parquet", "w.pftrace"]);
    let document = run_traced(&world, &["--departures", &table, "--trace", &way]);
    let [left, seen] = <[Value; 2]>::try_from(summaries(&python, &[&table, &way])).expect("two");
    println!("{left}\n{seen}");
    let out = count(&document["conservation"]["out_packets"]);
    assert_eq!((count(&left["sums"]["last"]), &left["schema"]), (out, &"weft-departures/1".into()));
    assert_eq!((count(&seen["spans"]["waiting"]), count(&seen["flows"])), (out, out));
    assert_eq!(count(&seen["spans"]["wire"]), count(&left["rows"]));
    assert_eq!(count(&seen["wire_bytes"]), count(&left["sums"]["wire_bytes"]));
    assert_eq!(seen["roots"], serde_json::json!(["software NIC on up0"]));
    assert!(count(&left["texts"]["class"]["web"]) > 0 && count(&seen["counters"]["backlog"]) > 0);
    world.assert_clean();
}

#[test]
fn a_campaign_s_parquet_has_the_rows_of_its_csv() {
    let folder = tempfile::tempdir().expect("folder");
    file(&folder, "scenario.toml", SCENARIO);
    let axes = "scenario = \"scenario.toml\"\nseeds = 2\n[[axes]]\nkey = \"flows.0.count\"\nvalues = [1, 2]\n\
                [[axes]]\nkey = \"network.rate\"\nvalues = [\"1gbps\", \"2gbps\"]\n";
    let grid = file(&folder, "grid.toml", axes);
    let [out, table, text] = paths(&folder, ["out", "t.parquet", "t.csv"]);
    assert_eq!(run(&["campaign", "run", &grid, "--out", &out]).code, 0);
    let said = run(&["campaign", "export", &out, "--format", "parquet", "--to", &table]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(run(&["campaign", "export", &out, "--to", &text]).code, 0);
    let bytes = std::fs::read(&table).expect("read");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let rows = rows(&text);
    assert_eq!(rows.len(), 8);
    let Some(python) = reader("a_campaign_s_parquet_has_the_rows_of_its_csv") else { return };
    let summary = summaries(&python, &[&table]).remove(0);
    assert_eq!((count(&summary["rows"]), &summary["schema"]), (8, &"weft-campaign/1".into()));
    assert_eq!(summary["columns"]["flows.0.count"], "uint64");
    assert_eq!(summary["columns"]["network.rate"], "string");
    assert_eq!(count(&summary["texts"]["network.rate"]["2gbps"]), 4);
    for figure in ["throughput_bps", "packets"] {
        let sum: f64 = rows.iter().map(|row| row[figure].parse::<f64>().expect("a number")).sum();
        let read = summary["sums"][figure].as_f64().expect("a sum");
        assert!((read - sum).abs() <= sum * 1e-12, "{figure}: {read} of {sum}");
    }
}
