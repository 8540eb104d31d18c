//! The metrics of `weft daemon`, read by hand and by Debian's own prometheus.

use crate::common;
use crate::common::service;
use crate::common::service::{PATIENCE, Service};
use crate::common::until;
use crate::common::world;
use crate::common::world::{FAR, transfer};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use weft_host::programs;
use weft_host::testing::{privileged, skip};

/// The answer to `GET path`, with this header line.
fn get(stream: &mut (impl Read + Write), path: &str, header: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: weft\r\n{header}\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn metrics_are_served_on_a_socket() {
    if !privileged("metrics_are_served_on_a_socket") {
        return;
    }
    let service = Service::new();
    let path = service.world.folder.path().join("metrics");
    let text = std::fs::read_to_string(&service.config).expect("read");
    std::fs::write(&service.config, format!("metrics = \"unix:{}\"\n{text}", path.display())).expect("write");
    let daemon = service.start();
    transfer(&service.world.app, &service.world.far, FAR);
    let read = |header: &str| get(&mut UnixStream::connect(&path).expect("connect"), "/metrics", header);
    let mut open = String::new();
    // Counters are read at intervals.
    let counted = until(service::PATIENCE, || {
        open = read("Accept: application/openmetrics-text\r\n");
        let mut lines = open.lines();
        let sent = lines.find_map(|line| line.strip_prefix("weft_class_sent_bytes_total{class=\"web\"} "));
        sent.is_some_and(|bytes| bytes.parse::<u64>().is_ok_and(|b| b > world::BYTES as u64))
    });
    assert!(counted, "{open}");
    assert!(open.contains("version=1.0.0") && open.ends_with("# EOF\n"), "{open}");
    assert!(open.contains("weft_port_sent_packets_total{port=\"weft0\"}"), "{open}");
    assert!(open.contains("weft_uplink_up{device=\"up0\"} 1"), "{open}");
    assert!(read("").contains("# TYPE weft_class_sent_bytes_total counter"));
    // The document has the same counters of rare events: of a class, of a port and in all. Their values may change meanwhile.
    let status = service.status();
    let class = &status["classes"][0];
    for (prefix, labels, counters) in [
        ("weft_class_", format!("{{class={}}}", class["class"]), &class["counters"]),
        ("weft_port_", "{port=\"weft0\"}".to_owned(), &status["ports"][0]["counters"]),
        ("weft_", String::new(), &status["counters"]),
    ] {
        let counters = counters.as_object().expect("counters");
        assert!(!counters.is_empty(), "{prefix}: {status}");
        for name in counters.keys() {
            let sample = format!("{prefix}{name}_total{labels} ");
            assert!(open.lines().any(|line| line.starts_with(&sample)), "{sample}: {open}");
        }
    }
    service.stop(daemon);
    assert!(!path.exists(), "the socket of the metrics remains");
}

/// Debian's prometheus: installed, or extracted to the folder that `WEFT_PROMETHEUS` names (`make test-prometheus`).
fn prometheus(test: &str) -> Option<(PathBuf, PathBuf)> {
    let find = |name: &str| match std::env::var_os("WEFT_PROMETHEUS") {
        Some(folder) => Some(PathBuf::from(folder).join(name)).filter(|path| path.exists()),
        None => programs::find(name),
    };
    let found = find("prometheus").zip(find("promtool"));
    if found.is_none() {
        skip(test, "no prometheus (Debian package prometheus; `make test-prometheus` fetches it)");
    }
    found
}

#[test]
fn promtool_accepts_the_metrics_and_prometheus_stores_them() {
    let name = "promtool_accepts_the_metrics_and_prometheus_stores_them";
    if !privileged(name) {
        return;
    }
    let Some((prometheus, promtool)) = prometheus(name) else { return };
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
    let (metrics, web) = (free(), free());
    let service = Service::bare(&format!("metrics = \"{metrics}\"\n"));
    let daemon = service.start();
    let text = get(&mut TcpStream::connect(metrics).expect("connect"), "/metrics", "");
    let body = text.split_once("\r\n\r\n").expect("a body").1;
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().expect("promtool");
    check.stdin.take().expect("stdin").write_all(body.as_bytes()).expect("sent");
    let said: common::Said = check.wait_with_output().expect("promtool").into();
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{body}");

    let folder = service.world.folder.path();
    let config = folder.join("prometheus.yml");
    let jobs = format!(
        "scrape_configs:\n- job_name: weft\n  scrape_interval: 1s\n  static_configs:\n  - targets: ['{metrics}']\n"
    );
    std::fs::write(&config, jobs).expect("write");
    let mut server = Command::new(prometheus);
    server.arg(format!("--config.file={}", config.display()));
    server.arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()));
    server.arg(format!("--web.listen-address={web}"));
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = common::Running(server.spawn().expect("prometheus"));
    let query = |text: &str| {
        let mut stream = TcpStream::connect(web).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(get(&mut stream, &format!("/api/v1/query?query={text}"), "Connection: close\r\n"))
    };
    let stored = || {
        let answer = query("weft_class_sent_bytes_total").unwrap_or_default();
        answer.contains("\"class\":\"web\"") && answer.contains("\"status\":\"success\"")
    };
    assert!(until(PATIENCE * 2, stored), "{:?}", query("up"));
    assert!(query("weft_policy_info").is_some_and(|answer| answer.contains("\"generation\":\"1\"")));
    drop(server);
    service.stop(daemon);
}
