//! The qdiscs of a device, and those that this kernel has.

use std::path::Path;

use rustix::io::Errno;

use crate::error::OsError;
use crate::link::{self, LinkError, VethOptions};
use crate::netlink::{Netlink, attributes, c_string, u32_at};
use crate::netns::{NetNs, NetNsError};
use crate::tc::{self, Place};

const TCMSG_LEN: usize = 20;
const TCA_KIND: u16 = 1;
/// Qdiscs that are part of every kernel (net/sched/sch_generic.c, net/sched/Makefile).
const ALWAYS: [&str; 3] = ["pfifo_fast", "noqueue", "mq"];

/// An error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QdiscsError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The device could not be queried.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// A qdisc of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    kind: String,
    handle: u32,
    parent: u32,
}

/// The qdiscs at a device's egress.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Qdiscs {
    /// The kind of the root.
    pub root: String,
    /// Below `mq`, the kind of each queue's; empty otherwise.
    pub queues: Vec<String>,
}

impl Qdiscs {
    /// The kind that all queues have; `None` if they differ.
    pub fn each(&self) -> Option<&str> {
        match self.queues.split_first() {
            None => Some(&self.root),
            Some((first, rest)) => rest.iter().all(|kind| kind == first).then_some(first),
        }
    }
}

/// The qdiscs at a device's egress; `None` if it has none, not even `noqueue`, as one that is down.
///
/// # Errors
/// If the device does not exist or the kernel refuses.
pub fn of_device(ns: &NetNs, device: &str) -> Result<Option<Qdiscs>, QdiscsError> {
    let index = link::index(ns, device)?;
    let answers = tc::dump_qdiscs(&mut Netlink::open(ns)?, index)
        .map_err(|refusal| refusal.during(format!("list the qdiscs of {device} in {ns}")))?;
    let found: Vec<Found> = answers.iter().filter_map(|(_, body)| parse(body, index)).collect();
    Ok(arrange(&found))
}

/// Reads an answer: a `struct tcmsg` and its attributes; `None` for other devices.
fn parse(body: &[u8], index: u32) -> Option<Found> {
    let tail = body.get(TCMSG_LEN..)?;
    let kind = attributes(tail).find(|(kind, _)| *kind == TCA_KIND).map(|(_, text)| c_string(text))?;
    let found = Found { kind, handle: u32_at(body, 8), parent: u32_at(body, 12) };
    (u32_at(body, 4) == index).then_some(found)
}

/// The root, and below `mq` the qdiscs of the queues in their order: queue `q` is class `q + 1` (mq_attach, net/sched/sch_mq.c).
fn arrange(found: &[Found]) -> Option<Qdiscs> {
    let root = found.iter().find(|one| one.parent == tc::ROOT)?;
    let mut queues: Vec<&Found> = Vec::new();
    if root.kind == "mq" {
        let below = |one: &&Found| one.parent != tc::ROOT && one.parent & 0xffff_0000 == root.handle;
        queues = found.iter().filter(below).collect();
        queues.sort_by_key(|one| one.parent);
    }
    let queues = queues.into_iter().map(|one| one.kind.clone()).collect();
    Some(Qdiscs { root: root.kind.clone(), queues })
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
    let link_index = link::index(&ns, "va").ok()?;
    let place = Place { link_index, parent: tc::ROOT, handle: 0 };
    match tc::add_qdisc(&mut Netlink::open(&ns).ok()?, place, kind, None) {
        Ok(()) => Some(true),
        Err(refusal) if refusal.is(Errno::NOENT) => Some(false),
        // The kernel has it, and requires options.
        Err(refusal) if refusal.is(Errno::INVAL) => Some(true),
        Err(_) => None,
    }
}

/// Whether the lists of a kernel's modules have the qdisc; `None` without lists.
fn among_modules(folder: &Path, kind: &str) -> Option<bool> {
    let module = format!("/sch_{kind}.ko");
    let texts = ["modules.builtin", "modules.dep"].map(|name| std::fs::read_to_string(folder.join(name)));
    if texts.iter().all(Result::is_err) {
        return None;
    }
    Some(texts.iter().flatten().any(|text| text.contains(&module)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn found(kind: &str, handle: u32, parent: u32) -> Found {
        Found { kind: kind.to_owned(), handle, parent }
    }

    #[test]
    fn queues_below_mq_are_told_from_a_root() {
        let root = tc::ROOT;
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
        assert_eq!(parse(&[0; 19], 0), None);
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
        assert_eq!(of_device(&a, "q0").expect("read").expect("a qdisc").each(), Some("noqueue"));
        assert_eq!(in_this_kernel("no_such_qdisc"), Some(false));
        assert!(of_device(&a, "absent").is_err());
    }
}
