//! The identity of a run, which the names of all its objects carry.

use std::fmt;
use std::str::FromStr;

/// A process, distinguished by its start time from later processes with the same number.
///
/// Written `weft-PID-STARTTIME`, with the start time in clock ticks since boot as in `/proc/PID/stat`. The names of a run's
/// namespaces and cgroups begin with it; links carry it in their alias `weftline PID STARTTIME`. The number is that of the
/// process's own PID namespace; a lock ([`RunId::life`]) proves that the process is alive.
///
/// ```
/// use weft_host::RunId;
/// let id: RunId = "weft-42-123456".parse()?;
/// assert_eq!(id.name("nic"), "weft-42-123456-nic");
/// assert_eq!(id.device("nic0"), "w00016nic0");
/// assert_eq!(RunId::owner_of_name("weft-42-123456-nic"), Some(id));
/// assert_eq!(RunId::owner_of_name("weft-foo"), None);
/// # Ok::<(), weft_host::run_id::ParseRunIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId {
    /// The process number.
    pub pid: u32,
    /// Its start time, in clock ticks since boot; a later time if a run of another PID namespace already has these numbers.
    pub start_time: u64,
}

/// The error for a text that is not a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a run's name such as weft-42-123456")]
pub struct ParseRunIdError(String);

/// The number of characters left for the role in a device name after the run's prefix.
pub const MAX_DEVICE_ROLE: usize = 9;

impl RunId {
    /// The name of a namespace or cgroup of this run.
    pub fn name(&self, role: &str) -> String {
        format!("{self}-{role}")
    }

    /// The name of a link of this run: `w`, the process in five base-36 digits, the role. The role is cut to
    /// [`MAX_DEVICE_ROLE`] bytes, because the kernel allows 15 in all.
    pub fn device(&self, role: &str) -> String {
        let mut digits = [b'0'; 5];
        let mut rest = self.pid;
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
        }
        let role = &role[..role.floor_char_boundary(MAX_DEVICE_ROLE)];
        format!("w{}{role}", digits.map(char::from).iter().collect::<String>())
    }

    /// The alias that marks a link in a namespace of others as belonging to this run.
    pub fn alias(&self) -> String {
        format!("weftline {} {}", self.pid, self.start_time)
    }

    /// The run that owns the namespace or cgroup of this name, if any.
    pub fn owner_of_name(name: &str) -> Option<RunId> {
        let mut parts = name.strip_prefix("weft-")?.splitn(3, '-');
        Some(RunId { pid: number(parts.next()?)?, start_time: number(parts.next()?)? })
    }

    /// The run that owns the link with this alias, if any.
    pub fn owner_of_alias(alias: &str) -> Option<RunId> {
        let (pid, start_time) = alias.strip_prefix("weftline ")?.split_once(' ')?;
        Some(RunId { pid: number(pid)?, start_time: number(start_time)? })
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "weft-{}-{}", self.pid, self.start_time)
    }
}

impl FromStr for RunId {
    type Err = ParseRunIdError;

    fn from_str(text: &str) -> Result<RunId, ParseRunIdError> {
        RunId::owner_of_name(text)
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| ParseRunIdError(text.to_string()))
    }
}

/// A number in the form written here: digits only, without sign or leading zeros.
fn number<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse::<T>().ok().filter(|n| n.to_string() == text)
}

/// The process itself, even if /proc belongs to another PID namespace.
pub(crate) fn own_start_time() -> Option<u64> {
    parse_start_time(&std::fs::read("/proc/self/stat").ok()?)
}

/// Reads the start time (field 22). The second field is the name in parentheses and may contain any character.
fn parse_start_time(bytes: &[u8]) -> Option<u64> {
    let name_end = bytes.iter().rposition(|b| *b == b')')?;
    let mut fields = std::str::from_utf8(&bytes[name_end + 1..]).ok()?.split_ascii_whitespace();
    fields.nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::Life;

    #[test]
    fn this_process_is_not_dead_and_of_others_nothing_is_known() {
        let me = RunId::current();
        // Without the right to make the file, the state is unknown.
        assert_ne!(me.life(), Life::Dead);
        assert_eq!(RunId { start_time: me.start_time - 1, ..me }.life(), Life::Unknown);
        assert_eq!(RunId::current(), me);
    }

    #[test]
    fn a_name_with_anything_in_it_does_not_confuse_the_stat_line() {
        let line = b"7 (a) b) Z) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        assert_eq!(parse_start_time(line), Some(98765));
    }

    #[test]
    fn names_that_do_not_fit_the_pattern_belong_to_nobody() {
        for name in
            ["weft-foo", "weft-1", "weft-1-", "weft-+1-2", "weft-01-2", "weft-1-2x", "xweft-1-2", "weft--1-2"]
        {
            assert_eq!(RunId::owner_of_name(name), None, "{name}");
        }
        for alias in ["weftline", "weftline 1", "weftline 1 2 3", "weftline 1  2", " weftline 1 2"] {
            assert_eq!(RunId::owner_of_alias(alias), None, "{alias}");
        }
        let id = RunId { pid: 1, start_time: 2 };
        assert_eq!(RunId::owner_of_name("weft-1-2"), Some(id));
        assert_eq!(RunId::owner_of_alias(&id.alias()), Some(id));
    }

    #[test]
    fn device_names_fit_the_kernel_and_tell_runs_apart() {
        let a = RunId { pid: 4_194_304, start_time: 1 };
        assert_eq!(a.device("macvtap-10").len(), crate::link::MAX_NAME);
        let b = RunId { pid: 37, start_time: 1 };
        let c = RunId { pid: 1, start_time: 1 };
        assert_ne!(b.device("b0"), c.device("1b0"));
    }
}
