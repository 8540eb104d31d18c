//! Processor time of the whole machine, and the TCP counters of a namespace.

use super::error::MeasuredError;
use weft_host::{NetNs, OsError};

/// Counts of `/proc/stat` (proc_stat(5)), in ticks of any length, for all processors together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CpuTimes {
    busy: u64,
    all: u64,
    cores: u64,
}

impl CpuTimes {
    /// Reads the machine's counts.
    pub(crate) fn read() -> Result<Self, MeasuredError> {
        let path = "/proc/stat";
        let text = std::fs::read_to_string(path).map_err(|e| OsError::new("read /proc/stat", e))?;
        Self::parse(&text).ok_or(MeasuredError::Unreadable(path))
    }

    /// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest times are included in
    /// `user` and `nice`. Time that another machine has the processor (steal) does not count as busy time.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        let busy = user + nice + system + irq + softirq;
        let numbered = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let cores = text.lines().filter(numbered).count() as u64;
        Some(Self { busy, all: busy + idle + iowait + steal, cores })
    }

    /// Returns the busy time since `before` in percent of one processor, summed over all: 200 for two that were busy
    /// throughout (the report's section 3). `None` when no tick has passed.
    pub(crate) fn percent_since(self, before: Self) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        let busy = self.busy.saturating_sub(before.busy);
        (all > 0).then(|| busy as f64 / all as f64 * self.cores as f64 * 100.0)
    }
}

/// Returns the processors that this process may use, from `Cpus_allowed_list` (proc_pid_status(5)).
pub(super) fn allowed() -> Result<Vec<u32>, MeasuredError> {
    let path = "/proc/thread-self/status";
    let text = std::fs::read_to_string(path).map_err(|e| OsError::new(format!("read {path}"), e))?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpus = list.and_then(|list| parse_list(list.trim())).filter(|cpus| !cpus.is_empty());
    cpus.ok_or(MeasuredError::Unreadable(path))
}

/// Parses a list such as `0-3,8`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// TCP counters of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TcpCounters {
    /// Segments retransmitted: `Tcp: RetransSegs`.
    pub(super) retransmitted: u64,
    /// Packets received before an earlier one: `TcpExt: TCPOFOQueue`.
    pub(super) out_of_order: u64,
}

impl TcpCounters {
    pub(super) fn read(ns: &NetNs) -> Result<Self, MeasuredError> {
        let (snmp, netstat) = ("/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat");
        let read = |path: &'static str| -> Result<String, MeasuredError> {
            let text = ns.run(|| std::fs::read_to_string(path))?;
            Ok(text.map_err(|e| OsError::new(format!("read {path} of {ns}"), e))?)
        };
        let find = |path, name, prefix| -> Result<u64, MeasuredError> {
            counter(&read(path)?, prefix, name).ok_or(MeasuredError::Unreadable(path))
        };
        Ok(Self {
            retransmitted: find(snmp, "RetransSegs", "Tcp:")?,
            out_of_order: find(netstat, "TCPOFOQueue", "TcpExt:")?,
        })
    }
}

/// Returns a counter of a table with pairs of lines: `PREFIX names...`, then `PREFIX numbers...`.
fn counter(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let found = names.split_whitespace().zip(numbers.split_whitespace()).find(|(known, _)| *known == name);
    found?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_of_one_processor() {
        let stat = |user, idle, steal| {
            let text =
                format!("cpu  {user} 0 0 {idle} 10 0 0 {steal} 7 0\ncpu0 1 2\ncpu1 1 2\nintr 5\ncpu_x 1\n");
            CpuTimes::parse(&text).expect("counts")
        };
        let (before, after) = (stat(100, 100, 0), stat(190, 200, 10));
        // 90 of 200 ticks of two processors.
        assert_eq!(after.percent_since(before), Some(90.0));
        assert_eq!(before.percent_since(before), None);
        assert_eq!(CpuTimes::parse("cpu  1 2 3"), None);
        assert_eq!(CpuTimes::parse(""), None);
    }

    #[test]
    fn this_machine_is_read() {
        let times = CpuTimes::read().expect("read");
        assert!(times.cores >= 1 && times.busy > 0 && times.all > times.busy, "{times:?}");
        let allowed = allowed().expect("read");
        let count = std::thread::available_parallelism().expect("known").get();
        // A quota of a cgroup may allow fewer at a time.
        assert!(allowed.len() >= count, "{allowed:?} {count}");
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list("5"), Some(vec![5]));
        assert_eq!(parse_list("a-b"), None);
    }

    #[test]
    fn counters_are_found_by_name_in_their_table() {
        let text = "Ip: A RetransSegs\nIp: 1 2\nTcp: A RetransSegs B\nTcp: 5 77 9\n";
        assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(77));
        assert_eq!(counter(text, "Tcp:", "C"), None);
        assert_eq!(counter(text, "TcpExt:", "A"), None);
    }
}
