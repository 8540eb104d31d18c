//! The processors of the host.

use std::collections::BTreeSet;

use crate::error::OsError;

/// The kernel's list of processors that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// More than the kernel's largest NR_CPUS, 8192.
const MOST: u32 = 1 << 16;

/// The reason that the processors are unknown.
#[derive(Debug, thiserror::Error)]
pub enum CpusError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The file has no list.
    #[error("{ONLINE} is not a list of processors: {0:?}; please report it")]
    NoList(String),
}

/// The processors that are online.
///
/// # Errors
/// If the kernel does not say.
pub fn online() -> Result<BTreeSet<u32>, CpusError> {
    let text = std::fs::read_to_string(ONLINE).map_err(|e| OsError::new(format!("read {ONLINE}"), e))?;
    parse_list(&text).ok_or(CpusError::NoList(text))
}

/// Reads a list such as `0-3,8` (`%*pbl`, lib/vsprintf.c).
pub fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for part in text.trim_end_matches('\n').split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last > MOST {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let list = |text| parse_list(text).map(|set| set.into_iter().collect::<Vec<_>>());
        assert_eq!(list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(list("0-1\n"), Some(vec![0, 1]));
        assert_eq!(list("0,2-3,7"), Some(vec![0, 2, 3, 7]));
        assert_eq!(list("0"), Some(vec![0]));
        for bad in ["", "\n", "x", "1-", "1-0", "a", "0-99999999", "0,,1"] {
            assert_eq!(list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn this_host_has_processors() {
        let own = crate::affinity::own().expect("affinity");
        let online = online().expect("processors");
        assert!(own.iter().all(|cpu| online.contains(cpu)), "{own:?} {online:?}");
    }
}
