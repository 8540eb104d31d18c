//! Processor time of the whole machine.

use super::error::MeasuredError;
use weft_host::OsError;

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
    }
}
