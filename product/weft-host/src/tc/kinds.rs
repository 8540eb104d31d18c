//! The kinds of a device's egress qdiscs, and those that this kernel has.

use std::path::Path;

use super::device::{QdiscFound, TcDevice};
use super::error::{Family, Result, TcError};
use super::handle::Handle;
use super::object::TcObject;
use super::qdisc::Qdisc;
use crate::link::{self, VethOptions};
use crate::netns::NetNs;

/// Qdiscs that are part of every kernel (net/sched/sch_generic.c, net/sched/Makefile).
const ALWAYS: [&str; 3] = ["pfifo_fast", "noqueue", "mq"];

/// The kinds of the qdiscs at a device's egress.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EgressKinds {
    /// The kind of the root.
    pub root: String,
    /// Below `mq`, the kind of each queue's; empty otherwise.
    pub queues: Vec<String>,
}

impl EgressKinds {
    /// The kind that all queues have; `None` if they differ.
    pub fn each(&self) -> Option<&str> {
        match self.queues.split_first() {
            None => Some(&self.root),
            Some((first, rest)) => rest.iter().all(|kind| kind == first).then_some(first),
        }
    }

    /// Reads the kinds of a device; `None` if it has no qdisc, not even `noqueue`, as one that is down.
    ///
    /// # Errors
    /// If the device does not exist or the kernel refuses.
    pub fn of_device(ns: &NetNs, device: &str) -> Result<Option<Self>> {
        Ok(Self::arrange(&TcDevice::open(ns, device)?.qdiscs()?))
    }

    /// The root, and below `mq` the qdiscs of the queues in their order: queue `q` is class `q + 1` (mq_attach, net/sched/sch_mq.c).
    fn arrange(found: &[QdiscFound]) -> Option<Self> {
        let root = found.iter().find(|one| one.place.parent == Handle::ROOT)?;
        let mut queues: Vec<&QdiscFound> = Vec::new();
        if root.kind == "mq" {
            let major = root.place.handle.major();
            let below =
                |one: &&QdiscFound| one.place.parent != Handle::ROOT && one.place.parent.major() == major;
            queues = found.iter().filter(below).collect();
            queues.sort_by_key(|one| one.place.parent);
        }
        let queues = queues.into_iter().map(|one| one.kind.clone()).collect();
        Some(Self { root: root.kind.clone(), queues })
    }
}

/// Whether this kernel has a qdisc: looked up among the kernel's modules, so that none is loaded; without lists of modules, tried in a
/// separate namespace. `None` if neither decides.
pub fn in_this_kernel(kind: &str) -> Option<bool> {
    if ALWAYS.contains(&kind) {
        return Some(true);
    }
    let modules = Path::new("/lib/modules").join(crate::sysctl::release());
    among_modules(&modules, kind).or_else(|| tried(kind))
}

fn tried(kind: &str) -> Option<bool> {
    let ns = NetNs::anonymous().ok()?;
    link::create_veth((&ns, "va"), (&ns, "vb"), &VethOptions::default()).ok()?;
    let qdisc = Qdisc::Other { kind: kind.to_owned(), options: Vec::new() };
    match TcDevice::open(&ns, "va").ok()?.add(&TcObject::root(Handle::NONE, qdisc)) {
        Ok(()) => Some(true),
        Err(TcError::NoKind { .. }) => Some(false),
        // The kernel has it, and requires options.
        Err(TcError::Refused(refused)) if refused.errno() == Some(rustix::io::Errno::INVAL) => Some(true),
        Err(_) => None,
    }
}

/// Whether the lists of a kernel's modules have the qdisc; `None` without lists.
fn among_modules(folder: &Path, kind: &str) -> Option<bool> {
    let module = format!("/{}.ko", Family::Qdisc.module(kind));
    let texts = ["modules.builtin", "modules.dep"].map(|name| std::fs::read_to_string(folder.join(name)));
    if texts.iter().all(|text| text.is_err()) {
        return None;
    }
    Some(texts.iter().flatten().any(|text| text.contains(&module)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::{QdiscCounters, TcPlace};
    use crate::testing;

    fn found(kind: &str, handle: u32, parent: u32) -> QdiscFound {
        let place = TcPlace { parent: Handle::from_raw(parent), handle: Handle::from_raw(handle) };
        QdiscFound { place, kind: kind.to_owned(), options: Vec::new(), counters: QdiscCounters::default() }
    }

    #[test]
    fn queues_below_mq_are_not_a_root() {
        let (root, arrange) = (Handle::ROOT.raw(), EgressKinds::arrange);
        let lone = arrange(&[found("clsact", 0xffff_0000, 0xffff_fff1), found("fq_codel", 0, root)]);
        let lone = lone.expect("a root");
        assert_eq!((lone.root.as_str(), lone.queues.len(), lone.each()), ("fq_codel", 0, Some("fq_codel")));
        let queues = [found("sfq", 0, 2), found("mq", 0, root), found("fq", 0, 1)];
        let queues = arrange(&queues).expect("a root");
        assert_eq!(
            (queues.queues.as_slice(), queues.each()),
            (&["fq".to_owned(), "sfq".to_owned()][..], None)
        );
        let named =
            [found("mq", 0x8001_0000, root), found("fq", 7, 0x8001_0001), found("fq", 7, 0x8001_0002)];
        assert_eq!(arrange(&named).expect("a root").each(), Some("fq"));
        assert_eq!(arrange(&[]), None);
    }

    #[test]
    fn modules_are_looked_up_by_their_whole_name() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(among_modules(folder.path(), "fq"), None);
        std::fs::write(folder.path().join("modules.dep"), "kernel/net/sched/sch_fq_codel.ko.xz:\n")
            .expect("write");
        let known = ["fq", "fq_codel"].map(|kind| among_modules(folder.path(), kind));
        assert_eq!(known, [Some(false), Some(true)]);
        assert_eq!(in_this_kernel("pfifo_fast"), Some(true));
    }

    #[test]
    fn the_qdiscs_of_a_veth_are_read() {
        if !testing::privileged("the_qdiscs_of_a_veth_are_read") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        let options = VethOptions { queues: Some(2), ..VethOptions::default() };
        link::create_veth((&a, "q0"), (&b, "q1"), &options).expect("veth");
        link::set_up(&a, "q0").expect("up");
        link::set_up(&b, "q1").expect("up");
        let kinds = EgressKinds::of_device(&a, "q0").expect("read").expect("a qdisc");
        assert_eq!(kinds.each(), Some("noqueue"));
        assert_eq!(in_this_kernel("no_such_qdisc"), Some(false));
        assert!(EgressKinds::of_device(&a, "absent").is_err());
    }
}
