//! The thread that follows the kernel side of the ports: what it must look like is in `port/kernel_side.rs` and
//! `doorbell/egress.rs`, and is verified when a port is added and after each change that the kernel reports of its devices.
//! What the kernel does not report (`gso_max_size`, tcx programs, the processors that are online) is polled every [`POLL`].
//!
//! A property that another program has changed is restored, with a line that says what it was and, where the kernel says it, who
//! changed it. One that cannot be restored has a line that begins with `refused`. A port that has more than [`DEVIATIONS`]
//! of them within [`WINDOW`] is restored once in [`PAUSE`] only, without lines, and [`Contested`] has the property.
//!
//! A port whose devices are deleted is taken from its worker. Its owner removes it.

use crate::commands::{Commander, Inbox};
use crate::doorbell::Doorbells;
use crate::port::{Deviation, Look, Port, Where};
use crate::sync::Ordering;
use crate::worker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use weft_host::clock;
use weft_host::cpus;
use weft_host::link::{Change, Event, Monitor, requester};
use weft_units::{Instant, Nanos};

/// The interval of looks at what the kernel does not report.
const POLL: Nanos = Nanos::from_millis(100);
/// The part of [`POLL`] that each port adds to the interval, so that many ports cost no more than a few.
const POLL_OF_PORT: Nanos = Nanos::from_millis(2);
/// The least time between two whole looks at a port, whatever the kernel reports.
const LOOK_PAUSE: Nanos = Nanos::from_millis(20);
/// The deviations of a port within [`WINDOW`] after which there is a [`PAUSE`] before each look.
const DEVIATIONS: usize = 20;
const WINDOW: Nanos = Nanos::from_secs(60);
const PAUSE: Nanos = Nanos::from_secs(1);
/// The time after which packets that left the port without its program have arrived at the guard.
const ARRIVED: Nanos = Nanos::from_secs(1);
/// The most lines that wait to be read.
const LINES_MAX: usize = 1000;

/// A command to the thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Follows a port, whose properties hold when this is answered.
    Add(Watched, Sender<()>),
    /// Leaves the port with this number alone.
    Remove(usize, Sender<()>),
}

/// A port to follow.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Its bit in the summary.
    pub(crate) number: usize,
    /// The worker that serves its rings.
    pub(crate) worker: Commander<worker::Command>,
    pub(crate) port: Arc<Port>,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) contested: Contested,
}

/// The property of a port that another program keeps changing, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contested(Arc<Mutex<Option<String>>>);

impl Contested {
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, property: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = property;
    }
}

/// The lines of what was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<Mutex<VecDeque<String>>>);

impl Changes {
    /// The lines since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    fn say(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < LINES_MAX {
            lines.push_back(line);
        }
    }
}

/// A followed port.
#[derive(Debug)]
struct Followed {
    of: Watched,
    /// The inodes of the namespaces of near end and rings.
    places: [u64; 2],
    /// The look that is due, with the last change that the kernel reported.
    due: Option<(Look, Option<Event>)>,
    looked: Instant,
    /// The times of the last deviations.
    deviated: VecDeque<Instant>,
    /// The last refusal.
    refused: Option<String>,
    /// The programs that run before ours at the egress.
    before: Vec<String>,
    /// The packets that had come unannounced at the last look, and the time from which on their growth counts.
    unannounced: (u64, Instant),
    deleted: bool,
}

/// The state of the thread.
#[derive(Debug, Default)]
struct Watch {
    ports: Vec<Followed>,
    /// By the inodes of their namespaces.
    monitors: BTreeMap<u64, Monitor>,
    online: BTreeSet<u32>,
}

/// Follows ports until `stop` returns true.
pub(crate) fn run(inbox: &Inbox<Command>, changes: &Changes, stop: impl Fn() -> bool) {
    let (mut watch, mut next) = (Watch::default(), clock::now());
    while !stop() {
        watch.wait(inbox, next);
        inbox.clear();
        while let Some(command) = inbox.take() {
            match command {
                Command::Add(port, answer) => {
                    watch.add(port, changes);
                    _ = answer.send(());
                }
                Command::Remove(number, answer) => {
                    watch.ports.retain(|port| port.of.number != number);
                    watch.forget_monitors();
                    _ = answer.send(());
                }
            }
        }
        watch.hear();
        let now = clock::now();
        if now >= next {
            watch.poll_all();
            next = now + POLL.max(Nanos(POLL_OF_PORT.get() * watch.ports.len() as u64));
        }
        watch.look(now, changes);
    }
}

impl Watch {
    /// Waits for a command, a change, or the time of the next look.
    fn wait(&self, inbox: &Inbox<Command>, next: Instant) {
        let due = self.ports.iter().filter(|port| port.due.is_some()).map(Followed::may_look_at);
        let until = due.chain([next]).min().unwrap_or(next);
        // Without a port there is nothing to poll.
        let idle = self.ports.is_empty().then_some(Nanos::from_secs(3600));
        let span = idle.unwrap_or(until.saturating_since(clock::now())).get();
        let timeout =
            Timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 };
        let mut fds = vec![PollFd::from_borrowed_fd(inbox.wake_fd(), PollFlags::IN)];
        fds.extend(self.monitors.values().map(|m| PollFd::from_borrowed_fd(m.fd(), PollFlags::IN)));
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn add(&mut self, of: Watched, changes: &Changes) {
        let unannounced = (of.doorbells.guard().unannounced.load(Ordering::Relaxed), Instant::ZERO);
        let port = Followed {
            of,
            places: [0; 2],
            due: Some((Look::Whole, None)),
            looked: Instant::ZERO,
            deviated: VecDeque::new(),
            refused: None,
            before: Vec::new(),
            unannounced,
            deleted: false,
        };
        self.ports.push(port);
        if let Some(at) = self.ports.len().checked_sub(1) {
            // First, so that no change falls between the look and the first event.
            self.listen(at, changes);
            self.verify(at, (Look::Whole, None), changes);
        }
    }

    /// Listens in the namespaces of a port.
    fn listen(&mut self, at: usize, changes: &Changes) {
        let port = &mut self.ports[at];
        let (near, of) = (port.of.port.near(), Arc::clone(&port.of.port));
        let (mut places, mut refused) = ([0; 2], None);
        for (place, ns) in places.iter_mut().zip([near.namespace(), of.nic()]) {
            *place = ns.inode().unwrap_or(0);
            if self.monitors.contains_key(place) {
                continue;
            }
            match Monitor::open(ns) {
                Ok(monitor) => _ = self.monitors.insert(*place, monitor),
                Err(error) => refused = Some(format!("its changes are not followed: {error}")),
            }
        }
        refused.iter().for_each(|why| port.refuse(why, changes));
        port.places = places;
        self.forget_monitors();
    }

    fn forget_monitors(&mut self) {
        let ports = &self.ports;
        self.monitors.retain(|inode, _| ports.iter().any(|port| port.places.contains(inode)));
    }

    /// Takes the changes that the kernel reports.
    fn hear(&mut self) {
        for (inode, monitor) in &mut self.monitors {
            let events = monitor.read();
            for port in self.ports.iter_mut().filter(|port| port.places.contains(inode)) {
                match &events {
                    Some(events) => events.iter().for_each(|event| port.hear(*inode, *event)),
                    // Some were lost.
                    None => port.due = Some((Look::Whole, None)),
                }
            }
        }
    }

    /// Makes the looks due at what the kernel does not report.
    fn poll_all(&mut self) {
        if let Ok(online) = cpus::online()
            && online != self.online
        {
            self.online = online;
            for port in &self.ports {
                // A far end that is gone has a separate look.
                let _ = port.of.port.steer(&self.online);
            }
        }
        for port in self.ports.iter_mut().filter(|port| !port.deleted) {
            let bypassed = port.of.doorbells.guard().unannounced.load(Ordering::Relaxed) > port.unannounced.0;
            let look = if bypassed { Look::Whole } else { Look::Poll };
            port.due.get_or_insert((look, None)).0 = port.due.map_or(look, |due| due.0.max(look));
        }
    }

    /// Takes the looks that are due.
    fn look(&mut self, now: Instant, changes: &Changes) {
        for at in 0..self.ports.len() {
            let port = &mut self.ports[at];
            if port.deleted || now < port.may_look_at() {
                continue;
            }
            if let Some(due) = port.due.take() {
                self.verify(at, due, changes);
            }
        }
    }

    /// Verifies what a port's kernel side must look like.
    fn verify(&mut self, at: usize, (mut look, cause): (Look, Option<Event>), changes: &Changes) {
        let port = &mut self.ports[at];
        port.looked = clock::now();
        let mut moved = false;
        match port.of.port.locate() {
            Where::Here if look == Look::Whole && !port.of.port.exists() => return port.end(),
            Where::Here => {}
            Where::Moved => (look, moved) = (Look::Whole, true),
            Where::Deleted => return port.end(),
            Where::Lost(why) => {
                return port.refuse(&format!("it was moved to another namespace: {why}"), changes);
            }
        }
        if moved {
            self.listen(at, changes);
        }
        let port = &mut self.ports[at];
        let device = port.of.port.verify_device(look).unwrap_or_else(|error| {
            vec![Deviation::new("its device could not be verified".to_owned(), Err(error))]
        });
        device.into_iter().for_each(|deviation| port.tell(deviation, "another program", changes));
        if look == Look::Whole {
            port.verify_egress(cause, moved, changes);
        }
        port.settle();
    }
}

impl Followed {
    /// Takes an event of a namespace, if it is about one of its devices.
    fn hear(&mut self, inode: u64, event: Event) {
        let [near, far, tap] = self.of.port.numbers().unwrap_or([self.of.port.near().index(), 0, 0]);
        let of_near = inode == self.places[0] && event.index == near;
        let of_far = inode == self.places[1] && [far, tap].contains(&event.index);
        if !of_near && !of_far {
            return;
        }
        let known = self.due.and_then(|due| due.1);
        // A clsact that goes takes its filters along, which is reported, too.
        let keeps = known.is_some_and(|known: Event| known.change == Change::QdiscGone);
        let of_egress = of_near && matches!(event.change, Change::Filter | Change::QdiscGone);
        let cause = if of_egress && !keeps { Some(event) } else { known };
        self.due = Some((Look::Whole, cause));
    }

    /// The time from which on the next look may be taken.
    fn may_look_at(&self) -> Instant {
        let pause = if self.deviated.len() > DEVIATIONS { PAUSE } else { Nanos::ZERO };
        let whole = self.due.is_some_and(|due| due.0 == Look::Whole);
        let after_look = if whole { self.looked + LOOK_PAUSE } else { self.looked };
        self.deviated.back().map_or(after_look, |last| (*last + pause).max(after_look))
    }

    /// Takes a port from its worker whose devices are deleted.
    fn end(&mut self) {
        self.deleted = true;
        // The worker answers when it gets there; a NIC that ends does not wait for it.
        let number = self.of.number;
        let _ = self.of.worker.order(|answer| worker::Command::Fail(number, answer));
    }

    /// Verifies what is at the egress. `moved`: the near end is in another namespace than before.
    fn verify_egress(&mut self, cause: Option<Event>, moved: bool, changes: &Changes) {
        let (near, doorbells) = (self.of.port.near(), Arc::clone(&self.of.doorbells));
        let egress = match doorbells.look(&near) {
            Ok(egress) => egress,
            Err(error) => return self.refuse(&format!("its egress could not be verified: {error}"), changes),
        };
        let unannounced = doorbells.guard().unannounced.load(Ordering::Relaxed);
        let by = requester(near.namespace(), cause.map_or(0, |cause| cause.by));
        let now = clock::now();
        if !egress.attached {
            let what = match cause.map(|cause| cause.change) {
                _ if moved => {
                    format!("it was moved to the namespace {}, which removes its program", near.namespace())
                }
                Some(Change::QdiscGone) => "its clsact was deleted".to_owned(),
                _ => "its egress filter was deleted".to_owned(),
            };
            self.tell(Deviation::new(what, doorbells.attach_at(&near)), &by, changes);
            self.unannounced.1 = now + ARRIVED;
        } else if moved {
            // By tcx, which stays at a device that moves.
            let what = format!("it was moved to the namespace {}", near.namespace());
            self.tell(Deviation::new::<String>(what, Ok(())), &by, changes);
        } else if !egress.before.is_empty() {
            let others = egress.before.join(", ");
            if unannounced > self.unannounced.0 && now >= self.unannounced.1 {
                let what = format!("packets passed around its program by {others}, which ran before it");
                self.tell(Deviation::new(what, doorbells.put_first(&near)), &by, changes);
            } else if egress.before != self.before {
                self.say(&format!("{others} runs before its program at the egress"), changes);
            }
        }
        self.before = egress.before;
        self.unannounced.0 = unannounced;
    }

    /// Reports a deviation: restored, or refused.
    fn tell(&mut self, deviation: Deviation, by: &str, changes: &Changes) {
        let Deviation { what, refused } = deviation;
        if let Some(why) = refused {
            return self.refuse(&format!("{what} by {by}: {why}"), changes);
        }
        self.refused = None;
        self.say(&format!("{what} by {by}; restored"), changes);
        if self.deviated.len() > DEVIATIONS {
            self.of.contested.set(Some(what));
        }
    }

    /// Reports what cannot be restored, once.
    fn refuse(&mut self, what: &str, changes: &Changes) {
        if self.refused.as_deref() != Some(what) {
            self.refused = Some(what.to_owned());
            self.say(&format!("refused: {what}"), changes);
        }
    }

    /// Writes a line, unless there were too many of late.
    fn say(&mut self, what: &str, changes: &Changes) {
        self.deviated.push_back(clock::now());
        if self.deviated.len() <= DEVIATIONS {
            changes.say(format!("port {}: {what}", self.of.port.name()));
        }
    }

    /// Forgets old deviations.
    fn settle(&mut self) {
        let now = clock::now();
        while self.deviated.pop_front_if(|at| now.saturating_since(*at) > WINDOW).is_some() {}
        if self.deviated.len() <= DEVIATIONS {
            self.of.contested.set(None);
        }
    }
}
