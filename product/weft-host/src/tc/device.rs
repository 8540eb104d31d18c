//! The traffic control of one device: queries and changes.

use std::fmt;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_ECHO};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::TcMessage;
use rustix::io::Errno;
use weft_units::Packets;

use super::class::Class;
use super::counters::QdiscCounters;
use super::error::{Result, TcError};
use super::filter::{Filter, FilterFound, in_order};
use super::handle::Handle;
use super::message::{Entry, TcPlace, message};
use super::object::{Hook, TcAction, TcObject};
use super::qdisc::{Qdisc, direct_packets};
use crate::link::{self, Numbered};
use crate::netlink::{Answer, Netlink, Refusal};
use crate::netns::NetNs;

const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTCLASS: u16 = 40;
const RTM_NEWTFILTER: u16 = 44;

/// The traffic control of a device. Its socket stays open, so that counters can be read every few milliseconds. The device is found by
/// name once; from then on its number counts, which renaming does not change.
pub struct TcDevice {
    netlink: Netlink,
    index: u32,
    name: String,
    /// The words for errors: "link eth0 of NAMESPACE".
    words: String,
}

impl fmt::Debug for TcDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("device", &self.words).finish_non_exhaustive()
    }
}

impl fmt::Display for TcDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// A qdisc as the kernel dumps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QdiscFound {
    /// Its place; its handle is [`Handle::NONE`] if the kernel made it by itself.
    pub place: TcPlace,
    /// Its kind.
    pub kind: String,
    /// Its options (`TCA_OPTIONS`), which together with kind and place are the message that makes it; empty for none.
    pub options: Vec<u8>,
    /// Its counters; for `mq` those of all queues.
    pub counters: QdiscCounters,
}

impl QdiscFound {
    /// Returns the qdisc with its parameters.
    pub fn qdisc(&self) -> Qdisc {
        Qdisc::decode(&self.kind, &self.options)
    }

    /// The packets that an HTB has sent unshaped, because they had no class; `None` for other kinds.
    pub fn direct_packets(&self) -> Option<Packets> {
        if self.kind == "htb" { direct_packets(&self.options) } else { None }
    }

    fn of(entry: Entry) -> Self {
        let Entry { handle, parent, kind, options, counters, .. } = entry;
        Self { place: TcPlace { parent, handle }, kind, options, counters }
    }
}

/// A class as the kernel dumps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassFound {
    /// Its place.
    pub place: TcPlace,
    /// The kind of its qdisc.
    pub kind: String,
    /// Its options (`TCA_OPTIONS`); empty for none.
    pub options: Vec<u8>,
    /// Its counters.
    pub counters: QdiscCounters,
    /// The qdisc in it; [`Handle::NONE`] if it has none, or one that the kernel made by itself.
    pub leaf: Handle,
}

impl ClassFound {
    /// Returns the class with its parameters.
    pub fn class(&self) -> Class {
        Class::decode(&self.kind, &self.options)
    }
}

impl TcDevice {
    /// Opens the traffic control of the device that has this name.
    ///
    /// # Errors
    /// If the device does not exist, or a socket cannot be made.
    pub fn open(ns: &NetNs, name: &str) -> Result<Self> {
        let index = link::index(ns, name)?;
        let words = format!("link {name} of {ns}");
        Ok(Self { netlink: Netlink::open(ns)?, index, name: name.to_owned(), words })
    }

    /// Opens the traffic control of a numbered link. Whether it exists, the first call shows.
    ///
    /// # Errors
    /// If a socket cannot be made.
    pub fn of(link: &Numbered) -> Result<Self> {
        let (ns, name) = (link.namespace(), link.first_name().to_owned());
        let words = format!("link {name} of {ns}");
        Ok(Self { netlink: Netlink::open(ns)?, index: link.index(), name, words })
    }

    /// The device's number in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Carries out an action on an object.
    ///
    /// # Errors
    /// [`TcError::Invalid`] before anything is sent; [`TcError::NoKind`] if the kernel lacks a module; otherwise the kernel's error.
    pub fn apply(&mut self, action: TcAction, object: &TcObject<'_>) -> Result<()> {
        let (body, flags) = object.request(action, self.index)?;
        let refused = |refusal| object.refused(refusal, format!("{action} {object} of {}", self.words));
        self.netlink.request(body, flags).map(drop).map_err(refused)
    }

    /// Adds an object; as [`apply`](Self::apply).
    ///
    /// # Errors
    /// As [`apply`](Self::apply); also if its place is taken.
    pub fn add(&mut self, object: &TcObject<'_>) -> Result<()> {
        self.apply(TcAction::Add, object)
    }

    /// Changes an object's parameters; as [`apply`](Self::apply).
    ///
    /// # Errors
    /// As [`apply`](Self::apply); also if it does not exist, or cannot be changed.
    pub fn change(&mut self, object: &TcObject<'_>) -> Result<()> {
        self.apply(TcAction::Change, object)
    }

    /// Adds an object, or replaces the one at its place; as [`apply`](Self::apply).
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn replace(&mut self, object: &TcObject<'_>) -> Result<()> {
        self.apply(TcAction::Replace, object)
    }

    /// Deletes the qdisc at a place, with its packets, classes and filters.
    ///
    /// # Errors
    /// If it does not exist, or the kernel made it by itself.
    pub fn delete_qdisc(&mut self, place: TcPlace) -> Result<()> {
        self.apply(
            TcAction::Delete,
            &TcObject::Qdisc(place, Qdisc::Other { kind: String::new(), options: Vec::new() }),
        )
    }

    /// Carries out actions in their order until one fails. Those before it remain carried out.
    ///
    /// # Errors
    /// [`TcError::Batch`] with the object of the action that failed.
    pub fn batch<'a>(&mut self, steps: impl IntoIterator<Item = (TcAction, TcObject<'a>)>) -> Result<()> {
        let steps: Vec<_> = steps.into_iter().collect();
        for (done, (action, object)) in steps.iter().enumerate() {
            self.apply(*action, object).map_err(|source| TcError::Batch {
                object: object.to_string(),
                done,
                of: steps.len(),
                source: Box::new(source),
            })?;
        }
        Ok(())
    }

    /// Adds a qdisc with what belongs below it: the first object, then the others. If one fails, the first is deleted, and nothing
    /// remains.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn install(&mut self, objects: Vec<TcObject<'_>>) -> Result<()> {
        let first = objects.first().cloned();
        let added = self.batch(objects.into_iter().map(|object| (TcAction::Add, object)));
        if let (Err(TcError::Batch { done: 1.., .. }), Some(first)) = (&added, first) {
            let _ = self.apply(TcAction::Delete, &first);
        }
        added
    }

    /// All qdiscs of the device. The kernel dumps those of the whole namespace.
    ///
    /// # Errors
    /// If the kernel refuses the dump.
    pub fn qdiscs(&mut self) -> Result<Vec<QdiscFound>> {
        let entries = self.dump("qdiscs", RTM_NEWQDISC, Handle::NONE)?;
        let ours = entries.into_iter().filter(|entry| entry.index == self.index);
        Ok(ours.map(QdiscFound::of).collect())
    }

    /// The root qdisc. `None` for a device without one, such as a device that is down.
    ///
    /// The kernel sends the answer to every listener for changes, and to the caller only as an echo (`qdisc_get_notify`,
    /// net/sched/sch_api.c).
    ///
    /// # Errors
    /// If the device no longer exists.
    pub fn root(&mut self) -> Result<Option<QdiscFound>> {
        let body = RouteNetlinkMessage::GetQueueDiscipline(self.message(TcPlace::root(Handle::NONE)));
        let answers = match self.netlink.request(body, NLM_F_ECHO) {
            Err(refusal) if refusal.is(Errno::NOENT) => return Ok(None),
            other => other.map_err(|refusal| self.unreadable(refusal, "qdisc"))?,
        };
        Ok(entries(&answers, RTM_NEWQDISC).next().map(QdiscFound::of))
    }

    /// The qdisc of this handle.
    ///
    /// # Errors
    /// [`TcError::NotThere`] if the device has none of this handle, or no longer exists.
    pub fn qdisc(&mut self, handle: Handle) -> Result<QdiscFound> {
        let found = self.qdiscs()?.into_iter().find(|qdisc| qdisc.place.handle == handle);
        found.ok_or_else(|| TcError::NotThere { device: self.words.clone(), handle })
    }

    /// All classes of the device's qdiscs, ordered by their handles.
    ///
    /// # Errors
    /// If the kernel refuses the dump.
    pub fn classes(&mut self) -> Result<Vec<ClassFound>> {
        let entries = self.dump("classes", RTM_NEWTCLASS, Handle::NONE)?;
        let found = entries.into_iter().map(|entry| {
            let Entry { handle, parent, kind, options, counters, info, .. } = entry;
            ClassFound {
                place: TcPlace { parent, handle },
                kind,
                options,
                counters,
                leaf: Handle::from_raw(info),
            }
        });
        let mut classes: Vec<_> = found.collect();
        classes.sort_by_key(|class| class.place.handle);
        Ok(classes)
    }

    /// All filters of a hook, in the order in which they run (by chain and priority); empty without the hook.
    ///
    /// # Errors
    /// If the kernel refuses the dump.
    pub fn filters(&mut self, hook: Handle) -> Result<Vec<FilterFound>> {
        let entries = self.dump("filters", RTM_NEWTFILTER, hook)?;
        Ok(in_order(entries.into_iter().map(FilterFound::of).collect()))
    }

    fn message(&self, place: TcPlace) -> TcMessage {
        message(self.index, place, 0, ("", Vec::new()))
    }

    fn dump(&mut self, what: &str, answer: u16, parent: Handle) -> Result<Vec<Entry>> {
        let message = self.message(TcPlace { parent, handle: Handle::NONE });
        let body = match answer {
            RTM_NEWQDISC => RouteNetlinkMessage::GetQueueDiscipline(message),
            RTM_NEWTCLASS => RouteNetlinkMessage::GetTrafficClass(message),
            _ => RouteNetlinkMessage::GetTrafficFilter(message),
        };
        let answers =
            self.netlink.request(body, NLM_F_DUMP).map_err(|refusal| self.unreadable(refusal, what))?;
        Ok(entries(&answers, answer).collect())
    }

    fn unreadable(&self, refusal: Refusal, what: &str) -> TcError {
        TcError::refused(refusal, format!("read the {what} of {}", self.words))
    }

    /// Whether the device has a `clsact`.
    ///
    /// # Errors
    /// If the kernel refuses the dump.
    pub fn has_clsact(&mut self) -> Result<bool> {
        Ok(self.qdiscs()?.iter().any(|qdisc| qdisc.kind == "clsact"))
    }

    /// Deletes the device's `clsact` if it contains no filter. The kernel would delete filters with it, so a filter that another
    /// process adds between the check and the deletion is lost.
    ///
    /// # Errors
    /// [`TcError::InUse`] if there are filters, [`TcError::NoHook`] without a clsact; otherwise the kernel's error.
    pub fn delete_clsact(&mut self) -> Result<()> {
        if !self.has_clsact()? {
            return Err(self.no_hook());
        }
        let (ingress, egress) = (self.filters(Handle::INGRESS)?.len(), self.filters(Handle::EGRESS)?.len());
        if ingress + egress > 0 {
            return Err(TcError::InUse { device: self.words.clone(), ingress, egress });
        }
        self.apply(TcAction::Delete, &TcObject::clsact())
    }

    fn no_hook(&self) -> TcError {
        TcError::NoHook { device: self.words.clone(), name: self.name.clone() }
    }

    /// Adds a filter at a `clsact`, under a priority that no other filter of the hook has: it neither replaces a filter nor joins a
    /// group that another process may delete. It remains until it, the clsact or the device is deleted.
    ///
    /// # Errors
    /// [`TcError::PriorityTaken`] if a filter has the priority, [`TcError::NoHook`] without a clsact, [`TcError::Invalid`] without
    /// a priority or a number; otherwise as [`add`](Self::add).
    pub fn claim_filter(&mut self, filter: &Filter<'_>) -> Result<()> {
        let (hook, priority) = (filter.hook, filter.priority);
        if priority == 0 || filter.handle == 0 {
            let why = "priority and handle must not be zero, which lets the kernel choose";
            return Err(TcError::invalid("filter", why));
        }
        filter.encode()?;
        if !self.has_clsact()? {
            return Err(self.no_hook());
        }
        let taken = |device: &Self| TcError::PriorityTaken {
            device: device.words.clone(),
            hook: Hook(hook).to_string(),
            priority,
        };
        if self.filters(hook)?.iter().any(|there| there.chain == 0 && there.priority == priority) {
            return Err(taken(self));
        }
        let object = TcObject::Filter(filter.clone());
        self.add(&object).map_err(|error| match error {
            TcError::Refused(refused) if refused.errno() == Some(Errno::EXIST) => taken(self),
            other => other,
        })
    }

    /// Deletes the filter of this priority and number, and no other, from a hook.
    ///
    /// # Errors
    /// [`TcError::NoSuchFilter`] if it does not exist; otherwise the kernel's error.
    pub fn delete_filter(&mut self, hook: Handle, priority: u16, handle: u32) -> Result<()> {
        // For the kernel, number zero means all filters of the priority, and priority zero all filters.
        let ours = |f: &FilterFound| f.chain == 0 && (f.priority, f.handle) == (priority, handle);
        let there = self.filters(hook)?.into_iter().find(ours);
        let Some(there) = there.filter(|_| priority != 0 && handle != 0) else {
            return Err(self.no_such_filter(hook, priority, handle));
        };
        let info = u32::from(priority) << 16 | u32::from(there.protocol.to_be());
        let place = TcPlace { parent: hook, handle: Handle::from_raw(handle) };
        let body = message(self.index, place, info, (&there.kind, Vec::new()));
        let deleted = self.netlink.request(RouteNetlinkMessage::DelTrafficFilter(body), 0);
        deleted.map(drop).map_err(|refusal| match refusal.is(Errno::NOENT) {
            true => self.no_such_filter(hook, priority, handle),
            false => {
                let what = format!("filter {handle:#x} of priority {priority} at {}", Hook(hook));
                TcError::refused(refusal, format!("delete {what} of {}", self.words))
            }
        })
    }

    fn no_such_filter(&self, hook: Handle, priority: u16, handle: u32) -> TcError {
        TcError::NoSuchFilter { device: self.words.clone(), hook: Hook(hook).to_string(), priority, handle }
    }
}

/// All filters of a hook of the device of this name; as [`TcDevice::filters`].
///
/// # Errors
/// As [`TcDevice::open`] and [`TcDevice::filters`].
pub fn filters(ns: &NetNs, device: &str, hook: Handle) -> Result<Vec<FilterFound>> {
    TcDevice::open(ns, device)?.filters(hook)
}

fn entries(answers: &[Answer], kind: u16) -> impl Iterator<Item = Entry> {
    answers.iter().filter(move |(answer, _)| *answer == kind).map(|(_, body)| Entry::parse(body))
}
