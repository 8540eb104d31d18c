//! The applications: iperf3 for bulk flows, sockperf for small requests, each in its tenant's cgroup.

use super::DemoError;
use super::scenario::{Bulk, processes};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_host::process::Output;
use weft_host::{Cgroup, NetNs, Process, Spawn, clock};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_units::{Instant, Nanos};

/// The first TCP port of the iperf3 servers.
const IPERF_PORT: u32 = 5201;
/// sockperf's TCP port, its own default.
const SOCKPERF_PORT: u16 = 11111;
/// Time that sockperf's client takes before its first message.
const SOCKPERF_LEAD: Nanos = Nanos::from_millis(2400);

/// The processes of a bulk sender.
#[derive(Debug)]
pub(super) struct BulkRun {
    pub(super) bulk: Bulk,
    servers: Vec<Process>,
    clients: Vec<Process>,
    first_port: u32,
}

impl BulkRun {
    /// Starts the servers of the sender with number `index`.
    pub(super) fn prepare(bulk: &Bulk, index: u32, testbed: &Testbed) -> Result<Self, DemoError> {
        let first_port = IPERF_PORT + index * 64;
        let mut servers = Vec::new();
        for i in 0..processes(bulk.flows) {
            let server = Spawn::new("iperf3")
                .args(["--server", "--one-off", "--port", &(first_port + i).to_string()])
                .netns(&testbed.receiver)
                .start()?;
            servers.push(server);
        }
        Ok(Self { bulk: bulk.clone(), servers, clients: Vec::new(), first_port })
    }

    /// Starts the clients; they send until they are stopped.
    pub(super) fn start(
        &mut self,
        sender: &NetNs,
        cgroup: &Cgroup,
        congestion: &str,
    ) -> Result<(), DemoError> {
        let count = processes(self.bulk.flows);
        for i in 0..count {
            // Flows are divided as evenly as possible.
            let flows = (self.bulk.flows + count - 1 - i) / count;
            let client = Spawn::new("iperf3")
                .args(["--client", &self.bulk.destination.to_string()])
                .args(["--port", &(self.first_port + i).to_string()])
                .args(["--parallel", &flows.to_string(), "--congestion", congestion])
                .args(["--time", "86400", "--interval", "0", "--connect-timeout", "10000"])
                .netns(sender)
                .cgroup(cgroup)
                .stdout(Output::Capture)
                .stderr(Output::Capture)
                .start()?;
            self.clients.push(client);
        }
        Ok(())
    }

    pub(super) fn is_started(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Returns the message of a client that has ended by itself, which is a failure.
    pub(super) fn failure(&mut self) -> Option<String> {
        for client in &mut self.clients {
            if let Ok(Some(status)) = client.try_wait() {
                let said = [client.stderr().text(), client.stdout().text()].concat();
                let said = said.lines().rfind(|l| l.contains("error")).unwrap_or("no message").to_owned();
                return Some(format!("{}: iperf3 ended early ({status}): {said}", self.bulk.name));
            }
        }
        None
    }

    /// Ends the clients, then the servers, whose resets discard the data in the clients' sockets.
    pub(super) fn stop(&mut self) {
        for process in self.clients.iter_mut().chain(&mut self.servers) {
            let _ = process.signal(weft_host::process::Signal::KILL);
        }
        for process in self.clients.drain(..).chain(self.servers.drain(..)) {
            drop(process);
        }
    }
}

/// The processes of the latency tenant.
#[derive(Debug)]
pub(super) struct LatencyRun {
    server: Process,
    client: Process,
    log: PathBuf,
    /// The start of the client, to which the times in its log are relative.
    origin: Instant,
}

/// A request: when it was sent, and its round trip.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimedRequest {
    /// Time of sending, relative to the beginning of the run.
    pub at: Nanos,
    /// Round trip, in seconds.
    pub round_trip_s: f64,
}

impl LatencyRun {
    /// Starts sockperf: TCP ping-pong, `rate` messages a second of `size` bytes for `span`. `stop` ends the wait for its server.
    pub(super) fn start(
        testbed: &Testbed,
        cgroup: &Cgroup,
        folder: &Path,
        rate: u32,
        size: u32,
        span: Nanos,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, DemoError> {
        let (address, port) = (RECEIVER.to_string(), SOCKPERF_PORT.to_string());
        let server = Spawn::new("sockperf")
            .args(["server", "--tcp", "-i", &address, "-p", &port])
            .netns(&testbed.receiver)
            .start()?;
        weft_profile::wait_until_listening(&testbed.receiver, RECEIVER, SOCKPERF_PORT, stop)?;
        let log = folder.join("sockperf.csv");
        let origin = clock::now();
        let seconds = span.get().div_ceil(1_000_000_000) + 1;
        let client = Spawn::new("sockperf")
            .args(["ping-pong", "--tcp", "-i", &address, "-p", &port])
            .args(["-t", &seconds.to_string(), "--mps", &rate.to_string(), "-m", &size.to_string()])
            .arg("--full-rtt")
            .arg("--full-log")
            .arg(&log)
            .netns(&testbed.sender)
            .cgroup(cgroup)
            .stdout(Output::Capture)
            .stderr(Output::Capture)
            .start()?;
        Ok(Self { server, client, log, origin })
    }

    /// The first message's time: the client calibrates its clock and waits before it.
    pub(super) fn first_message(&self) -> Instant {
        self.origin + SOCKPERF_LEAD
    }

    /// Returns the process ids of client and server.
    pub(super) fn pids(&self) -> Vec<i32> {
        [&self.client, &self.server].map(|process| process.pid().as_raw_nonzero().get()).to_vec()
    }

    /// Waits for the client to write its log, and reads the requests of the run that began at `begin`.
    pub(super) fn finish(mut self, begin: Instant, grace: Duration) -> Result<Vec<TimedRequest>, DemoError> {
        let ended = self.client.wait_timeout(grace)?;
        if ended.is_none() {
            // sockperf writes its log on an interrupt, as at a terminal.
            let _ = self.client.signal(weft_host::process::Signal::INT);
            let _ = self.client.wait_timeout(Duration::from_secs(3))?;
        }
        let said = [self.client.stderr().text(), self.client.stdout().text()].concat();
        let error = said.lines().rfind(|l| l.contains("ERROR"));
        let failed = |said: &str| DemoError::Application { program: "sockperf", said: said.to_owned() };
        let _ = self.server.stop(Duration::from_millis(500));
        let text =
            std::fs::read_to_string(&self.log).map_err(|_| failed(error.unwrap_or("no log was written")))?;
        // sockperf 3.7 makes its log before it connects, and its exit code is 0 also when it cannot.
        match error {
            Some(error) if text.is_empty() => Err(failed(error)),
            _ => Ok(parse_log(&text, self.origin, begin)),
        }
    }
}

/// Reads sockperf's log: lines of `packet, txTime(sec), rxTime(sec), rtt(usec)`. Times are relative to `origin`, the
/// start of the process. Requests from before `begin`, the beginning of the run, are left out.
pub(super) fn parse_log(text: &str, origin: Instant, begin: Instant) -> Vec<TimedRequest> {
    let row = |line: &str| -> Option<TimedRequest> {
        let mut fields = line.split(',').map(str::trim);
        let _number: u64 = fields.next()?.parse().ok()?;
        let sent: f64 = fields.next()?.parse().ok()?;
        let received: f64 = fields.next()?.parse().ok()?;
        let at = origin + Nanos((sent * 1e9) as u64);
        (at >= begin).then(|| TimedRequest { at: at - begin, round_trip_s: received - sent })
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::testing::{has_program, privileged, unique};
    use weft_host::{Hierarchy, link};

    #[test]
    fn the_log_of_sockperf_3_7() {
        let text = "------------------------------\nsockperf: Summary: Round trip is 58.243 usec\n\
                    packet, txTime(sec), rxTime(sec), rtt(usec)\n\
                    0, 2.401699119, 2.401779178, 80.059\n1, 2.402699116, 2.402759456, 60.340\n\
                    ------------------------------\n";
        let requests = parse_log(text, Instant::from_secs(100), Instant::ZERO);
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].at, Nanos(102_401_699_119));
        assert!((requests[1].round_trip_s - 60.34e-6).abs() < 1e-9);
    }

    /// The client finds no way to its server.
    #[test]
    fn a_client_that_fails_is_an_error_and_not_a_run_without_requests() {
        let name = "a_client_that_fails_is_an_error_and_not_a_run_without_requests";
        if !privileged(name) || !has_program(name, "sockperf") {
            return;
        }
        let testbed = Testbed::create("").expect("testbed");
        link::set_up(&testbed.receiver, "lo").expect("up");
        link::add_address(&testbed.receiver, "lo", RECEIVER, 32).expect("address");
        let cgroup = Hierarchy::detect().and_then(|h| h.create(&unique("log"))).expect("cgroup");
        let folder = tempfile::tempdir().expect("folder");
        let second = Nanos::from_secs(1);
        let run = LatencyRun::start(&testbed, &cgroup, folder.path(), 10, 64, second, &|| false);
        let requests = run.expect("started").finish(Instant::ZERO, Duration::from_secs(10));
        let error = requests.expect_err("no way").to_string();
        assert!(error.starts_with("sockperf failed: ") && error.contains("ERROR"), "{error}");
    }

    #[test]
    fn a_torn_log_gives_what_it_has() {
        assert_eq!(parse_log("0, 2.4, 2.5, 1\n1, 2.4", Instant::ZERO, Instant::ZERO).len(), 1);
        assert!(parse_log("", Instant::ZERO, Instant::ZERO).is_empty());
    }
}
