//! Alarms: log lines when something goes wrong, and when it is right again.
//!
//! Each kind of alarm has a separate line at most once a minute. What happens meanwhile is counted and reported with the next
//! line, so a flood of drops is a few lines and no loss of facts. A class that drops packets has a line when that begins and
//! one when it is over.

mod losses;

use crate::log::Log;
use losses::Losses;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weft_facts::status::{ServiceStatus, StatusClass, WorkerState};
use weft_units::Packets;

/// The least time between two lines of a kind.
const QUIET: Duration = Duration::from_secs(60);
/// The time that a class must be below its share before that is an alarm.
const SHORT: Duration = Duration::from_secs(5);
/// The part of its entitlement below which a class with a backlog is short.
const SHARE_MIN: f64 = 0.8;

/// A kind of alarm that counts packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Refused,
    Stray,
    Untracked,
    Lost,
    Unreadable,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Refused => "packets were refused by the uplink: it is down, or does not take such packets",
            Self::Stray => {
                "packets came unannounced and were dropped: something writes to the port around its qdisc"
            }
            Self::Untracked => {
                "packets belong to flows for which there was no room; they share one ring of their class"
            }
            Self::Lost => {
                "packets vanished between the ports and their rings, and no counter of the kernel explains them: the accounting is broken"
            }
            Self::Unreadable => "times the data path could not be read",
        }
    }
}

/// The counter of a kind.
#[derive(Debug, Default)]
struct Counter {
    seen: u64,
    told: u64,
    last: Option<Instant>,
}

/// The alarms of a daemon.
#[derive(Debug)]
pub struct Alarms {
    log: Rc<Log>,
    counters: BTreeMap<Kind, Counter>,
    /// Whether the uplink had a carrier; `None` before the first look.
    up: Option<bool>,
    /// The time since which a class is short, and whether that was reported.
    short: BTreeMap<String, (Instant, bool)>,
    losses: Losses,
    ended: bool,
    /// The warnings that were reported and still hold.
    warned: Vec<String>,
}

impl Alarms {
    /// Alarms that go to `log`.
    pub fn new(log: Rc<Log>) -> Self {
        Self {
            log,
            counters: BTreeMap::new(),
            up: None,
            short: BTreeMap::new(),
            losses: Losses::default(),
            ended: false,
            warned: Vec::new(),
        }
    }

    /// Compares the counters with those of the last look.
    pub fn check(&mut self, status: &ServiceStatus, now: Instant) {
        self.count(Kind::Refused, status.dropped.refused.get(), now);
        self.count(Kind::Stray, status.dropped.stray.get(), now);
        self.count(Kind::Lost, status.dropped.lost.get(), now);
        let untracked: Packets = status.classes.iter().map(|class| class.counters.untracked).sum();
        self.count(Kind::Untracked, untracked.get(), now);
        self.carrier(status);
        status.classes.iter().for_each(|class| self.share(class, now));
        self.losses.check(&status.classes, now).iter().for_each(|line| self.log.warning(line));
        if status.worker == WorkerState::Ended && !self.ended {
            self.ended = true;
            self.log.error("the transmit worker has ended by itself; nothing leaves the ports");
        }
    }

    /// Tells the warnings that hold now and did not before.
    pub fn warn(&mut self, warnings: Vec<String>) {
        let new = warnings.iter().filter(|warning| !self.warned.contains(warning));
        new.for_each(|warning| self.log.warning(warning));
        self.warned = warnings;
    }

    /// The data path could not be read.
    pub fn unreadable(&mut self, why: &str, now: Instant) {
        let seen = self.counters.get(&Kind::Unreadable).map_or(0, |counter| counter.seen);
        if seen == 0 {
            self.log.error(why);
        }
        self.count(Kind::Unreadable, seen + 1, now);
    }

    fn count(&mut self, kind: Kind, seen: u64, now: Instant) {
        let counter = self.counters.entry(kind).or_default();
        // A port that was removed has taken its counts with it.
        if seen < counter.seen {
            counter.told = 0;
        }
        counter.seen = seen;
        let quiet = counter.last.is_some_and(|last| now < last + QUIET);
        if seen > counter.told && !quiet {
            let (new, words) = (seen - counter.told, kind.words());
            (counter.told, counter.last) = (seen, Some(now));
            self.log.warning(&format!("{new} {words}"));
        }
    }

    fn carrier(&mut self, status: &ServiceStatus) {
        let (up, name) = (status.uplink.up, &status.uplink.interface);
        match (self.up, up) {
            (Some(true) | None, false) => self.log.warning(&format!("uplink {name} has no carrier")),
            (Some(false), true) => self.log.notice(&format!("uplink {name} has its carrier again")),
            _ => {}
        }
        self.up = Some(up);
    }

    fn share(&mut self, class: &StatusClass, now: Instant) {
        let is_short = class.backlog_bytes > 0
            && class.entitled_bps.is_some_and(|entitled| class.bps < SHARE_MIN * entitled);
        if !is_short {
            self.short.remove(&class.class);
            return;
        }
        let (since, told) = self.short.entry(class.class.clone()).or_insert((now, false));
        if !*told && now >= *since + SHORT {
            *told = true;
            let part = 100.0 * class.bps / class.entitled_bps.unwrap_or(f64::MAX);
            let name = &class.class;
            self.log.warning(&format!(
                "class {name} has a backlog and {part:.0} % of the rate that it is entitled to"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(refused: u64, up: bool, bps: f64) -> ServiceStatus {
        let mut status = ServiceStatus::default();
        status.uplink.interface = "eth0".to_owned();
        status.uplink.up = up;
        status.dropped.refused = Packets(refused);
        let class = StatusClass {
            class: "a".to_owned(),
            bps,
            entitled_bps: Some(100.0),
            backlog_bytes: 1,
            ..StatusClass::default()
        };
        status.classes.push(class);
        status
    }

    /// Alarms, with the lines that they wrote.
    fn run(looks: &[(u64, u64, bool, f64)]) -> Vec<String> {
        let log = Rc::new(Log::kept());
        let (mut alarms, start) = (Alarms::new(Rc::clone(&log)), Instant::now());
        for (second, refused, up, bps) in looks {
            alarms.check(&status(*refused, *up, *bps), start + Duration::from_secs(*second));
        }
        log.lines()
    }

    #[test]
    fn drops_are_told_once_a_minute_with_their_number() {
        let lines = run(&[
            (0, 0, true, 100.0),
            (1, 5, true, 100.0),
            (2, 9, true, 100.0),
            (62, 9, true, 100.0),
            (63, 9, true, 100.0),
        ]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("warning: 5 packets were refused")
                && lines[1].starts_with("warning: 4 packets")
        );
        let again = run(&[(0, 5, true, 100.0), (90, 2, true, 100.0)]);
        assert!(again[1].starts_with("warning: 2 packets"), "counters that began again: {again:?}");
    }

    #[test]
    fn a_lost_carrier_is_told_and_its_return() {
        let lines =
            run(&[(0, 0, true, 100.0), (1, 0, false, 100.0), (2, 0, false, 100.0), (3, 0, true, 100.0)]);
        assert_eq!(lines, ["warning: uplink eth0 has no carrier", "uplink eth0 has its carrier again"]);
    }

    #[test]
    fn a_class_below_its_share_is_told_after_some_time() {
        assert!(
            run(&[(0, 0, true, 50.0), (4, 0, true, 50.0), (5, 0, true, 90.0), (9, 0, true, 50.0)]).is_empty()
        );
        let lines = run(&[(0, 0, true, 50.0), (5, 0, true, 50.0), (6, 0, true, 50.0)]);
        assert_eq!(lines, ["warning: class a has a backlog and 50 % of the rate that it is entitled to"]);
    }
}
