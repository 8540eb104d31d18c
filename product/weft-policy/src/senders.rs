//! The classes that a process's packets may have, from what is known of the process before a packet is seen.
//!
//! A test of the cgroup, the user or the port is decided by the process. A test of anything else (addresses, ports, mark) may pass or
//! fail, packet by packet. The first row decides about a packet, so the walk ends at the first row that every packet passes.

use crate::compiled::CompiledPolicy;
use std::collections::BTreeSet;
use weft_packet::{Attribute, AttributeTests, Match};
use weft_units::ClassId;

/// The known facts of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sender<'a> {
    /// The path of its cgroup below the root of the hierarchy, if it is known.
    pub cgroup: Option<&'a str>,
    /// The user of its sockets, if it is known.
    pub user: Option<u32>,
    /// The port of the NIC through which it sends, if it is known.
    pub port: Option<&'a str>,
}

/// The outcome of tests of which some are not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passes {
    All,
    None,
    Some,
}

impl Passes {
    /// The outcome of a test that has one if `known` is.
    fn known(known: Option<bool>) -> Self {
        match known {
            Some(true) => Self::All,
            Some(false) => Self::None,
            None => Self::Some,
        }
    }

    /// Both tests together.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, Self::All) => Self::All,
            _ => Self::Some,
        }
    }
}

impl CompiledPolicy {
    /// The classes that may take packets of `sender`, each once.
    pub fn classes_of(&self, sender: Sender<'_>) -> BTreeSet<ClassId> {
        let mut classes = BTreeSet::new();
        for rule in &self.rules {
            match self.passes(&rule.matcher, sender) {
                Passes::None => {}
                Passes::Some => {
                    classes.insert(rule.class);
                }
                Passes::All => {
                    classes.insert(rule.class);
                    break;
                }
            }
        }
        classes
    }

    fn passes(&self, row: &Match, sender: Sender<'_>) -> Passes {
        let cgroup = row.cgroup.map(|index| {
            let path = self.cgroups.get(usize::from(index));
            Passes::known(sender.cgroup.zip(path).map(|(own, path)| is_below(own, path)))
        });
        let user = row.attributes.get(Attribute::User);
        let user = user.map(|wanted| Passes::known(sender.user.map(|own| u128::from(own) == wanted)));
        let port =
            row.port.map(|wanted| Passes::known(sender.port.map(|own| self.port_number(own) == wanted)));
        let known = [cgroup, user, port].into_iter().flatten().fold(Passes::All, Passes::and);
        // Without the tests that the process decides, only the row of all packets is left of one that tests nothing else.
        let others = row.attributes.iter().filter(|(attribute, _)| *attribute != Attribute::User);
        let attributes =
            others.fold(AttributeTests::NONE, |all, (attribute, value)| all.with(attribute, value));
        let rest = Match { cgroup: None, port: None, attributes, ..row.clone() };
        known.and(if rest == Match::default() { Passes::All } else { Passes::Some })
    }
}

/// Whether the cgroup at `own` is that at `path` or below it. Paths begin at the root of the hierarchy, with or without a slash.
fn is_below(own: &str, path: &str) -> bool {
    let path = path.trim_matches('/');
    let below = own.trim_start_matches('/').strip_prefix(path);
    below.is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompileOptions, Source, compile};

    const TEXT: &str = "link 1gbps\nclass db = cgroup \"/db.slice\"\nclass mine = user 1000 and tcp\n\
                        class vm = port \"vm1\"\nclass web = tcp port 80\n\
                        root = wfq { db: 1, mine: 1, vm: 1, web: 1, default: 1 }\n";

    fn classes(sender: Sender<'_>) -> Vec<String> {
        let policy =
            compile(Source { name: "p", text: TEXT }, &CompileOptions::default()).policy.expect("a policy");
        let name = |class: ClassId| policy.classes[class.index()].name.clone();
        policy.classes_of(sender).into_iter().map(name).collect()
    }

    #[test]
    fn a_process_decides_about_cgroup_user_and_port() {
        let known = Sender { cgroup: Some("/user.slice"), user: Some(7), port: Some("weft0") };
        assert_eq!(classes(known), ["web", "default"], "by each packet's ports");
        assert_eq!(classes(Sender { cgroup: Some("/db.slice/a"), ..known }), ["db"]);
        assert_eq!(classes(Sender { cgroup: Some("/db.slicer"), ..known }), ["web", "default"]);
        assert_eq!(classes(Sender { port: Some("vm1"), ..known }), ["vm"]);
        assert_eq!(classes(Sender { user: Some(1000), ..known }), ["mine", "web", "default"]);
    }

    #[test]
    fn what_is_not_known_may_pass() {
        assert_eq!(classes(Sender::default()), ["db", "mine", "vm", "web", "default"]);
        let at_vm = Sender { cgroup: Some("/user.slice"), port: Some("vm1"), user: None };
        assert_eq!(classes(at_vm), ["mine", "vm"], "the row of the port takes all that is left");
    }

    #[test]
    fn the_root_holds_every_cgroup() {
        assert!(is_below("/a/b", "/") && is_below("/a/b", "a") && is_below("/", "/"));
        assert!(!is_below("/a", "/a/b") && !is_below("/ab", "/a"));
    }
}
