//! Processor time of the whole machine, from /proc/stat (proc_stat(5)).

use weft_host::OsError;

/// Seconds of a count: USER_HZ is 100 on every architecture that Linux supports.
pub(crate) const TICK_S: f64 = 0.01;

/// Counts for all processors together, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CpuTimes {
    /// Online processors.
    pub(crate) cores: u32,
    busy: u64,
    /// Waiting for a disk is idle time.
    idle: u64,
    /// Time that another machine had the processor.
    stolen: u64,
}

impl CpuTimes {
    /// Reads the machine's counts.
    pub(crate) fn read() -> Result<Self, OsError> {
        let failed = |e| OsError::new("read /proc/stat", e);
        let text = std::fs::read_to_string("/proc/stat").map_err(failed)?;
        Self::parse(&text).ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))
    }

    /// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest times are included in `user` and
    /// `nice`.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else { return None };
        let busy = user + nice + system + irq + softirq;
        let numbered = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let cores = u32::try_from(text.lines().filter(numbered).count()).ok()?;
        Some(Self { cores, busy, idle: idle + iowait, stolen })
    }

    /// Idle time in seconds. A core's is exact (`get_idle_time`, fs/proc/stat.c); busy time counts timer ticks.
    pub(crate) fn idle_s(self) -> f64 {
        self.idle as f64 * TICK_S
    }

    /// Stolen time in seconds.
    pub(crate) fn stolen_s(self) -> f64 {
        self.stolen as f64 * TICK_S
    }

    /// The busy time since `before` in percent of one processor, summed over all: 200 for two that were busy throughout (Titan's
    /// report, section 3). `None` when no tick has passed.
    pub(crate) fn percent_since(self, before: Self) -> Option<f64> {
        let all = |times: Self| times.busy + times.idle + times.stolen;
        let all = all(self).saturating_sub(all(before));
        let busy = self.busy.saturating_sub(before.busy);
        (all > 0).then(|| busy as f64 / all as f64 * f64::from(self.cores) * 100.0)
    }
}

#[cfg(test)]
impl CpuTimes {
    /// The times of a machine in a test, in seconds.
    pub(crate) fn of(cores: u32, idle_s: f64, stolen_s: f64) -> Self {
        let ticks = |seconds: f64| (seconds / TICK_S).round() as u64;
        Self { cores, busy: 0, idle: ticks(idle_s), stolen: ticks(stolen_s) }
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
        assert_eq!((after.cores, after.idle_s(), after.stolen_s()), (2, 2.1, 0.1));
        assert_eq!(CpuTimes::parse("cpu  1 2 3"), None);
        assert_eq!(CpuTimes::parse("intr 1"), None);
    }

    #[test]
    fn this_machine_is_read() {
        let times = CpuTimes::read().expect("read");
        assert!(times.cores >= 1 && times.busy > 0 && times.idle > 0, "{times:?}");
    }
}
