//! The accounts of samples: a process each, and a thread each of weftline's data path.
//!
//! A process is looked at when its first sample is read. One that has ended by then has an account without a name; all of those are
//! one row.

use std::collections::HashMap;

use weft_host::perf_event::Sample;
use weft_host::tasks::{self, Task};
use weft_report::profile::attached::RowKind;

use crate::attribution::host::IDLE;

/// The thread that every process with a data path has, and the beginning of the command of weftline's programs.
const DATA_PATH: &str = "weft-transmit";
const COMMAND: &str = "weft";

/// An account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Account {
    /// The kind of its row.
    pub(super) kind: RowKind,
    /// The name: the command, or the thread's.
    pub(super) name: String,
    /// The process.
    pub(super) pid: u32,
    /// The process's facts; `None` if it had ended.
    pub(super) task: Option<Task>,
}

/// The accounts of a process.
#[derive(Debug)]
enum Process {
    Whole(u32),
    /// Its threads' accounts, by thread.
    DataPath(HashMap<u32, u32>),
}

/// The accounts so far; their numbers begin with 1, after [`IDLE`].
#[derive(Debug)]
pub(super) struct Accounts {
    tool: u32,
    processes: HashMap<u32, Process>,
    list: Vec<Account>,
}

impl Accounts {
    /// No accounts; `tool` is the profiler's own process.
    pub(super) fn new(tool: u32) -> Self {
        Self { tool, processes: HashMap::new(), list: Vec::new() }
    }

    /// The account of a sample.
    pub(super) fn of(&mut self, sample: &Sample) -> u32 {
        if sample.pid == 0 {
            return IDLE;
        }
        match self.processes.get(&sample.pid) {
            Some(Process::Whole(account)) => return *account,
            Some(Process::DataPath(threads)) => {
                if let Some(account) = threads.get(&sample.thread) {
                    return *account;
                }
            }
            None => {}
        }
        self.open(sample)
    }

    /// The account of this number.
    pub(super) fn get(&self, number: u32) -> Option<&Account> {
        self.list.get((number as usize).checked_sub(1)?)
    }

    /// Makes the account of a process or thread that is seen for the first time.
    fn open(&mut self, sample: &Sample) -> u32 {
        let number = self.list.len() as u32 + 1;
        let task = Task::of(sample.pid);
        let command = task.as_ref().map_or_else(String::new, |task| task.command.clone());
        let threads = if command.starts_with(COMMAND) { tasks::threads(sample.pid) } else { Vec::new() };
        let mut account = Account { kind: RowKind::Process, name: command, pid: sample.pid, task };
        if threads.iter().any(|(_, name)| name == DATA_PATH) {
            let own = threads.into_iter().find(|(thread, _)| *thread == sample.thread);
            account.name = own.map_or_else(|| "an ended thread".to_owned(), |(_, name)| name);
            account.kind = RowKind::Weft;
            let known = self.processes.entry(sample.pid).or_insert_with(|| Process::DataPath(HashMap::new()));
            if let Process::DataPath(known) = known {
                known.insert(sample.thread, number);
            }
        } else {
            if sample.pid == self.tool {
                account.kind = RowKind::Tool;
            }
            self.processes.insert(sample.pid, Process::Whole(number));
        }
        self.list.push(account);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::perf_event::Mode;

    fn sample(pid: u32, thread: u32) -> Sample {
        Sample { pid, thread, cpu: 0, mode: Mode::User, period: 1, chain: Vec::new() }
    }

    #[test]
    fn threads_of_a_process_share_an_account_and_idle_has_its_own() {
        // Not this process: another test gives it a thread of a data path.
        let mut process = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let own = process.id();
        let mut accounts = Accounts::new(own);
        assert_eq!(accounts.of(&sample(0, 0)), IDLE);
        assert_eq!([accounts.of(&sample(own, own)), accounts.of(&sample(own, 1))], [1, 1]);
        let account = accounts.get(1).expect("an account");
        assert!(account.kind == RowKind::Tool && account.task.is_some() && !account.name.is_empty());
        assert_eq!(accounts.of(&sample(u32::MAX, 1)), 2);
        assert!(accounts.get(2).is_some_and(|account| account.task.is_none()), "it has ended");
        assert_eq!((accounts.get(IDLE), accounts.get(3)), (None, None));
        process.kill().and_then(|()| process.wait()).expect("it ends");
    }

    #[test]
    fn threads_of_a_data_path_have_accounts_of_their_own() {
        let (runs, running) = std::sync::mpsc::channel();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        // A thread has its name when it runs, and not when it is made.
        let wait = move || runs.send(()).is_ok() && receive.recv().is_err();
        let thread = std::thread::Builder::new().name(DATA_PATH.to_owned()).spawn(wait).expect("a thread");
        running.recv().expect("it runs");
        let own = std::process::id();
        // The command of a test program begins with that of the crate.
        let starts = Task::of(own).is_some_and(|task| task.command.starts_with(COMMAND));
        let transmit =
            tasks::threads(own).into_iter().find(|(_, name)| name == DATA_PATH).expect("it runs").0;
        let mut accounts = Accounts::new(0);
        let found = [own, transmit, transmit].map(|thread| accounts.of(&sample(own, thread)));
        assert_eq!(found, if starts { [1, 2, 2] } else { [1, 1, 1] });
        if starts {
            let account = accounts.get(2).expect("an account");
            assert_eq!((account.kind, account.name.as_str()), (RowKind::Weft, DATA_PATH));
        }
        drop(send);
        assert!(thread.join().expect("joined"));
    }
}
