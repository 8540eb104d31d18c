//! Tenants: each file is read and checked alone, its quotas are compared with its use, and its model becomes a part of that above it.
//!
//! In a file that is checked alone, a tenant is a node over one class, so nothing that holds for the file depends on those below it. What
//! a tenant's file says therefore never makes the file above it wrong, but for the bounds that all share: cgroups, ports, rows, levels.

use super::merge::{Behind, cgroup_of, joined, merge, place_default, without_file};
use super::shared::{SharedNames, Sharer};
use super::{DefaultPlace, Pass, default_place};
use crate::code::Code;
use crate::compiled::DEFAULT;
use crate::diagnostic::SpannedDiagnostic;
use crate::files::{FileError, FileText, Tenant, Wanted};
use crate::lowering::model::{Policy, Spanned, TenantDefinition, name_below};
use crate::lowering::visit::Visit;
use crate::program::BOUND_DEFAULT;
use crate::validate::graph::{Graph, Kind};
use crate::validate::{algorithms, build};
use std::collections::BTreeSet;
use std::rc::Rc;
use weft_rank::Metadatum;
use weft_text::{LineIndex, Span, quoted};
use weft_units::Packets;

/// The most levels of tenants below the operator: tenants, their applications, and those below them.
const DEPTH_MAX: usize = 4;
/// The most tenants of a policy, on all levels.
const TENANTS_MAX: usize = 1024;

/// A file on the way to the one that is being read.
struct Above<'a> {
    above: Option<&'a Above<'a>>,
    /// The file's name in diagnostics.
    name: Rc<str>,
    text: Rc<str>,
    /// The tenant whose file it is, with a dot behind it; empty for the operator's.
    prefix: String,
    /// The cgroup to which the tenant is restricted.
    cgroup: Option<String>,
    depth: usize,
    /// The most packets of a class that may wait.
    most: Packets,
    /// The number of the tenant whose file it is.
    number: Option<usize>,
    /// The most cgroups and ports that it may name, with those below it.
    names: (u64, u64),
    /// The most classes and nodes that it may have, with those below it.
    nodes: usize,
}

impl Above<'_> {
    /// The names of the files from `file` down to this one; empty if it is not among them.
    fn down_from(&self, file: &FileText) -> Vec<Rc<str>> {
        let mut names = self.above.map_or_else(Vec::new, |above| above.down_from(file));
        // Texts that were given to a daemon may have one name.
        if !names.is_empty() || (*self.name == *file.name && *self.text == *file.text) {
            names.push(Rc::clone(&self.name));
        }
        names
    }
}

impl Pass<'_> {
    /// The model of the operator's text with those of its tenants. Returns `None` if one of them has an error.
    pub(super) fn with_tenants(&mut self, mut policy: Policy, readable: bool) -> Option<Policy> {
        let lines = self.lines;
        let own = self.texts.get(0).map(|of| (Rc::clone(&of.name), Rc::clone(&of.text)));
        let (name, text) = own.unwrap_or_else(|| ("".into(), "".into()));
        self.check_alone(&mut policy, readable, lines);
        let most = policy.bound.as_ref().map_or(BOUND_DEFAULT, |bound| bound.value);
        let (number, names) = (None, SharedNames::WHOLE);
        let here = Above {
            above: None,
            name,
            text,
            prefix: String::new(),
            cgroup: None,
            depth: 0,
            most,
            number,
            names,
            nodes: build::NODES_MAX,
        };
        self.put_below(&mut policy, &here);
        (!self.failed()).then_some(policy)
    }

    /// Puts the models of the tenants' files in their places.
    fn put_below(&mut self, policy: &mut Policy, here: &Above<'_>) {
        let tenants = core::mem::take(&mut policy.tenants);
        let names = self.share_names(policy, &tenants, here.names);
        let nodes = here.nodes.saturating_sub(nodes_of(policy).len()).checked_div(tenants.len()).unwrap_or(0);
        for (at, tenant) in tenants.into_iter().enumerate() {
            if self.tenants.len() >= TENANTS_MAX {
                let message = format!("the policy has more than {TENANTS_MAX} tenants");
                self.find(
                    Code::TooManyTenants,
                    tenant.name.span,
                    message,
                    "let one tenant stand for several",
                );
                return;
            }
            let cgroup = match (&here.cgroup, cgroup_base(policy, &tenant)) {
                (Some(above), Some(own)) => Some(joined(above, own)),
                (above, own) => own.map(str::to_owned).or_else(|| above.clone()),
            };
            let name = format!("{}{}", here.prefix, tenant.name.value);
            let number = self.tenants.len();
            let quotas = tenant.quotas.unused();
            self.tenants.push(Tenant { name: name.clone(), cgroup, file: None, quotas });
            let own_name = Spanned { value: name.clone(), span: tenant.name.span };
            let stated = tenant.quotas.counts.clone();
            self.sharers.push(Sharer { above: here.number, name: own_name, stated });
            let before = self.diagnostics.len();
            // A model with an error is not put in its place, but other files may have errors, too.
            if let Some(mut below) = self.model_of(&tenant, &name, number, here, (names.most(at), nodes))
                && self.check_nodes(&tenant, &mut below, nodes)
                && self.check_names_added(
                    number,
                    &below,
                    &names,
                    names.most(at),
                    cgroup_base(policy, &tenant),
                )
                && !self.failed()
                && let Err(refused) = merge(policy, &tenant, below)
            {
                self.diagnostics.push(*refused);
            }
            self.blame(number, before);
        }
    }

    /// The model of a tenant's file with those below it; `None` if it has an error.
    fn model_of(
        &mut self,
        tenant: &TenantDefinition,
        name: &str,
        number: usize,
        here: &Above<'_>,
        (names, nodes): ((u64, u64), usize),
    ) -> Option<Policy> {
        let file = match self.file_of(tenant, name, here)? {
            Some(file) => file,
            None => return Some(without_file(tenant)),
        };
        let at = self.texts.add(&file.name, &file.text);
        self.tenant_reads(number, at);
        if let Some(slot) = self.tenants.get_mut(number) {
            slot.file = Some(file);
        }
        let of = self.texts.get(at)?.clone();
        let (before, errors) = (self.diagnostics.len(), self.errors());
        let (mut policy, readable) = self.read(&of.text);
        let default = self.check_alone(&mut policy, readable, &LineIndex::new(&of.text));
        self.check_statements(&policy, here.most);
        let found = self.diagnostics.split_off(before);
        self.diagnostics.extend(found.into_iter().map(|diagnostic| diagnostic.behind(of.base)));
        policy.visit(&mut Behind(of.base));
        let most = policy.bound.as_ref().map_or(here.most, |bound| bound.value.min(here.most));
        let prefix = format!("{name}.");
        let cgroup = self.tenants.get(number).and_then(|of| of.cgroup.clone());
        let depth = here.depth + 1;
        let below = Above {
            above: Some(here),
            name: of.name,
            text: of.text,
            prefix,
            cgroup,
            depth,
            most,
            number: Some(number),
            names,
            nodes,
        };
        self.put_below(&mut policy, &below);
        if self.errors() > errors {
            return None;
        }
        if default == Some(DefaultPlace::ByCompiler) {
            place_default(&mut policy);
        }
        let quotas = self.check_quotas(&mut policy, tenant, most);
        if let Some(slot) = self.tenants.get_mut(number) {
            slot.quotas = quotas;
        }
        Some(policy)
    }

    /// Compares the classes and nodes of a tenant's file and of those below it with the tenant's part. Returns whether they are within.
    fn check_nodes(&mut self, tenant: &TenantDefinition, below: &mut Policy, most: usize) -> bool {
        let nodes = nodes_of(below);
        let Some(place) = nodes.get(most) else { return true };
        let (name, used) = (quoted(&tenant.name.value), nodes.len());
        let message = format!("the file of {name} has {used} classes and nodes, and {name} may have {most}");
        let help = "let one class stand for several: all tenants share what the operator's file leaves";
        self.find(Code::OverQuota, *place, message, help);
        false
    }

    /// The file of a tenant: the outer `None` if it cannot be had, the inner one if the tenant has none.
    fn file_of(
        &mut self,
        tenant: &TenantDefinition,
        name: &str,
        here: &Above<'_>,
    ) -> Option<Option<FileText>> {
        let (path, span) = (&tenant.file.value, tenant.file.span);
        let outside = path.starts_with('/') || path.split('/').any(|part| part == "..");
        if here.depth > 0 && outside {
            let message = format!("{} is not below the folder of the tenant's file", quoted(path));
            let help = "a tenant's file names files beside it or below it";
            self.find(Code::BadTenantFile, span, message, help);
            return None;
        }
        if here.depth >= DEPTH_MAX {
            let message = format!("{} is more than {DEPTH_MAX} levels below the operator", quoted(name));
            self.find(Code::TooManyTenants, span, message, "write its classes into the file that names it");
            return None;
        }
        let read = self.files.read(Wanted { tenant: name, path, named_in: &here.name });
        match read {
            Ok(file) => {
                let circle = here.down_from(&file);
                if circle.is_empty() {
                    return Some(Some(file));
                }
                let files = circle.iter().map(|name| &**name).chain([file.name.as_str()]);
                let files: Vec<String> = files.map(quoted).collect();
                let message = format!("files of tenants go in a circle: {}", files.join(" names "));
                let help = "a file cannot be its own tenant; name another";
                self.find(Code::TenantCircle, span, message, help);
                None
            }
            Err(FileError::Missing(missing)) => {
                let message = format!("{} has no file: there is no {}", quoted(name), quoted(&missing));
                let help = "its packets share one FIFO until there is one";
                self.find(Code::TenantWithoutFile, span, message, help);
                Some(None)
            }
            Err(FileError::Unreadable(reason)) => {
                let message = format!("the file of {} cannot be read: {reason}", quoted(name));
                self.find(Code::BadTenantFile, span, message, "a file that is not there is a FIFO");
                None
            }
        }
    }

    /// Checks a file alone, with a queue in the place of each tenant. Returns who has placed `default`, if the file has a tree.
    fn check_alone(
        &mut self,
        policy: &mut Policy,
        readable: bool,
        lines: &LineIndex<'_>,
    ) -> Option<DefaultPlace> {
        self.check_names(policy);
        let (mut graph, diagnostics) = build::build(policy, readable, lines);
        self.diagnostics.extend(diagnostics);
        self.check_bounds(policy, &graph);
        let (shape, default) = self.check_graph(&mut graph, &policy.uses, None)?;
        if default == DefaultPlace::ByCompiler {
            self.diagnostics.extend(default_place::outside(policy, &graph, lines.text()));
        }
        self.diagnostics.extend(algorithms::check(&graph, &shape, &policy.uses));
        self.check_claims(policy, &graph);
        Some(default)
    }

    /// Reports names that begin with a tenant's.
    fn check_names(&mut self, policy: &mut Policy) {
        if policy.tenants.is_empty() {
            return;
        }
        let tenants = policy.tenants.iter().map(|of| of.name.value.clone()).collect();
        let own =
            policy.tenants.iter().map(|of| (name_below(&of.name.value, DEFAULT), of.name.span)).collect();
        let mut names = Names { tenants, own, last: None, found: Vec::new() };
        policy.visit(&mut names);
        for (name, tenant, span) in names.found {
            let message = format!("{} belongs to the file of the tenant {}", quoted(&name), quoted(&tenant));
            let help = "what is below a tenant is defined and used in its file only; choose another name";
            self.find(Code::TenantsName, span, message, help);
        }
    }

    /// Reports statements of a tenant's file that are not the tenant's.
    fn check_statements(&mut self, policy: &Policy, most: Packets) {
        if let Some(link) = &policy.link {
            let help = "a tenant has what the tree above it leaves; to send less, write a limit";
            self.find(Code::OperatorsOnly, link.span, "the link's rate is the operator's", help);
        }
        for (class, _) in &policy.class_latencies {
            let message = "a latency shortens the chunks of other tenants: only the operator may ask for one";
            self.find(Code::OperatorsOnly, class.span, message, "leave it out");
        }
        for goal in &policy.goals {
            let message = "a tenant does not steer: the receive queues of the NIC are shared by all tenants";
            let help = "the operator's policy names the tenant's classes, such as `steer isolate vm1.web on 2 queues`";
            self.find(Code::OperatorsOnly, goal.span, message, help);
        }
        let common = policy.bound.iter().map(|bound| (bound.span, bound.value));
        let bounds = common.chain(policy.class_bounds.iter().map(|(class, bound)| (class.span, *bound)));
        for (span, bound) in bounds.filter(|(_, bound)| *bound > most) {
            let message = format!("a bound of {bound} packets is above that of the operator, {most}");
            self.find(Code::OperatorsOnly, span, message, "a tenant's bound can only be lower");
        }
    }

    /// Reports algorithms that order tenants by what the tenants' packets claim.
    fn check_claims(&mut self, policy: &Policy, graph: &Graph) {
        let doubted: BTreeSet<usize> = policy
            .tenants
            .iter()
            .filter(|tenant| tenant.trust.is_none())
            .filter_map(|tenant| graph.names.get(&tenant.name.value).copied())
            .collect();
        for (at, node) in graph.nodes.iter().enumerate() {
            let Kind::Algorithm(number) = node.kind else { continue };
            let Some(used) = policy.uses.get(number) else { continue };
            let Some(algorithm) = used.algorithm.as_ref() else { continue };
            // One that holds or drops acts on what is below it only.
            if doubted.is_empty() || algorithm.kind != weft_rank::Kind::Algorithm {
                continue;
            }
            let Some(claim) = algorithm.program.reads().into_iter().find(|of| is_claim(*of)) else {
                continue;
            };
            let Some(tenant) = graph.below(at).into_iter().find(|node| doubted.contains(node)) else {
                continue;
            };
            let (name, tenant) = (quoted(&used.name.value), quoted(&graph.nodes[tenant].name));
            let message = format!("{name} orders {tenant} by what its packets claim: {}", words(claim));
            let help = "order tenants by `wfq` or `priority`, or write `trust` in the braces of the tenant";
            self.find(Code::ClaimsAbove, used.name.span, message, help);
        }
    }

    pub(super) fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.diagnostics.push(SpannedDiagnostic::new(code, span, message, help));
    }
}

/// The places of the classes and nodes of a policy, also of those without names.
fn nodes_of(policy: &mut Policy) -> Vec<Span> {
    let (graph, _) = build::build(policy, true, &LineIndex::new(""));
    let of_graph: Vec<Span> = graph.nodes.iter().map(|node| node.span).collect();
    if !of_graph.is_empty() {
        return of_graph;
    }
    // More than a graph may have.
    let classes = policy.classes.iter().map(|class| class.name.span);
    classes.chain(policy.nodes.iter().map(|node| node.name.span)).collect()
}

/// The cgroup to which the condition of a tenant in `policy` restricts it.
fn cgroup_base<'p>(policy: &'p Policy, tenant: &TenantDefinition) -> Option<&'p str> {
    let stands = name_below(&tenant.name.value, DEFAULT);
    let class = policy.classes.iter().find(|class| class.name.value == stands)?;
    cgroup_of(class.condition.as_ref()?, &policy.cgroups)
}

/// Whether a packet's sender claims it, and nothing measures it.
fn is_claim(metadatum: Metadatum) -> bool {
    !matches!(metadatum, Metadatum::Length | Metadatum::Arrived)
}

fn words(claim: Metadatum) -> &'static str {
    match claim {
        Metadatum::Length => "the length",
        Metadatum::Arrived => "the arrival",
        Metadatum::Deadline => "the deadline",
        Metadatum::Slack => "the slack",
        Metadatum::Left => "the bytes left",
        Metadatum::Late => "the lateness",
        Metadatum::Priority => "the priority",
        Metadatum::SendTime => "the time to send",
        Metadatum::Pace => "the pace",
    }
}

/// A search for names that begin with that of a tenant.
struct Names {
    tenants: BTreeSet<String>,
    /// The classes that represent tenants, which the compiler has named, and their places.
    own: BTreeSet<(String, Span)>,
    /// A name whose place comes next.
    last: Option<(String, String)>,
    found: Vec<(String, String, Span)>,
}

impl Visit for Names {
    fn name(&mut self, name: &mut String) {
        let begins = name.match_indices('.').map(|(dot, _)| &name[..dot]);
        let tenant = begins.into_iter().find(|first| self.tenants.contains(*first)).map(str::to_owned);
        self.last = tenant.map(|tenant| (name.clone(), tenant));
    }

    fn span(&mut self, span: &mut Span) {
        if let Some((name, tenant)) = self.last.take()
            && !self.own.contains(&(name.clone(), *span))
        {
            self.found.push((name, tenant, *span));
        }
    }
}
