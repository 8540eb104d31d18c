//! Lowering of the conditions of classes, from the tree to [`Condition`].

use super::items::Lowering;
use super::model::{Condition, PORTS_MAX, Spanned, port_number};
use super::nodes::{first_word, span_of, token_of, value_of};
use super::values;
use crate::code::Code;
use crate::syntax::{SyntaxKind, SyntaxNode};
use weft_packet::{Attribute, AttributeTests, Match, PortRange};
use weft_text::Span;
use weft_units::{ProcessName, Protocol};

/// The highest priority that a process may set without capabilities (SO_PRIORITY, socket(7)).
const PRIORITY_OF_ALL: u32 = 6;
/// The most cgroups that the rules of a policy may name: one bit each in a packet's metadata.
pub(crate) const CGROUPS_MAX: usize = 64;

impl Lowering<'_> {
    /// The condition below `parent`, and its first test that received packets cannot pass.
    pub(super) fn class_condition(
        &mut self,
        parent: &SyntaxNode,
    ) -> (Option<Condition>, Option<Spanned<&'static str>>) {
        self.of_sender = None;
        let condition = self.condition_in(parent);
        (condition, self.of_sender.take())
    }

    /// The condition below `parent`; `None` if it could not be parsed.
    pub(super) fn condition_in(&mut self, parent: &SyntaxNode) -> Option<Condition> {
        parent.children().find(|node| is_condition(node.kind())).and_then(|node| self.condition(&node))
    }

    fn condition(&mut self, node: &SyntaxNode) -> Option<Condition> {
        match node.kind() {
            SyntaxKind::OrCondition => self.parts(node).map(Condition::Or),
            SyntaxKind::AndCondition => self.parts(node).map(Condition::And),
            SyntaxKind::NotCondition => self.condition_in(node).map(|inner| Condition::Not(Box::new(inner))),
            SyntaxKind::ParenCondition => self.condition_in(node),
            _ => self.test(node),
        }
    }

    /// The parts of a joined condition. Parses all of them even after an error, so that all errors are reported.
    fn parts(&mut self, node: &SyntaxNode) -> Option<Vec<Condition>> {
        let parts: Vec<Option<Condition>> = node
            .children()
            .filter(|part| is_condition(part.kind()))
            .map(|part| self.condition(&part))
            .collect();
        parts.into_iter().collect()
    }

    /// A single test as a row; `port` is a port of the NIC if a name follows, else a source port or a destination port.
    fn test(&mut self, node: &SyntaxNode) -> Option<Condition> {
        let row = Match::default();
        let keyword = first_word(node)?;
        if let Some(value) = of_sender(keyword.text(), node) {
            let span = span_of(node.text_range());
            self.of_sender.get_or_insert(Spanned { value, span });
        }
        let row = match keyword.text() {
            "any" => row,
            "tcp" => Match { protocol: Some(Protocol::TCP), ..row },
            "udp" => Match { protocol: Some(Protocol::UDP), ..row },
            "sctp" => Match { protocol: Some(Protocol::SCTP), ..row },
            "icmp" => Match { protocol: Some(Protocol::ICMP), ..row },
            "icmpv6" => Match { protocol: Some(Protocol::ICMPV6), ..row },
            "cgroup" => Match { cgroup: Some(self.cgroup(node)?), ..row },
            "port" if token_of(node, SyntaxKind::Text).is_some() => {
                Match { port: Some(self.port(node)?.0), ..row }
            }
            "user" if token_of(node, SyntaxKind::Text).is_some() => {
                one_value(Attribute::User, self.user(node)?.into())
            }
            "process" => one_value(Attribute::Process, self.process(node)?.number()),
            other => return self.valued_test(other, node),
        };
        Some(Condition::Row(row))
    }

    /// A test that has a value.
    fn valued_test(&mut self, keyword: &str, node: &SyntaxNode) -> Option<Condition> {
        let row = Match::default();
        let value = value_of(node)?;
        let (text, span) = (value.value.as_str(), value.span);
        let row = match keyword {
            "protocol" => Match { protocol: Some(self.keep(values::protocol(text, span))?), ..row },
            "sport" => Match { sport: Some(self.keep(values::ports(text, span))?), ..row },
            "dport" => Match { dport: Some(self.keep(values::ports(text, span))?), ..row },
            "port" => return self.keep(values::ports(text, span)).map(either_port),
            "from" => Match { src: Some(self.prefix(text, span)?), ..row },
            "to" => Match { dst: Some(self.prefix(text, span)?), ..row },
            "mark" => Match { mark: Some(self.keep(values::mark(text, span))?), ..row },
            "priority" => Match { priority: Some(self.priority(text, span)?), ..row },
            other => {
                let attribute = Attribute::named(other)?;
                one_value(attribute, self.keep(values::attribute(attribute, text, span))?)
            }
        };
        Some(Condition::Row(row))
    }

    /// The number of the user whose name follows in quotes.
    fn user(&mut self, node: &SyntaxNode) -> Option<u32> {
        let quotes = token_of(node, SyntaxKind::Text)?;
        let span = span_of(quotes.text_range());
        match self.users {
            None => Some(0),
            Some(users) => self.keep(values::user(quotes.text(), span, users)),
        }
    }

    /// The name of a process that follows in quotes.
    fn process(&mut self, node: &SyntaxNode) -> Option<ProcessName> {
        let quotes = token_of(node, SyntaxKind::Text)?;
        let span = span_of(quotes.text_range());
        self.keep(values::process(quotes.text(), span))
    }

    /// A priority. Reports once that any process may set most priorities.
    fn priority(&mut self, text: &str, span: Span) -> Option<u32> {
        let priority = self.keep(values::priority(text, span))?;
        if priority <= PRIORITY_OF_ALL {
            let message =
                format!("any program may set priority {priority} on its packets, and so choose this class");
            let help = "priorities from 7 up need CAP_NET_ADMIN, marks CAP_NET_ADMIN or CAP_NET_RAW; a program cannot choose its cgroup";
            self.find_once(Code::AnyonesPriority, span, message, help);
        }
        Some(priority)
    }

    /// The number of the cgroup that a test names.
    fn cgroup(&mut self, node: &SyntaxNode) -> Option<u8> {
        let quotes = token_of(node, SyntaxKind::Text)?;
        let span = span_of(quotes.text_range());
        let path = self.keep(values::cgroup(quotes.text(), span))?;
        if let Some(known) = self.policy.cgroups.iter().position(|known| *known == path) {
            return u8::try_from(known).ok();
        }
        if self.policy.cgroups.len() >= CGROUPS_MAX {
            let message = format!("the rules name more than {CGROUPS_MAX} cgroups");
            self.find_once(Code::TooManyCgroups, span, message, "name a common parent of several cgroups");
            return None;
        }
        self.policy.cgroups.push(path);
        u8::try_from(self.policy.cgroups.len() - 1).ok()
    }

    /// The number, from 1, of the port of the NIC that a test or a limit names, and the place of its name.
    pub(super) fn port(&mut self, node: &SyntaxNode) -> Option<(u16, Span)> {
        let quotes = token_of(node, SyntaxKind::Text)?;
        let span = span_of(quotes.text_range());
        let name = self.keep(values::port_name(quotes.text(), span))?;
        let number = port_number(&mut self.policy.ports, &name);
        if number.is_none() {
            let message = format!("the rules name more than {PORTS_MAX} ports");
            self.find_once(Code::TooManyPorts, span, message, "test the addresses of several ports together");
        }
        number.map(|number| (number, span))
    }
}

/// The words for a test of what belongs to the sender of a packet on this host, or to its direction; `None` for others.
fn of_sender(keyword: &str, node: &SyntaxNode) -> Option<&'static str> {
    Some(match keyword {
        "cgroup" => "the cgroup of the sender",
        "user" => "the user of the sender",
        "classid" => "the net_cls group of the sender",
        "mark" => "the mark of the socket",
        "priority" => "the priority of the socket",
        "cookie" => "the cookie of the socket",
        "process" => "the process of the sender",
        "dscp" => "the DSCP of packets sent",
        "ecn" => "the ECN of packets sent",
        "pcp" => "the priority in the VLAN tag of packets sent",
        "port" if token_of(node, SyntaxKind::Text).is_some() => "the port at which a packet leaves",
        _ => return None,
    })
}

/// The test of an attribute.
fn one_value(attribute: Attribute, value: u128) -> Match {
    Match { attributes: AttributeTests::one(attribute, value), ..Match::default() }
}

/// `port P`: the source port or the destination port.
fn either_port(ports: PortRange) -> Condition {
    let row = Match::default();
    Condition::Or(vec![
        Condition::Row(Match { sport: Some(ports), ..row.clone() }),
        Condition::Row(Match { dport: Some(ports), ..row }),
    ])
}

fn is_condition(kind: SyntaxKind) -> bool {
    use SyntaxKind::*;
    matches!(kind, OrCondition | AndCondition | NotCondition | ParenCondition | Test)
}
