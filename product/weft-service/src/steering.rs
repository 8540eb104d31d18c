//! Receive steering of the host's NIC, as part of the configuration: a plan that a thread keeps applied.
//!
//! The plan is for the flows of a file, or for those of the sockets of a namespace, which are read every second. What the
//! NIC has is compared with the plan at least every ten seconds, so settings that another program has changed are set again;
//! rules of others stay. Everything that is set is recorded, so that it can be undone: by the daemon when it is stopped, and by
//! `weft steer undo` after a crash. A restart hands it over: the next daemon finds the record and continues.

use crate::config::{FlowSource, SteerConfig};
use crate::log::Log;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_facts::status::StatusSteer;
use weft_host::device_record::RecordError;
use weft_host::ethtool::{ContextId, EthtoolError, Kernel, Nic};
use weft_host::netns::NetNsError;
use weft_host::sock_diag::{SockDiag, SockDiagError};
use weft_host::{NetNs, link};
use weft_run::steering::device::record::{FOLDER, OpenRecord};
use weft_run::steering::device::{self, BringError, WantedSteering};
use weft_run::steering::input::{self, InputError};
use weft_run::steering::watch;
use weft_steer::Flow;

/// The longest time between two comparisons with the NIC.
const COMPARE: Duration = Duration::from_secs(10);

/// Errors of steering. Each is one line.
#[derive(Debug, thiserror::Error)]
#[error("steer: {0}")]
pub struct SteerError(#[from] Cause);

/// The cause of a [`SteerError`].
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Model, policy or flows are wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The namespace does not exist.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The interface does not exist.
    #[error(transparent)]
    Link(#[from] link::LinkError),
    /// The driver cannot do this.
    #[error(transparent)]
    Device(#[from] EthtoolError),
    /// The record cannot be had.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The sockets cannot be listed.
    #[error(transparent)]
    Sockets(#[from] SockDiagError),
    /// The plan cannot be applied.
    #[error(transparent)]
    Bring(#[from] BringError),
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The fate of the settings when the daemon ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterEnd {
    /// They are undone.
    Undo,
    /// A successor continues with them.
    Keep,
}

/// The state that the thread shares.
#[derive(Debug, Default)]
struct Shared {
    status: Mutex<(StatusSteer, Option<AfterEnd>)>,
    changed: Condvar,
}

/// A plan that is kept applied.
#[derive(Debug)]
pub struct KeptSteering {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The error that was reported last.
    told: Option<String>,
}

impl KeptSteering {
    /// Checks that the NIC can be steered, applies the plan, and starts the thread that keeps it.
    ///
    /// # Errors
    /// When the input is wrong, or the NIC cannot do it; nothing is changed then.
    pub fn start(config: &SteerConfig) -> Result<Self, SteerError> {
        let mut work = Work::new(config)?;
        work.look()?;
        let shared = Arc::new(Shared::default());
        shared.publish(work.status.clone());
        let of_thread = Arc::clone(&shared);
        let config = config.clone();
        let thread = std::thread::Builder::new().name("weft-steer".to_owned());
        let thread = thread.spawn(move || keep(&config, &of_thread)).map_err(Cause::Thread)?;
        Ok(Self { shared, thread: Some(thread), told: None })
    }

    /// The settings that are held.
    pub fn status(&self) -> StatusSteer {
        self.shared.lock().0.clone()
    }

    /// Tells a new error of the thread.
    pub fn tell(&mut self, log: &Rc<Log>) {
        let error = self.status().error;
        if error != self.told {
            match &error {
                Some(error) => log.warning(error),
                None => log.notice("steer: the plan is applied again"),
            }
            self.told = error;
        }
    }

    /// Ends the thread, which undoes the settings or leaves them.
    pub fn end(mut self, after: AfterEnd) {
        self.shared.lock().1 = Some(after);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, (StatusSteer, Option<AfterEnd>)> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, status: StatusSteer) {
        self.lock().0 = status;
    }

    /// Waits for the end, for at most the time between two looks.
    fn wait(&self, interval: Duration) -> Option<AfterEnd> {
        let guard = self.lock();
        let waited = self.changed.wait_timeout_while(guard, interval, |(_, after)| after.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.1
    }
}

/// The thread: keeps the plan until the end.
fn keep(config: &SteerConfig, shared: &Shared) {
    let mut work = None;
    let after = loop {
        if let Some(after) = shared.wait(config.interval.into()) {
            break after;
        }
        let looked = match &mut work {
            Some(work) => Work::look(work),
            None => Work::new(config).map(|new| work = Some(new)),
        };
        let mut status = work.as_ref().map_or_else(|| shared.lock().0.clone(), |work| work.status.clone());
        status.error = looked.err().map(|error| error.to_string());
        shared.publish(status);
    };
    if after == AfterEnd::Undo
        && let Ok(work) = Work::new(config)
    {
        // What cannot be undone stays recorded for `weft steer undo`.
        let _ = work.undo();
    }
}

/// The NIC and what is wanted of it.
struct Work {
    config: SteerConfig,
    place: NetNs,
    ethtool: Nic<Kernel>,
    sockets: Option<SockDiag>,
    /// The flows of the last plan, and the time of the last comparison.
    last: Option<(Vec<Flow>, Instant)>,
    status: StatusSteer,
}

impl Work {
    fn new(config: &SteerConfig) -> Result<Self, SteerError> {
        Self::open(config).map_err(SteerError::from)
    }

    fn open(config: &SteerConfig) -> Result<Self, Cause> {
        let place = config.netns.as_deref().map_or_else(NetNs::current, NetNs::named)?;
        let nic = input::model(&config.nic)?;
        let policy = input::policy(&config.policy)?;
        let mut ethtool = Nic::open(&place, &config.device)?;
        // A driver without rules can still have a table.
        if let Err(error) = ethtool.rules()
            && ethtool.rss(ContextId::MAIN).is_err()
        {
            return Err(error.into());
        }
        let sockets = match &config.flows {
            FlowSource::Sockets => Some(SockDiag::open(&place)?),
            FlowSource::File(_) => None,
        };
        let status = StatusSteer {
            interface: config.device.clone(),
            netns: config.netns.clone(),
            nic: nic.name.clone(),
            policy: policy.policy.name(),
            ..StatusSteer::default()
        };
        Ok(Self { config: config.clone(), place, ethtool, sockets, last: None, status })
    }

    fn look(&mut self) -> Result<(), SteerError> {
        self.compare().map_err(SteerError::from)
    }

    fn flows(&mut self) -> Result<Vec<Flow>, Cause> {
        match (&self.config.flows, &mut self.sockets) {
            (FlowSource::File(path), _) => Ok(input::flows(path)?),
            (FlowSource::Sockets, Some(sockets)) => Ok(watch::flows(sockets)?),
            (FlowSource::Sockets, None) => Ok(Vec::new()),
        }
    }

    /// Applies the plan, if the flows have changed or the NIC was not compared for long.
    fn compare(&mut self) -> Result<(), Cause> {
        let flows = self.flows()?;
        let same = |(of, at): &(Vec<Flow>, Instant)| {
            at.elapsed() < COMPARE && of.iter().map(|f| f.headers).eq(flows.iter().map(|f| f.headers))
        };
        if self.last.as_ref().is_some_and(same) {
            return Ok(());
        }
        let mut kept = self.kept()?;
        let (nic, policy) = (input::model(&self.config.nic)?, input::policy(&self.config.policy)?);
        let options = self.config.options.clone();
        let wanted = WantedSteering { policy, flows: flows.clone(), options };
        let prepared = device::prepare(&nic, &mut self.ethtool, &mut kept, wanted)?;
        self.status.degraded.clone_from(&prepared.degraded);
        let made = prepared.apply(&mut self.ethtool, &mut kept, |_, _| ())?;
        self.status.flows = flows.len() as u64;
        self.status.changes += made as u64;
        self.status.rules = kept.record.rules.len() as u64;
        self.status.table = kept.record.table.is_some();
        self.last = Some((flows, Instant::now()));
        Ok(())
    }

    fn kept(&self) -> Result<OpenRecord, Cause> {
        let index = link::index(&self.place, &self.config.device)?;
        Ok(OpenRecord::open(Path::new(FOLDER), self.place.inode()?, index, &self.config.device)?)
    }

    fn undo(mut self) -> Result<(), Cause> {
        let mut kept = self.kept()?;
        device::undo(&mut self.ethtool, &mut kept)?;
        Ok(())
    }
}
