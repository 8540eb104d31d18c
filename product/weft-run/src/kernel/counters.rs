//! The counters of a policy in the kernel: those of the classifier beside those of the qdiscs.

use super::error::KernelError;
use super::objects::handle;
use super::path::KernelPath;
use super::programs::INFRASTRUCTURE;
use std::collections::HashMap;
use weft_host::tc::{self, QdiscCounters};
use weft_policy::kernel::Handle;
use weft_units::{ClassId, Counted, Packets};

/// The counters of a class.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelClass {
    /// Its name.
    pub name: String,
    /// The packets that the classifier has given it.
    pub had: Counted,
    /// The packets that a limit by destination or port has dropped.
    pub late: Counted,
    /// The place in the tree.
    pub leaf: Handle,
    /// The counters of its queue, which classes of one `fifo` share.
    pub queue: QdiscCounters,
}

/// The counters of a policy in the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelCounters {
    /// The classes, by their numbers; vacant ones are left out. Infrastructure is the last.
    pub classes: Vec<KernelClass>,
    /// The counters of the whole tree.
    pub root: QdiscCounters,
    /// Packets of infrastructure beyond its share.
    pub excess: Packets,
    /// Fragments that were classified without their ports.
    pub obscured: Packets,
}

impl KernelPath {
    /// Reads the counters.
    ///
    /// # Errors
    /// If the device or the tree no longer exists.
    pub fn counters(&mut self) -> Result<KernelCounters, KernelError> {
        let queues: HashMap<tc::Handle, QdiscCounters> =
            self.tc.qdiscs()?.into_iter().map(|qdisc| (qdisc.place.handle, qdisc.counters)).collect();
        let root = queues.get(&handle(Handle::ROOT)).copied().unwrap_or_default();
        let map = &self.plan.lowered.map;
        let mut named: Vec<(u16, &str, Handle)> = Vec::new();
        for (number, class) in
            self.plan.policy.classes.iter().enumerate().filter(|(_, class)| !class.is_vacant())
        {
            if let Some(leaf) = map.leaf(ClassId::from_index(number)) {
                named.push((number as u16, &class.name, leaf));
            }
        }
        named.extend(map.infrastructure.map(|leaf| (INFRASTRUCTURE, weft_policy::INFRASTRUCTURE, leaf)));
        let mut classes = Vec::new();
        for (number, name, leaf) in named {
            let count = self.maps.count(number)?;
            let queue = self.plan.lowered.tree.queue(leaf).map(|queue| handle(queue.handle));
            let queue = queue.and_then(|queue| queues.get(&queue)).copied().unwrap_or_default();
            classes.push(KernelClass {
                name: name.to_owned(),
                had: count.had,
                late: count.late,
                leaf,
                queue,
            });
        }
        let load = |count: &core::sync::atomic::AtomicU64| {
            Packets(count.load(core::sync::atomic::Ordering::Relaxed))
        };
        Ok(KernelCounters {
            classes,
            root,
            excess: load(&self.maps.guard.excess),
            obscured: load(&self.maps.guard.obscured),
        })
    }
}
