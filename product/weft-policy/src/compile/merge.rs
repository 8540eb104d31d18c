//! The model of a tenant's file as a part of the model that names the tenant.

use crate::algorithm::uses::Use;
use crate::code::Code;
use crate::compiled::DEFAULT;
use crate::diagnostic::SpannedDiagnostic;
use crate::disciplines::Children::{Ordered, Weighted};
use crate::disciplines::Native;
use crate::lowering::conditions::CGROUPS_MAX;
use crate::lowering::model::{
    Child, ClassDefinition, ClassRole, Condition, Expression, NodeDefinition, PORTS_MAX, Policy, Spanned,
    TenantDefinition, name_below, port_number,
};
use crate::lowering::visit::Visit;
use crate::program::limits_all;
use crate::region::Region;
use crate::validate::graph::ROOT;
use weft_packet::Match;
use weft_text::{Span, quoted};
use weft_units::{Packets, Weight};

/// Moves all places by a number of bytes.
pub(super) struct Behind(pub(super) usize);

impl Visit for Behind {
    fn span(&mut self, span: &mut Span) {
        *span = span.behind(self.0);
    }
}

/// Puts `below`, the model of the tenant's file, in the place of its node in `above`.
pub(super) fn merge(
    above: &mut Policy,
    tenant: &TenantDefinition,
    mut below: Policy,
) -> Result<(), Box<SpannedDiagnostic>> {
    let name = &tenant.name.value;
    let stands = name_below(name, DEFAULT);
    let place = above.classes.iter().position(|class| class.name.value == stands);
    let Some(place) = place else { return Ok(()) };
    let ClassDefinition { condition, of_sender, .. } = above.classes.remove(place);
    let own = condition.unwrap_or_else(|| Condition::Row(Match::default()));
    let mut scope = Scope {
        tenant: name,
        cgroups: cgroups(above, &own, &below, tenant)?,
        ports: ports(above, &below, tenant)?,
        uses: above.uses.len(),
    };
    bounds(&mut below);
    below.visit(&mut scope);
    let rest = Spanned { value: stands, span: tenant.name.span };
    let mut classes: Vec<ClassDefinition> = below.classes;
    for class in &mut classes {
        restrict(class, &own);
        class.of_sender = of_sender.clone().or(class.of_sender.take());
    }
    classes.push(ClassDefinition { name: rest, condition: Some(own), of_sender, role: ClassRole::Rest });
    above.classes.splice(place..place, classes);
    let at = above.nodes.iter().position(|node| node.name.value == *name);
    let at = at.unwrap_or(above.nodes.len());
    above.nodes.splice(at..(at + 1).min(above.nodes.len()), below.nodes);
    above.class_bounds.extend(below.class_bounds);
    above.uses.extend(below.uses);
    Ok(())
}

fn node(name: Spanned<String>, expression: Expression) -> NodeDefinition {
    let span = name.span;
    NodeDefinition { name, expression: Spanned { value: expression, span } }
}

/// A file of a tenant that has none: all packets in one FIFO.
pub(super) fn without_file(tenant: &TenantDefinition) -> Policy {
    let root = Spanned { value: ROOT.to_owned(), span: tenant.name.span };
    Policy { nodes: vec![node(root, Expression::Name(DEFAULT.to_owned()))], ..Policy::default() }
}

/// Writes the place of `default` into the model: at the bottom of the root, as for the operator's policy.
pub(super) fn place_default(policy: &mut Policy) {
    let found = policy.nodes.iter().position(|node| node.name.value == ROOT);
    let at = found.unwrap_or_else(|| {
        // The root is a class, whose name stays its own.
        let root = policy.classes.iter().find(|class| class.name.value == ROOT);
        let span = root.map_or(Span::default(), |class| class.name.span);
        let name = Spanned { value: ROOT.to_owned(), span };
        policy.nodes.push(node(name, Expression::Name(CLASS_ROOT.to_owned())));
        policy.classes.iter_mut().filter(|class| class.name.value == ROOT).for_each(|class| {
            class.name.value = CLASS_ROOT.to_owned();
        });
        let bounds = policy.class_bounds.iter_mut().filter(|(class, _)| class.value == ROOT);
        bounds.for_each(|(class, _)| class.value = CLASS_ROOT.to_owned());
        policy.nodes.len() - 1
    });
    let (at, depth) = below_limits(policy, at);
    let mut place = &mut policy.nodes[at].expression;
    for _ in 0..depth {
        place = match &mut place.value {
            Expression::Limit(_, inner) => inner,
            Expression::Algorithm(_, children) if !children.is_empty() => &mut children[0].expression,
            _ => return,
        };
    }
    let span = place.span;
    let child =
        |weight| Child { expression: Spanned { value: Expression::Name(DEFAULT.to_owned()), span }, weight };
    match &mut place.value {
        Expression::Native(of, children) if of.has(Ordered) => children.push(child(None)),
        Expression::Native(of, children) if of.has(Weighted) => children.push(child(Some(Weight::ONE))),
        other => {
            let whole = core::mem::replace(other, Expression::Broken);
            let first = Child { expression: Spanned { value: whole, span }, weight: None };
            *other = Expression::Native(Native::Priority, vec![first, child(None)]);
        }
    }
}

/// The place below the limits at the start of node `root`, as for the operator's policy: a node, and the number of limits in its
/// expression above the place.
fn below_limits(policy: &Policy, root: usize) -> (usize, usize) {
    let (mut place, mut here) = ((root, 0), (root, 0));
    let mut expression = &policy.nodes[root].expression.value;
    // Names go in no circle: the file was checked.
    loop {
        let inner = match expression {
            Expression::Limit(branches, inner) if limits_all(branches) => inner,
            Expression::Algorithm(number, children)
                if policy.uses.get(*number).is_some_and(Use::shapes_all) && children.len() == 1 =>
            {
                &children[0].expression
            }
            Expression::Name(name) => {
                let Some(next) = policy.nodes.iter().position(|node| node.name.value == *name) else {
                    return place;
                };
                // A limit's child by its name; the name of the whole root leads on, but is no limit.
                place = if here == place && here != (root, 0) { (next, 0) } else { place };
                here = (next, 0);
                expression = &policy.nodes[next].expression.value;
                continue;
            }
            _ => return place,
        };
        here.1 += 1;
        place = here;
        expression = &inner.value;
    }
}

/// The name of a class `root` beside a node that takes its place as the root. No text has it.
const CLASS_ROOT: &str = "root#class";

/// Gives the bound of all classes to each class without a stated bound.
fn bounds(below: &mut Policy) {
    let Some(Spanned { value, span }) = below.bound.take() else { return };
    let bounded: std::collections::BTreeSet<String> =
        below.class_bounds.iter().map(|(class, _)| class.value.clone()).collect();
    let names = below.classes.iter().map(|class| class.name.value.as_str()).chain([DEFAULT]);
    let missing: Vec<(Spanned<String>, Packets)> = names
        .filter(|name| !bounded.contains(*name))
        .map(|name| (Spanned { value: name.to_owned(), span }, value))
        .collect();
    below.class_bounds.extend(missing);
}

/// Restricts a class to the packets of its tenant.
fn restrict(class: &mut ClassDefinition, own: &Condition) {
    let any = Condition::Row(Match::default());
    class.condition = class.condition.take().map(|condition| {
        if condition == any { own.clone() } else { Condition::And(vec![own.clone(), condition]) }
    });
}

/// The names and numbers of a tenant's file, outside it.
struct Scope<'a> {
    tenant: &'a str,
    /// The new numbers of cgroups and ports.
    cgroups: Vec<u8>,
    ports: Vec<u16>,
    /// The number of algorithms before.
    uses: usize,
}

impl Scope<'_> {
    fn port(&self, number: u16) -> u16 {
        let at = usize::from(number).checked_sub(1);
        at.and_then(|at| self.ports.get(at)).copied().unwrap_or(number)
    }
}

impl Visit for Scope<'_> {
    fn name(&mut self, name: &mut String) {
        *name = if name == ROOT { self.tenant.to_owned() } else { name_below(self.tenant, name) };
    }

    fn row(&mut self, row: &mut Match) {
        row.cgroup = row.cgroup.map(|old| self.cgroups.get(usize::from(old)).copied().unwrap_or(old));
        row.port = row.port.map(|old| self.port(old));
    }

    fn region(&mut self, region: &mut Region) {
        region.port = region.port.map(|old| self.port(old));
    }

    fn number(&mut self, number: &mut usize) {
        *number += self.uses;
    }
}

/// The cgroup to which a condition restricts packets: that of a test that all of them pass.
pub(super) fn cgroup_of<'a>(condition: &Condition, cgroups: &'a [String]) -> Option<&'a str> {
    match condition {
        Condition::Row(row) => cgroups.get(usize::from(row.cgroup?)).map(String::as_str),
        // The deepest one: the others hold it.
        Condition::And(parts) => {
            parts.iter().filter_map(|part| cgroup_of(part, cgroups)).max_by_key(|path| path.len())
        }
        Condition::Or(_) | Condition::Not(_) => None,
    }
}

/// The numbers in `above` of the cgroups of `below`, whose paths are relative to the tenant's.
fn cgroups(
    above: &mut Policy,
    own: &Condition,
    below: &Policy,
    tenant: &TenantDefinition,
) -> Result<Vec<u8>, Box<SpannedDiagnostic>> {
    let Some(first) = below.cgroups.first() else { return Ok(Vec::new()) };
    let refused = |code, message: String, help: &str| {
        let span = tenant.file.span;
        Err(Box::new(SpannedDiagnostic::new(code, span, message, help)))
    };
    let name = quoted(&tenant.name.value);
    let Some(base) = cgroup_of(own, &above.cgroups).map(str::to_owned) else {
        let message = format!("the file of {name} tests the cgroup {}, but {name} has none", quoted(first));
        let help =
            "cgroups of a tenant's file are relative to its own: restrict the tenant by `cgroup \"PATH\"`";
        return refused(Code::TenantWithoutCgroup, message, help);
    };
    let mut numbers = Vec::with_capacity(below.cgroups.len());
    for path in &below.cgroups {
        let path = joined(&base, path);
        let known = above.cgroups.iter().position(|known| *known == path);
        let number = known.unwrap_or(above.cgroups.len());
        if known.is_none() {
            if above.cgroups.len() >= CGROUPS_MAX {
                let message =
                    format!("with the file of {name}, the rules name more than {CGROUPS_MAX} cgroups");
                return refused(Code::TooManyCgroups, message, "name a common parent of several cgroups");
            }
            above.cgroups.push(path);
        }
        numbers.push(u8::try_from(number).unwrap_or(u8::MAX));
    }
    Ok(numbers)
}

/// `path`, relative to the cgroup `base`. A leading slash means the same: a tenant sees nothing above its own cgroup.
pub(super) fn joined(base: &str, path: &str) -> String {
    let path = path.trim_start_matches('/');
    match (base.trim_end_matches('/'), path) {
        (_, "") => base.to_owned(),
        ("", path) => format!("/{path}"),
        (base, path) => format!("{base}/{path}"),
    }
}

/// The numbers in `above` of the ports of `below`.
fn ports(
    above: &mut Policy,
    below: &Policy,
    tenant: &TenantDefinition,
) -> Result<Vec<u16>, Box<SpannedDiagnostic>> {
    let numbers = below.ports.iter().map(|name| port_number(&mut above.ports, name));
    numbers.collect::<Option<Vec<u16>>>().ok_or_else(|| {
        let message = format!(
            "with the file of {}, rules and limits name more than {PORTS_MAX} ports",
            quoted(&tenant.name.value)
        );
        let help = "test the addresses of several ports together";
        Box::new(SpannedDiagnostic::new(Code::TooManyPorts, tenant.file.span, message, help))
    })
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn cgroups_are_below_the_tenants() {
        for (base, path, expected) in [
            ("/vm1", "web", "/vm1/web"),
            ("/vm1", "/web", "/vm1/web"),
            ("/vm1", "/", "/vm1"),
            ("/", "web", "/web"),
            ("vm1", "a/b", "vm1/a/b"),
        ] {
            assert_eq!(joined(base, path), expected, "{base} and {path}");
        }
    }
}
