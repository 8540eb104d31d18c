//! The difference of two trees: what changes in place, what comes and goes, and what needs a new root.

use super::tree::{Class, ClassKind, Handle, KernelPart, KernelTree, Parent, QdiscKind};
use std::collections::{BTreeMap, BTreeSet};

/// The way from one tree to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelDifference {
    /// Edits of the tree in force, without loss but for the queues in [`Edits::replaced`].
    InPlace(Edits),
    /// The root must be made anew, which loses all that waits.
    NewRoot(NewRoot),
}

/// Edits in the order in which they are made: the fields from the first to the last.
///
/// Packets that wait in what is removed are lost. So the caller adds, changes, lets the classifying program use the new map, waits until
/// the removed leaves are empty, and then removes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edits {
    /// New parts, each after its parent.
    pub added: Vec<KernelPart>,
    /// Parts of the same kind with other parameters; all of them must be given. Rates that fall come first, so that the sum of
    /// guarantees does not exceed the parent's meanwhile.
    pub changed: Vec<KernelPart>,
    /// Queues of another kind in the same place. Each of them loses what waits in it.
    pub replaced: Vec<KernelPart>,
    /// Parts that go, each before its parent.
    pub removed: Vec<KernelPart>,
}

impl Edits {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        let Self { added, changed, replaced, removed } = self;
        [added, changed, replaced, removed].iter().all(|parts| parts.is_empty())
    }
}

/// The reason why a tree cannot be edited.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewRoot {
    /// HTB cannot change it.
    #[error("packets that no class takes would belong to {1} and not to {0}, which HTB cannot change")]
    Default(Handle, Handle),
    /// The kernel accepts the change of a parent, and ignores it.
    #[error("`{0}` moves to another place")]
    Moved(String),
    /// A class with packets would become an inner one, or the reverse.
    #[error("`{0}` has a queue in one tree and classes in the other")]
    Reshaped(String),
}

/// The way from `old` to `new`, where the policy of `new` was renumbered after that of `old` ([`crate::renumber`]): equal handles are the
/// same things.
pub fn diff(old: &KernelTree, new: &KernelTree) -> KernelDifference {
    let before: BTreeMap<Handle, &KernelPart> = old.parts.iter().map(|part| (part.handle(), part)).collect();
    let after: BTreeSet<Handle> = new.parts.iter().map(KernelPart::handle).collect();
    if let Some(reason) = reshaped(old, new) {
        return KernelDifference::NewRoot(reason);
    }
    let mut edits = Edits::default();
    for part in &new.parts {
        match before.get(&part.handle()) {
            None => edits.added.push(part.clone()),
            Some(known) => match change(known, part) {
                Change::None => {}
                Change::Parameters => edits.changed.push(part.clone()),
                Change::Queue => edits.replaced.push(part.clone()),
                Change::Root(reason) => return KernelDifference::NewRoot(reason),
            },
        }
    }
    edits
        .changed
        .sort_by_key(|part| before.get(&part.handle()).is_some_and(|known| rate(part) > rate(known)));
    edits.removed = old.parts.iter().rev().filter(|part| !after.contains(&part.handle())).cloned().collect();
    KernelDifference::InPlace(edits)
}

/// The change of one part.
enum Change {
    None,
    Parameters,
    Queue,
    Root(NewRoot),
}

fn change(old: &KernelPart, new: &KernelPart) -> Change {
    let moved = || Change::Root(NewRoot::Moved(new.title().to_owned()));
    match (old, new) {
        (KernelPart::Qdisc(old), KernelPart::Qdisc(new)) => match (old.kind, new.kind) {
            _ if old.parent != new.parent => moved(),
            (before, after) if before == after => Change::None,
            (QdiscKind::Htb { default: before }, QdiscKind::Htb { default: after }) => {
                Change::Root(NewRoot::Default(before, after))
            }
            (before, after) if before.name() == after.name() => Change::Parameters,
            (before, after) if before.is_leaf() && after.is_leaf() => Change::Queue,
            _ => Change::Root(NewRoot::Reshaped(new.title.clone())),
        },
        (KernelPart::Class(old), KernelPart::Class(new)) => match (old.kind, new.kind) {
            _ if old.parent != new.parent => moved(),
            (before, after) if before == after => Change::None,
            (ClassKind::Htb(_), ClassKind::Htb(_)) | (ClassKind::Drr { .. }, ClassKind::Drr { .. }) => {
                Change::Parameters
            }
            _ => moved(),
        },
        _ => moved(),
    }
}

/// The reason of a class or band that has a queue in one tree, and classes or another queue in the other.
fn reshaped(old: &KernelTree, new: &KernelTree) -> Option<NewRoot> {
    let children = |tree: &KernelTree| -> BTreeMap<Handle, Option<Handle>> {
        let classes =
            tree.classes().map(|class| (class.parent, None)).filter(|(parent, _)| !parent.is_qdisc());
        let qdiscs = tree.qdiscs().filter_map(|qdisc| match qdisc.parent {
            Parent::Class(class) => Some((class, Some(qdisc.handle))),
            Parent::Root => None,
        });
        classes.chain(qdiscs).collect()
    };
    let (before, after) = (children(old), children(new));
    let differs =
        |(class, child): &(&Handle, &Option<Handle>)| before.get(class).is_some_and(|known| known != *child);
    let (class, _) = after.iter().find(differs)?;
    let title = new.class(*class).map_or_else(|| class.to_string(), |class: &Class| class.title.clone());
    Some(NewRoot::Reshaped(title))
}

/// The guarantee of an HTB class.
fn rate(part: &KernelPart) -> weft_units::BitsPerSec {
    match part {
        KernelPart::Class(Class { kind: ClassKind::Htb(class), .. }) => class.rate,
        _ => weft_units::BitsPerSec::ZERO,
    }
}
