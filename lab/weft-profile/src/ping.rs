//! Round trips through a loaded path: 1 KB pings, as Titan's report measures them (section 3).

use core::net::IpAddr;
use core::time::Duration;
use weft_facts::stats;
use weft_host::process::{Output, ProcessError, Signal};
use weft_host::{NetNs, Process, Spawn};

/// Interval between pings: a thousand in 10 s, and less than a thousandth of the link.
const INTERVAL_S: &str = "0.01";
/// Payload of the ICMP message, which has 8 bytes of header besides.
const PAYLOAD: &str = "1016";
const END_GRACE: Duration = Duration::from_secs(3);

/// The reason that there are no round trips.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It does not end.
    #[error("waited too long for ping to end; is the machine busy?")]
    Late,
    /// Nothing was answered, or ping failed.
    #[error("ping: {0}")]
    Said(String),
}

/// A running ping. It is ended when the value is dropped.
#[derive(Debug)]
pub struct Ping(Process);

/// Results of the pings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PingResults {
    /// Round trips, in seconds, in the order of the answers.
    pub seconds: Vec<f64>,
    /// Requests sent; the last ones may have had no time to be answered.
    pub sent: u64,
}

impl PingResults {
    /// Returns the 90th percentile in seconds: the report's latency.
    pub fn p90(&self) -> Option<f64> {
        stats::percentile(&self.seconds, 90.0)
    }

    /// Returns the mean in seconds.
    pub fn mean(&self) -> Option<f64> {
        stats::mean(&self.seconds)
    }

    /// Returns the number of requests without an answer: lost, or sent so late that the answer arrived after the end.
    pub fn unanswered(&self) -> u64 {
        self.sent.saturating_sub(self.seconds.len() as u64)
    }

    /// Parses ping's output: `N bytes from ADDRESS: icmp_seq=1 ttl=64 time=0.123 ms`, and at the end `N packets
    /// transmitted, ..`.
    fn parse(text: &str) -> Self {
        let answers = text.lines().filter(|line| line.contains("icmp_seq=") && !line.contains("DUP!"));
        let millis = |line: &str| {
            let (_, time) = line.rsplit_once("time=")?;
            time.split_whitespace().next()?.parse::<f64>().ok()
        };
        let sent = text.lines().find_map(|line| {
            let (count, rest) = line.split_once(' ')?;
            rest.starts_with("packets transmitted").then(|| count.parse().ok())?
        });
        let seconds: Vec<f64> = answers.filter_map(millis).map(|ms| ms * 1e-3).collect();
        Self { sent: sent.unwrap_or(seconds.len() as u64), seconds }
    }
}

impl Ping {
    /// Starts to ping `address` from the namespace.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(ns: &NetNs, address: IpAddr) -> Result<Self, PingError> {
        let process = Spawn::new("ping")
            .args(["-n", "-i", INTERVAL_S, "-s", PAYLOAD, &address.to_string()])
            .env("LC_ALL", "C")
            .netns(ns)
            .stdout(Output::Capture)
            .stderr(Output::Capture)
            .start()?;
        Ok(Self(process))
    }

    /// Ends ping, and reads its results.
    ///
    /// # Errors
    /// If it does not end, or nothing was answered.
    pub fn finish(mut self) -> Result<PingResults, PingError> {
        // On an interrupt ping writes its remaining output, as at a terminal.
        self.0.signal(Signal::INT)?;
        if self.0.wait_timeout(END_GRACE)?.is_none() {
            return Err(PingError::Late);
        }
        let trips = PingResults::parse(&self.0.stdout().text());
        if trips.seconds.is_empty() {
            let said = self.0.stderr().text();
            let said = said.lines().next().unwrap_or("no ping was answered");
            return Err(PingError::Said(said.to_owned()));
        }
        Ok(trips)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iputils_writes() {
        let text = "PING 192.0.2.1 (192.0.2.1) 1016(1044) bytes of data.\n\
            1024 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=0.127 ms\n\
            1024 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=0.200 ms (DUP!)\n\
            1024 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=12.5 ms\n\n\
            --- 192.0.2.1 ping statistics ---\n\
            3 packets transmitted, 2 received, 33.3333% packet loss, time 35ms\n\
            rtt min/avg/max/mdev = 0.035/0.066/0.127/0.043 ms\n";
        let trips = PingResults::parse(text);
        assert_eq!(trips.seconds, [0.127e-3, 12.5e-3]);
        assert_eq!((trips.sent, trips.unanswered()), (3, 1));
        assert!(trips.mean().is_some_and(|mean| (mean - 6.3135e-3).abs() < 1e-9));
        assert_eq!(trips.p90(), Some(12.5e-3));
    }

    #[test]
    fn nothing_answered_has_no_latency() {
        let trips = PingResults::parse("5 packets transmitted, 0 received, 100% packet loss, time 35ms\n");
        assert_eq!((trips.p90(), trips.sent, trips.unanswered()), (None, 5, 5));
        assert_eq!(PingResults::parse("").mean(), None);
    }
}
