//! Small answers of a web server at the port: nginx with a page of 5 kB, asked by wrk over four connections, each of which asks again
//! when it has the answer.

use super::case::REQUEST_PORT;
use super::error::CostError;
use super::testbed::SENDER;
use core::time::Duration;
use std::net::{SocketAddr, TcpStream};
use weft_host::process::Output;
use weft_host::{NetNs, OsError, Process, Spawn, clock};
use weft_report::bench::cost::RoundTrips;
use weft_units::Nanos;

/// The bytes of the page.
const PAGE: usize = 5000;
const CONNECTIONS: &str = "-c4";
/// The longest wait for the server to listen, and for the client to end after its time.
const PATIENCE: Duration = Duration::from_secs(5);

/// A web server in the sender's namespace. It ends when the value is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    _folder: tempfile::TempDir,
}

/// A client in the receiver's namespace.
#[derive(Debug)]
pub(super) struct Client(Process);

impl Server {
    /// Starts it, and waits until a client in `receiver` reaches it.
    pub(super) fn start(sender: &NetNs, receiver: &NetNs) -> Result<Self, CostError> {
        let failed = |e| OsError::new("prepare the files of nginx", e);
        let folder = tempfile::tempdir().map_err(failed)?;
        let at = folder.path().display();
        let config = folder.path().join("nginx.conf");
        // One process, so that its time is found.
        let text = format!(
            "daemon off;\nmaster_process off;\npid {at}/pid;\nevents {{ }}\nhttp {{\n  access_log off;\n  \
             keepalive_requests 1000000000;\n  server {{ listen {SENDER}:{REQUEST_PORT}; root {at}; }}\n}}\n"
        );
        std::fs::write(&config, text).map_err(failed)?;
        std::fs::write(folder.path().join("page"), vec![b'.'; PAGE]).map_err(failed)?;
        let log = folder.path().join("log");
        let process = Spawn::new("nginx").arg("-e").arg(log).arg("-c").arg(config).netns(sender).start()?;
        let server = Self { process, _folder: folder };
        let (address, end) = (SocketAddr::new(SENDER, REQUEST_PORT), clock::now() + Nanos::from(PATIENCE));
        while let Err(error) = receiver.run(|| TcpStream::connect_timeout(&address, PATIENCE))? {
            if clock::now() > end {
                return Err(OsError::new("reach nginx", error).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid().as_raw_nonzero().get()
    }
}

impl Client {
    /// Starts to send requests for `span`, rounded to seconds.
    pub(super) fn start(receiver: &NetNs, span: Nanos) -> Result<Self, CostError> {
        let seconds = span.as_secs_f64().round().max(1.0);
        let wrk = Spawn::new("wrk").args(["-t1", CONNECTIONS, "--latency"]).arg(format!("-d{seconds}s"));
        let wrk = wrk.arg(format!("http://{SENDER}:{REQUEST_PORT}/page")).netns(receiver);
        Ok(Self(wrk.stdout(Output::Capture).start()?))
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> i32 {
        self.0.pid().as_raw_nonzero().get()
    }

    /// Waits for its end. Returns the times of its requests.
    pub(super) fn finish(mut self) -> Result<RoundTrips, CostError> {
        self.0.wait_timeout(PATIENCE)?;
        let text = String::from_utf8_lossy(&self.0.stdout().bytes).into_owned();
        read(&text).ok_or(CostError::Wrk(text))
    }
}

/// Reads what wrk writes with `--latency`.
fn read(text: &str) -> Option<RoundTrips> {
    let percentile = |name: &str| {
        let lines = text.lines().map(str::split_whitespace);
        lines
            .filter_map(|mut words| (words.next()? == name).then(|| words.next()).flatten())
            .find_map(seconds)
    };
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "))?;
    let count = requests.0.parse().ok()?;
    Some(RoundTrips {
        count,
        p50_s: percentile("50%")?,
        p90_s: percentile("90%")?,
        p99_s: percentile("99%")?,
    })
}

/// A time as wrk writes it: `190.00us`, `1.24ms`, `2.00s`.
fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_wrk_is_read() {
        let text = "Running 2s test @ http://10.98.0.1:7000/page\n  1 threads and 4 connections\n  \
                    Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   226.60us  154.98us   2.76ms   97.18%\n    \
                    Req/Sec    17.43k     1.05k   18.45k    85.71%\n  Latency Distribution\n     50%  190.00us\n     \
                    75%  225.00us\n     90%  290.00us\n     99%    1.24ms\n  36431 requests in 2.10s, 181.90MB read\n\
                    Requests/sec:  17347.98\nTransfer/sec:     86.62MB\n";
        let trips = read(text).expect("a result");
        assert_eq!(trips.count, 36_431);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(trips.p50_s, 190e-6);
        near(trips.p90_s, 290e-6);
        near(trips.p99_s, 1.24e-3);
        assert_eq!(read("unable to connect"), None);
        assert_eq!(seconds("2.00s"), Some(2.0));
    }
}
