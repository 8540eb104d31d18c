//! The tasks of an attached profile: rows of the table, the subject's accounts, and flame graphs.

use std::collections::BTreeMap;

use weft_report::profile::Flame;
use weft_report::profile::attached::{Direction, Row, RowKind, TaskTime};

use super::accounts::{Account, Accounts};
use super::{AttachOptions, Of, SendingProcess};
use crate::attribution::host::{HostTime, IDLE};

/// The tasks of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Processes.
    Process,
    /// Cgroups.
    Cgroup,
}

/// The row of the network's softirqs, of interrupts on idle processors, of what had no facts.
const SOFTIRQS: &str = "softirqs of the network";
const INTERRUPTS: &str = "interrupts of idle processors";
const ENDED: &str = "ended before they were looked at";
const NO_CGROUP: &str = "cgroup not known";

/// Says of accounts whether they are the subject's; softirqs are that of [`IDLE`].
pub(super) fn wanted(of: &Of, accounts: &Accounts) -> impl Fn(u32) -> bool {
    move |number| match of {
        Of::Host | Of::Device(_) => true,
        Of::Process(pid) => accounts.get(number).is_some_and(|account| account.pid == *pid),
        Of::Cgroup(path) => accounts.get(number).is_some_and(|account| is_within(account, path)),
    }
}

/// Whether the process is in the cgroup or below it.
fn is_within(account: &Account, path: &str) -> bool {
    let own = account.task.as_ref().and_then(|task| task.cgroup.as_deref()).unwrap_or_default();
    let path = path.trim_matches('/');
    let below = own.trim_start_matches('/').strip_prefix(path);
    !own.is_empty() && below.is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// The rows, in no order. Those of a subject are its processes only, with the softirqs beside them.
pub(super) fn of(all: &HostTime, accounts: &Accounts, options: &AttachOptions) -> Vec<Row> {
    let wanted = wanted(&options.of, accounts);
    let mut rows: BTreeMap<(String, Option<u32>), Row> = BTreeMap::new();
    for (number, time) in &all.accounts {
        let keeps = wanted(*number);
        let row = match accounts.get(*number) {
            Some(account) if keeps || account.kind == RowKind::Weft => row(account, options.by),
            None if *number == IDLE && keeps => {
                Row { kind: RowKind::Softirq, name: INTERRUPTS.into(), ..Row::default() }
            }
            _ => continue,
        };
        let key = (row.name.clone(), row.pid);
        rows.entry(key).or_insert(row).time.add(time);
    }
    let softirqs =
        Row { kind: RowKind::Softirq, name: SOFTIRQS.into(), time: all.softirqs.clone(), ..Row::default() };
    rows.into_values().chain([softirqs]).filter(|row| row.time.total_s() > 0.0).collect()
}

/// The row of an account, without its time.
fn row(account: &Account, by: By) -> Row {
    let Account { kind, name, pid, task } = account;
    let (cgroup, user) = task.as_ref().map_or((None, None), |task| (task.cgroup.clone(), task.user));
    match (kind, by) {
        (RowKind::Process, By::Cgroup) => {
            let name = cgroup.clone().unwrap_or_else(|| NO_CGROUP.to_owned());
            Row { kind: RowKind::Cgroup, name, cgroup, ..Row::default() }
        }
        (RowKind::Process, By::Process) if task.is_none() => Row { name: ENDED.to_owned(), ..Row::default() },
        _ => Row { kind: *kind, name: name.clone(), pid: Some(*pid), cgroup, user, ..Row::default() },
    }
}

/// Processes with time in the network stack, without weftline's own.
pub(super) fn senders(all: &HostTime, accounts: &Accounts) -> Vec<SendingProcess> {
    let sender = |(number, time): (&u32, &TaskTime)| {
        let account = accounts.get(*number).filter(|account| account.kind == RowKind::Process)?;
        (time.in_network_s() > 0.0).then(|| SendingProcess { task: account.task.clone(), time: time.clone() })
    };
    all.accounts.iter().filter_map(sender).collect()
}

/// The profiler's own time.
pub(super) fn tool_s(all: &HostTime, accounts: &Accounts) -> f64 {
    let is_tool = |number: u32| accounts.get(number).is_some_and(|account| account.kind == RowKind::Tool);
    all.accounts.iter().filter(|(number, _)| is_tool(**number)).map(|(_, time)| time.total_s()).sum()
}

/// The limits of the figures of a subject.
pub(super) fn labels(of: &Of) -> Vec<String> {
    match of {
        Of::Host | Of::Device(_) => Vec::new(),
        Of::Process(_) | Of::Cgroup(_) => vec![
            "softirqs work for anybody: their row is that of the whole host, and not in the subject's time".to_owned(),
            "the kernel counts no bytes by process: sizes, latency and devices are those of the whole host, and ns per byte divides by its bytes".to_owned(),
        ],
    }
}

/// Stacks of each direction.
pub(super) fn flames(all: &HostTime) -> Vec<Flame> {
    let of = |direction: Direction| {
        let own = all.stacks.iter().filter(|((d, ..), _)| *d == direction);
        let stacks = own.map(|((_, category, frames), seconds)| (*category, frames.clone(), *seconds));
        Flame { level: "attached".to_owned(), part: direction.name(), stacks: stacks.collect() }
    };
    Direction::ALL.map(of).into_iter().filter(|flame| !flame.stacks.is_empty()).collect()
}
