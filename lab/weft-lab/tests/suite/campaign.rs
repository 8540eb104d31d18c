//! `weft campaign` as a user runs it: interrupted, killed, on a full disk, in shards.

use crate::common;
use crate::common::{Running, Said, file, program, run, until, weft};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use weft_campaign::store::{Lookup, ResultStore};
use weft_host::testing::{has_program, privileged};
use weft_units::testing::skip;

const SCENARIO: &str = "warm_up = \"5ms\"\nduration = \"20ms\"\n[[flows]]\ncount = 3\n[[probes]]\n";

/// A grid of `seeds` times six runs, less those of two queues and one flow.
fn grid(folder: &TempDir, seeds: u32) -> String {
    file(folder, "scenario.toml", SCENARIO);
    let axes = "[[axes]]\nname = \"flows\"\nkey = \"flows.0.count\"\nvalues = [1, 2, 4]\n\
                [[axes]]\nname = \"queues\"\nkey = \"host.nic.transmit_queues\"\nvalues = [1, 2]\n";
    let head = format!("scenario = \"scenario.toml\"\nseeds = {seeds}\nwhere = \"flows >= queues\"\n");
    file(folder, "grid.toml", head + axes)
}

fn at(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

/// All files below a folder, by their path from it.
fn files(folder: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    fn gather(folder: &Path, root: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                gather(&path, root, found);
            } else if let Ok(content) = std::fs::read(&path) {
                // A file that is being written may have got its name meanwhile.
                found.insert(path.strip_prefix(root).expect("below").to_owned(), content);
            }
        }
    }
    let mut found = BTreeMap::new();
    gather(Path::new(folder), Path::new(folder), &mut found);
    found
}

fn campaign(grid: &str, out: &str, more: &[&str]) -> Said {
    run(&[&["campaign", "run", grid, "--out", out], more].concat())
}

#[test]
fn what_exists_is_not_run_again_and_shards_make_the_same() {
    let folder = tempfile::tempdir().expect("folder");
    let grid = grid(&folder, 2);
    let [whole, parts, merged] = ["whole", "parts", "merged"].map(|name| at(&folder, name));
    let said = campaign(&grid, &whole, &[]);
    assert_eq!((said.code, said.err.trim()), (0, "10 runs: 10 made, 0 were there"));
    let said = campaign(&grid, &whole, &["--threads", "1"]);
    assert_eq!((said.code, said.err.trim()), (0, "10 runs: 0 made, 10 were there"));

    // The commands of --list, one after the other, each as a shell reads it.
    let said = run(&["campaign", "run", &grid, "--out", &parts, "--list", "--shards", "3"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 3), "{}", said.err);
    for command in said.out.lines() {
        assert!(Command::new("sh").args(["-c", command]).output().expect("sh").status.success(), "{command}");
    }
    assert_eq!(files(&parts), files(&whole));
    for shard in ["1/2", "2/2"] {
        let part = at(&folder, &shard.replace('/', "of"));
        assert_eq!(campaign(&grid, &part, &["--shard", shard]).code, 0);
        assert_eq!(files(&part).len(), 5);
        let said = run(&["campaign", "merge", &part, "--out", &merged]);
        assert_eq!((said.code, said.err.trim()), (0, "5 results taken over, 0 were there"));
    }
    assert_eq!(files(&merged), files(&whole));

    // More seeds: the difference is made.
    let more = self::grid(&folder, 3);
    assert!(campaign(&more, &whole, &[]).err.contains("15 runs: 5 made, 10 were there"));
}

#[test]
fn a_torn_or_foreign_file_is_told_and_made_again() {
    let folder = tempfile::tempdir().expect("folder");
    let (grid, out) = (grid(&folder, 1), at(&folder, "out"));
    assert_eq!(campaign(&grid, &out, &[]).code, 0);
    let good = files(&out);
    let paths: Vec<&PathBuf> = good.keys().collect();
    let put = |index: usize, content: &[u8]| {
        std::fs::write(Path::new(&out).join(paths[index]), content).expect("write");
    };
    let first = &good[paths[0]];
    put(0, &first[..first.len() / 2]);
    put(1, b"");
    put(2, first);
    let mut changed = good[paths[3]].clone();
    let digit = changed.iter().rposition(u8::is_ascii_digit).expect("a digit");
    changed[digit] ^= 1;
    put(3, &changed);
    let said = run(&["campaign", "status", &grid, "--out", &out]);
    assert!(said.code == 0 && said.out.contains("broken") && said.out.contains('4'), "{}", said.out);
    let said = campaign(&grid, &out, &[]);
    assert!(said.err.ends_with("5 runs: 4 made, 1 were there\n"), "{}", said.err);
    for reason in ["it is not whole", "its checksum is wrong", "it is the result of another run"] {
        assert!(said.err.contains(&format!(": {reason}; it is made again")), "{}", said.err);
    }
    assert_eq!(files(&out), good);
}

/// Runs whose end is seen while others are under way: slow enough for a signal, fast enough for a test.
fn slow(folder: &TempDir) -> String {
    let scenario = SCENARIO.replace("20ms", "100ms");
    file(folder, "slow-scenario.toml", scenario);
    file(folder, "slow.toml", "scenario = \"slow-scenario.toml\"\nseeds = 40\n")
}

#[test]
fn a_killed_campaign_goes_on_and_is_equal_byte_by_byte() {
    let folder = tempfile::tempdir().expect("folder");
    let (grid, [killed, whole]) = (slow(&folder), ["killed", "whole"].map(|name| at(&folder, name)));
    let finished = || {
        let mut all = files(&killed);
        all.retain(|path, _| path.extension().is_some_and(|end| end == "json"));
        all
    };
    let mut before = BTreeMap::new();
    for _ in 0..3 {
        let running = weft().args(["campaign", "run", &grid, "--out", &killed]).spawn().expect("start weft");
        let running = Running(running);
        // A machine that hesitates may let it make all of them.
        let more = || finished().len() > before.len() || before.len() == 40;
        assert!(until(Duration::from_secs(120), more), "no result");
        running.signal(Signal::KILL);
        drop(running);
        let now = finished();
        assert!(
            before.iter().all(|(path, content)| now.get(path) == Some(content)),
            "what was finished stays"
        );
        before = now;
    }
    let said = campaign(&grid, &killed, &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!said.err.contains("again"), "no file was torn: {}", said.err);
    assert_eq!(campaign(&grid, &whole, &[]).code, 0);
    let whole = files(&whole);
    assert_eq!(files(&killed), whole);
    assert_eq!(whole.len(), 40);
    assert!(before.iter().all(|(path, content)| whole[path] == *content));
}

#[test]
fn after_ctrl_c_what_is_done_is_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let (grid, out) = (slow(&folder), at(&folder, "out"));
    let running = weft().args(["campaign", "run", &grid, "--out", &out]).spawn().expect("start weft");
    let running = Running(running);
    assert!(until(Duration::from_secs(120), || !files(&out).is_empty()), "no result");
    running.signal(Signal::INT);
    let said = running.wait(Duration::from_secs(60));
    let done = files(&out).len();
    // A machine that is fast enough makes all before the signal.
    if said.code == 0 {
        assert_eq!(done, 40);
        return;
    }
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(
        said.err.contains(&format!("40 runs: {done} made, 0 were there, {} are missing", 40 - done)),
        "{}",
        said.err
    );
    assert!(campaign(&grid, &out, &[]).err.contains(&format!("{done} were there")));
}

#[test]
fn a_full_disk_is_told_in_a_line_and_the_finished_is_kept() {
    let name = "a_full_disk_is_told_in_a_line_and_the_finished_is_kept";
    if !privileged(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (grid, whole, small) = (grid(&folder, 3), at(&folder, "whole"), at(&folder, "small"));
    assert_eq!(campaign(&grid, &whole, &[]).code, 0);
    std::fs::create_dir(&small).expect("folder");
    // In a separate mount namespace: six pages, then as many as are needed.
    let script = "mount -t tmpfs -o size=24k none \"$3\" || exit 99\n\
        \"$1\" campaign run \"$2\" --out \"$3\" 2> \"$3.full\"; echo $? > \"$3.code\"\n\
        mount -o remount,size=8m \"$3\"; \"$1\" campaign run \"$2\" --out \"$3\" 2> \"$3.after\" && cp -r \"$3\" \"$3.copy\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", &program(), &grid, &small]);
    let output = command.output().expect("unshare");
    if output.status.code() == Some(99) {
        return skip(name, "no tmpfs can be mounted");
    }
    let read = |end: &str| std::fs::read_to_string(format!("{small}{end}")).expect("read");
    assert!(output.status.success(), "{}{}", read(".full"), read(".after"));
    assert_eq!(read(".code").trim(), "1", "{}", read(".full"));
    let said = read(".full");
    assert!(
        said.lines().count() == 1 && said.contains("No space left") && said.contains("same command"),
        "{said}"
    );
    let kept: Vec<u64> = read(".after").split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(kept.len() == 3 && kept[0] == 15 && kept[2] > 0, "{}", read(".after"));
    assert_eq!(files(&format!("{small}.copy")), files(&whole));
}

#[test]
fn exports_have_a_row_per_run() {
    let folder = tempfile::tempdir().expect("folder");
    let (grid, out) = (grid(&folder, 2), at(&folder, "out"));
    assert_eq!(campaign(&grid, &out, &[]).code, 0);
    let said = run(&["campaign", "export", &out]);
    assert_eq!(said.code, 0, "{}", said.err);
    let rows: Vec<&str> = said.out.lines().collect();
    assert!(
        rows[0].starts_with("flows.0.count,host.nic.transmit_queues,seed,model,backlog_bytes.default,"),
        "{}",
        rows[0]
    );
    let begins: Vec<String> =
        rows[1..].iter().map(|row| row.split(',').take(3).collect::<Vec<_>>().join(" ")).collect();
    let expected = ["1 1", "2 1", "2 2", "4 1", "4 2"].map(|of| [format!("{of} 1"), format!("{of} 2")]);
    assert_eq!(begins, expected.concat());
    let columns = rows[0].split(',').count();
    assert!(rows.iter().all(|row| row.split(',').count() == columns));
    let said = run(&["campaign", "export", &out, "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(10));
    assert!(document["runs"][0]["figures"]["throughput_bps"].as_f64().is_some_and(|bps| bps > 1e6));

    // The figures are those of `weft sim`.
    let sim = [
        "sim",
        &at(&folder, "scenario.toml"),
        "--set",
        "flows.0.count=1",
        "--set",
        "host.nic.transmit_queues=1",
    ];
    let said = run(&[&sim[..], &["--seed", "1", "--json", "-"]].concat());
    let alone: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(document["runs"][0]["figures"]["throughput_bps"], alone["throughput_bps"]);
    assert_eq!(document["runs"][0]["figures"]["events"].as_f64(), alone["events"].as_f64());
}

#[test]
fn wrong_grids_and_folders_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("folder");
    let (good, out) = (grid(&folder, 1), at(&folder, "out"));
    let grid = |name: &str, axis: &str| {
        file(&folder, name, format!("scenario = \"scenario.toml\"\n[[axes]]\n{axis}"))
    };
    let unknown = grid("unknown.toml", "key = \"host.nic.transmit_queus\"\nvalues = [8]\n");
    let zero = grid("zero.toml", "key = \"host.nic.transmit_queues\"\nvalues = [0]\n");
    let lost = file(&folder, "lost.toml", "scenario = \"absent.toml\"\n");
    let here = folder.path().to_str().expect("UTF-8");
    for (args, code, said) in [
        (
            &["run", &unknown, "--out", &out][..],
            1,
            "unknown.toml:3:7: error: with host.nic.transmit_queus=8: unknown key",
        ),
        (&["run", &zero, "--out", &out], 1, "zero.toml:3:7: error: with host.nic.transmit_queues=0: "),
        (&["run", &lost, "--out", &out], 1, "lost.toml:1:12: error: the scenario"),
        (&["run", "no-such-grid.toml", "--out", &out], 1, "no-such-grid.toml"),
        (&["run", &good, "--out", here], 1, "is not a campaign's folder"),
        (&["run", &good, "--out", &out, "--shard", "3/2"], 2, "`3/2` is no shard"),
        (&["run", &good, "--out", &out, "--list", "--threads", "2"], 2, "--list"),
        (&["status", &good, "--out", "/no-such-folder"], 1, "/no-such-folder has no results"),
        (&["export", here], 1, "has no results"),
    ] {
        let all = run(&[&["campaign"], args].concat());
        assert_eq!(all.code, code, "{args:?}: {}", all.err);
        assert!(all.err.contains(said), "{args:?}: {}", all.err);
    }
}

#[test]
fn the_script_for_slurm_runs_a_shard() {
    let folder = tempfile::tempdir().expect("folder");
    let (grid, out) = (grid(&folder, 1), at(&folder, "out"));
    let script = run(&["campaign", "slurm", &grid, "--out", &out, "--nodes", "2"]);
    assert!(script.code == 0 && script.out.contains("#SBATCH --array=1-2\n"), "{}", script.out);
    let long = run(&["campaign", "slurm", &grid, "--out", &out, "--nodes", "1001"]);
    assert!(script.err.is_empty() && long.code == 0 && long.err.contains("MaxArraySize"), "{}", long.err);
    for (task, results) in [("1", 3), ("2", 5)] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script.out]).env("SLURM_ARRAY_TASK_ID", task).env("SLURM_CPUS_PER_TASK", "1");
        assert!(shell.output().expect("sh").status.success());
        assert_eq!(files(&out).len(), results);
    }
}

/// As much of Ray as the program uses, in one process. `make test-engines` runs it on Ray.
const RAY: &str = r#"
import types

exceptions = types.SimpleNamespace(RayError=RuntimeError)

def init(address=None, object_store_memory=None):
    if address == "auto":
        raise ConnectionError("no cluster")
    assert object_store_memory < 1 << 30

def remote(num_cpus, max_retries, retry_exceptions):
    assert num_cpus == 1 and max_retries > 0
    def task(function):
        def call(*args):
            try:
                return function(*args)
            except tuple(retry_exceptions):
                return function(*args)
            except RuntimeError as error:
                return error
        return types.SimpleNamespace(remote=call)
    return task

def wait(tasks):
    return tasks[:1], tasks[1:]

def get(done):
    if isinstance(done, Exception):
        raise done
    return done
"#;

#[test]
fn the_program_for_ray_runs_all_shards() {
    let name = "the_program_for_ray_runs_all_shards";
    if !has_program(name, "python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let grid = grid(&folder, 1);
    assert_eq!(campaign(&grid, &at(&folder, "whole"), &[]).code, 0);
    file(&folder, "ray.py", RAY);
    let out = at(&folder, "it's");
    let program = run(&["campaign", "ray", &grid, "--out", &out, "--shards", "2"]);
    assert_eq!(program.code, 0, "{}", program.err);
    let ran = || {
        let mut python = Command::new("python3");
        // With -c, this folder comes first in the path of modules.
        python.args(["-B", "-c", &program.out]).current_dir(folder.path());
        Said::from(python.output().expect("python3"))
    };
    let said = ran();
    assert_eq!((said.code, said.out.trim()), (0, out.as_str()), "{}", said.err);
    assert_eq!(files(&out), files(&at(&folder, "whole")));

    // The error of a shard is shown.
    std::fs::remove_file(folder.path().join("scenario.toml")).expect("remove");
    let said = ran();
    assert_eq!(said.code, 1);
    let told = said.err.contains("scenario.toml cannot be read") && said.err.contains("2 of 2 shards failed");
    assert!(told, "{}", said.err);
}

/// The grid and the scenario of docs/campaigns.md.
#[test]
fn the_guide_s_example_runs() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/campaigns.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let mut blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let folder = tempfile::tempdir().expect("folder");
    let grid = file(&folder, "grid.toml", blocks.next().expect("a grid"));
    file(&folder, "scenario.toml", blocks.next().expect("a scenario"));
    let out = at(&folder, "results");
    let said = campaign(&grid, &out, &[]);
    assert_eq!((said.code, said.err.trim()), (0, "30 runs: 30 made, 0 were there"));
    let said = run(&["campaign", "export", &out]);
    for name in said.out.lines().next().expect("names").split(',').skip(4) {
        let figure = name.split('.').next().expect("a name");
        let family = ["probe", "completion", "request"].iter().find(|family| figure.starts_with(*family));
        let told = family.map_or_else(|| figure.to_owned(), |family| format!("{family}_mean_s"));
        assert!(page.contains(&format!("`{told}")), "docs/campaigns.md does not tell {name}");
    }
}

#[test]
fn the_shipped_grid_is_complete() {
    let grid = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/campaigns/titan-queues.toml");
    let said = run(&["campaign", "run", grid, "--out", "unused", "--list", "--shards", "1"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 1), "{}", said.err);
}

#[test]
fn a_reproduction_takes_the_runs_that_its_store_has() {
    let folder = tempfile::tempdir().expect("folder");
    let store = at(&folder, "store");
    let json = |name: &str, more: &[&str]| {
        let path = at(&folder, name);
        let args = ["reproduce", "loom-doorbells", "--flows", "10", "--json", &path];
        let said = run(&[&args[..], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let mut document = common::json(&path);
        // Times of the runs.
        document["experiments"][0]["wall_s"] = 0.into();
        document["experiments"][0]["events_per_s"] = 0.into();
        document
    };
    let kept = json("kept.json", &["--seeds", "2", "--store", &store]);
    let runs = files(&store).len();
    assert!(runs > 0);
    assert_eq!(json("again.json", &["--seeds", "2", "--store", &store]), kept);
    assert_eq!(files(&store).len(), runs);
    assert_eq!(json("without.json", &["--seeds", "2"]), kept, "the store changes nothing");
    // What is there is not made again: other figures under the same names come out.
    let there = ResultStore::open(Path::new(&store)).expect("a store");
    let plant = |change: f64| {
        for key in there.keys() {
            let key = key.expect("a name");
            let Lookup::Whole(mut record) = there.look(&key).expect("readable") else {
                panic!("{key} is broken")
            };
            record.figures.values_mut().flatten().for_each(|figure| *figure *= change);
            assert!(there.write(&[(key, record.write().expect("finite"))]).1.is_none());
        }
    };
    plant(2.0);
    assert_ne!(json("planted.json", &["--seeds", "2", "--store", &store]), kept);
    plant(0.5);
    assert_eq!(
        json("more.json", &["--seeds", "3", "--store", &store]),
        json("three.json", &["--seeds", "3"])
    );
    assert_eq!(files(&store).len(), runs / 2 * 3);
}
