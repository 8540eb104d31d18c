//! Helpers that run the built program.

pub(crate) mod datagrams;
pub(crate) mod flows;
pub(crate) mod load;
pub(crate) mod service;
pub(crate) mod world;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
pub(crate) use weft_host::testing::until;

/// The program's output and exit code.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit code; -1 after a signal.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// The built program. Cargo names that of the crate under test; the laboratory's tests run `weft` as users do, which is beside it.
pub(crate) fn program() -> String {
    let path = Path::new(crate::PROGRAM).with_file_name("weft");
    assert!(path.exists(), "no {}: build the tests of the whole workspace", path.display());
    path.into_os_string().into_string().expect("UTF-8")
}

/// Asserts that a document fits the schema of this name.
#[track_caller]
pub(crate) fn assert_fits(document: &serde_json::Value, name: &str) {
    let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(crate::schema::errors(&json(path), document), Vec::<String>::new(), "{name}");
}

/// Returns a command for the built program.
pub(crate) fn weft() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a command for the program without any capability, even when the tests run as root.
pub(crate) fn weft_without_rights() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(program());
    if weft_host::require_network_rights().is_err() {
        command = Command::new(program());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub(crate) fn run(args: &[&str]) -> Said {
    weft().args(args).output().expect("run weft").into()
}

/// Writes a file into the test's folder, and returns its path.
pub(crate) fn file(folder: &tempfile::TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("write");
    path.to_str().expect("UTF-8").to_owned()
}

/// Reads a JSON file.
pub(crate) fn json(path: impl AsRef<Path>) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("read");
    serde_json::from_str(&text).expect("JSON")
}

/// Asserts that a document names its schema and host.
pub(crate) fn assert_head(document: &serde_json::Value, schema: &str) {
    assert_eq!(document["schema"], schema);
    assert!(document["host"]["kernel"].is_string() && document["host"]["cores"].is_u64(), "{document}");
}

/// Asserts that in = out + dropped + held, and that packets arrived.
pub(crate) fn assert_conserved(conservation: &serde_json::Value) {
    for unit in ["packets", "bytes"] {
        let of = |what: &str| conservation[format!("{what}_{unit}")].as_u64().expect("a count");
        assert_eq!(of("in"), of("out") + of("dropped") + of("held"), "{conservation}");
        assert!(of("in") > 0, "{conservation}");
    }
}

/// A program that is killed if the test fails.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("signal");
    }

    /// Waits for the program to end by itself, and returns its output.
    pub(crate) fn wait(mut self, patience: Duration) -> Said {
        let ended = || self.0.try_wait().expect("wait").is_some();
        assert!(until(patience, ended), "the program does not end");
        let read = |stream: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            stream.map(|s| s.read_to_string(&mut text).expect("read"));
            text
        };
        let code = self.0.wait().expect("wait").code().unwrap_or(-1);
        let out = read(self.0.stdout.as_mut().map(|s| s as &mut dyn std::io::Read));
        let err = read(self.0.stderr.as_mut().map(|s| s as &mut dyn std::io::Read));
        Said { code, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the namespaces and cgroups of the process `pid`.
pub(crate) fn left_by(pid: u32) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/run/netns")];
    folders.extend(weft_host::Hierarchy::detect().map(|h| h.mount_point().to_owned()));
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let prefix = format!("weft-{pid}-");
    paths.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix))).collect()
}

/// Returns the links of this namespace.
pub(crate) fn links() -> Vec<String> {
    let here = weft_host::NetNs::current().expect("namespace");
    weft_host::link::list(&here).expect("links").into_iter().map(|link| link.name).collect()
}

/// Writes a list of flows for plans of receive queues, and returns its path.
pub(crate) fn flow_list(folder: &tempfile::TempDir) -> String {
    let mut text = String::from("proto,src,sport,dst,dport,class\n");
    for port in 1..=24 {
        let class = if port <= 4 { "hp" } else { "be" };
        text.push_str(&format!("udp,192.0.2.1,{},198.51.100.1,{},{class}\n", 7000 + port, 1000 + port));
    }
    text.push_str("tcp,*,*,198.51.100.1,80,be\n");
    file(folder, "flows.csv", text)
}
