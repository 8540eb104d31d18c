//! Uplinks without a data path: how one loses it, and how it gets one again.
//!
//! The daemon ends when no uplink has a data path, so that its service manager starts it anew. Until then it looks every two
//! seconds whether the interface is there, and starts the session with the policy and the ports that the uplink has. An
//! interface that was deleted and made again, by the same name at the same place, is treated alike.

use super::uplink::Known;
use super::{DaemonService, Owner, Surroundings, Uplink, ports};
use crate::alarms::Alarms;
use crate::config::Config;
use crate::data_path::missing::Missing;
use crate::data_path::{DataPathError, Started};
use crate::holding;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weft_facts::status::WorkerState;

/// The time between two attempts to start an uplink.
const PAUSE: Duration = Duration::from_secs(2);

impl Started {
    /// An uplink without a data path.
    pub fn missing(reason: String) -> Self {
        let path = Box::new(Missing { reason: reason.clone() });
        Self { path, former: None, notes: Vec::new(), missing: Some(reason) }
    }
}

impl DaemonService {
    /// Whether no uplink has a data path.
    pub fn has_ended(&self) -> bool {
        self.uplinks.iter().all(Uplink::has_ended)
    }

    /// Takes the data paths of sessions that ended, and starts uplinks whose interfaces are there.
    pub(super) fn restart_uplinks(&mut self, now: Instant) {
        if self.has_ended() {
            return;
        }
        let ended = self.uplinks.iter_mut().filter(|uplink| uplink.has_ended());
        ended.for_each(|uplink| uplink.lose("its session has ended by itself"));
        if now < self.next_restart {
            return;
        }
        self.next_restart = now + PAUSE;
        let maker = &self.surroundings.maker;
        let replaced = |uplink: &&mut Uplink| uplink.path.is_uplink_gone() && maker.may_start(&uplink.config);
        for uplink in self.uplinks.iter_mut().filter(replaced) {
            uplink.log.warning(&format!(
                "{} is another interface than before: the ports are made anew above it",
                uplink.config.device
            ));
            uplink.lose("its interface was replaced");
        }
        for uplink in self.uplinks.iter_mut().filter(|uplink| uplink.missing.is_some()) {
            uplink.start(&mut self.surroundings, &self.config);
        }
    }
}

impl Uplink {
    fn has_ended(&self) -> bool {
        self.latest.worker == WorkerState::Ended
    }

    /// Removes what is left of a session, for `reason`.
    fn lose(&mut self, reason: &str) {
        if self.missing.is_some() {
            return;
        }
        let missing = Started::missing(reason.to_owned());
        self.missing = missing.missing;
        if let Err(error) = std::mem::replace(&mut self.path, missing.path).finish() {
            self.log.error(&error.to_string());
        }
    }

    /// Starts the data path with the policy in force, and makes its ports again.
    fn start(&mut self, surroundings: &mut Surroundings, config: &Config) {
        if !surroundings.maker.may_start(&self.config) {
            return;
        }
        let store = holding::open(config, &self.config, &mut surroundings.given);
        let started = store.map_err(DataPathError::from);
        let started =
            started.and_then(|store| surroundings.maker.start(&self.policy, &self.config, config, store));
        match started {
            Ok(started) => self.begin(started),
            Err(error) => {
                let reason = error.to_string();
                if self.missing.as_ref() != Some(&reason) {
                    self.log.error(&reason);
                }
                self.missing = Some(reason);
            }
        }
    }

    fn begin(&mut self, started: Started) {
        let Started { path, former, notes, missing } = started;
        notes.iter().for_each(|note| self.log.warning(note));
        (self.path, self.missing) = (path, missing);
        self.alarms = Alarms::new(Rc::clone(&self.log));
        self.log.notice("runs again");
        let known = std::mem::take(&mut self.ports);
        if let Some(former) = former {
            let ours = self.policy.clone();
            self.follow_former(former);
            if let Err(error) = self.replace(ours) {
                self.log.error(&format!("the policy is not in force: {error}"));
            }
        }
        // One after the other, as the loop has time: many take minutes.
        let before = known.into_values().filter_map(Known::made_again);
        let configured = self.config.ports.iter().map(|port| (ports::configured(port), Owner::Configuration));
        self.to_make = before.chain(configured).collect();
        self.remember();
    }
}
