//! Conditions in disjunctive form: alternatives, each a row of tests with exceptions.
//!
//! A row ([`Match`]) is a conjunction of tests and cannot negate. `not` therefore becomes an exception of a row, which
//! `rows` resolves by the order of rows. An exception for ports is different if the packets certainly have ports: the row is
//! split into the ranges around it, which needs fewer rows.

use crate::budget::{Budget, Exhausted};
use crate::lowering::model::Condition;
use weft_packet::{Intersection, Match, PortRange};

/// The most rows of the classification table, and the most of the destination table. A new flow's cost does not grow with them, but
/// the time to compile and to load a policy does: this many take about a second.
pub const ROWS_MAX: usize = 16_384;
/// The most rows and exceptions of all alternatives of one condition together.
pub(crate) const SIZE_MAX: usize = ROWS_MAX;
/// The most rows and exceptions that an `and` may make of fewer, and the most exceptions of one alternative. An `and` multiplies the
/// alternatives of its parts, and an `or` only adds them.
const PRODUCT_MAX: usize = 512;
/// The most pairs of alternatives that one `and` joins, most of which may be empty: about a tenth of a second.
const PAIRS_MAX: usize = 1 << 20;

/// An alternative: the packets that match `row` and no row of `except`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) row: Match,
    pub(crate) except: Vec<Match>,
}

/// Whether a condition or its complement is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sense {
    Plain,
    Negated,
}

impl Sense {
    const fn inverse(self) -> Self {
        match self {
            Self::Plain => Self::Negated,
            Self::Negated => Self::Plain,
        }
    }
}

/// The reason why a condition has no rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TermError {
    /// It has more than [`SIZE_MAX`] rows and exceptions.
    TooLarge,
    /// It joins an absolute and a relative cgroup path.
    CgroupsNotComparable,
    /// The compilation has no steps left.
    TooMuchWork,
}

impl From<Exhausted> for TermError {
    fn from(_: Exhausted) -> Self {
        Self::TooMuchWork
    }
}

/// The cgroups of a policy, to which rows refer by number, and the steps of comparing rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cgroups<'a> {
    pub(crate) paths: &'a [String],
    pub(crate) budget: &'a Budget,
}

impl Cgroups<'_> {
    fn path(&self, number: u8) -> &str {
        self.paths.get(usize::from(number)).map_or("", String::as_str)
    }

    /// Whether every process in `inner` is also in `outer`.
    fn holds(&self, outer: u8, inner: u8) -> bool {
        let (outer, inner) = (self.path(outer), self.path(inner));
        outer == "/" || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// `a` and `b` with both cgroups set to the deeper one if one is below the other. `None` if no packet matches both: a
    /// process is in one cgroup only.
    fn align(&self, a: &Match, b: &Match) -> Result<Option<(Match, Match)>, TermError> {
        let (mut a, mut b) = (a.clone(), b.clone());
        if let (Some(one), Some(other)) = (a.cgroup, b.cgroup) {
            let deeper = if self.holds(one, other) {
                other
            } else if self.holds(other, one) {
                one
            } else if self.path(one).starts_with('/') == self.path(other).starts_with('/') {
                return Ok(None);
            } else {
                return Err(TermError::CgroupsNotComparable);
            };
            (a.cgroup, b.cgroup) = (Some(deeper), Some(deeper));
        }
        Ok(Some((a, b)))
    }

    /// The intersection of two rows; `None` if it is empty.
    pub(crate) fn meet(&self, a: &Match, b: &Match) -> Result<Option<Match>, TermError> {
        self.budget.spend(2)?;
        // Rows that are disjoint in other fields need no comparison of cgroups.
        let bare = |row: &Match| Match { cgroup: None, ..row.clone() };
        if bare(a).intersect(&bare(b)) == Intersection::Empty {
            return Ok(None);
        }
        let Some((a, b)) = self.align(a, b)? else { return Ok(None) };
        match a.intersect(&b) {
            Intersection::Empty => Ok(None),
            Intersection::Row(row) => Ok(Some(row)),
            Intersection::NotARow => Err(TermError::CgroupsNotComparable),
        }
    }

    /// Whether `outer` matches every packet that `inner` matches. Sound, but not complete.
    pub(crate) fn covers(&self, outer: &Match, inner: &Match) -> bool {
        // A caller that compares many checks the budget, too.
        let _ = self.budget.spend(1);
        match (outer.cgroup, inner.cgroup) {
            (Some(wide), Some(narrow)) if self.holds(wide, narrow) => {
                outer.covers(&Match { cgroup: outer.cgroup, ..inner.clone() })
            }
            _ => outer.covers(inner),
        }
    }
}

/// The alternatives of `condition`; empty if no packet can match.
pub(crate) fn terms(condition: &Condition, cgroups: Cgroups<'_>) -> Result<Vec<Term>, TermError> {
    let mut terms = expand(condition, Sense::Plain, cgroups)?;
    for term in &mut terms {
        tidy(term, cgroups)?;
    }
    let mut split = Vec::with_capacity(terms.len());
    for term in terms {
        let first = split.len();
        split_ports(term, &mut split, cgroups.budget)?;
        let pieces = &mut split[first..];
        if pieces.len() > 1 {
            pieces.iter_mut().try_for_each(|piece| tidy(piece, cgroups))?;
        }
    }
    split.retain(|term| !term.except.iter().any(|except| cgroups.covers(except, &term.row)));
    Ok(split)
}

fn expand(condition: &Condition, sense: Sense, cgroups: Cgroups<'_>) -> Result<Vec<Term>, TermError> {
    cgroups.budget.spend(1)?;
    match condition {
        Condition::Row(row) if sense == Sense::Plain => {
            Ok(vec![Term { row: row.clone(), except: Vec::new() }])
        }
        Condition::Row(row) => Ok(vec![Term { row: Match::default(), except: vec![row.clone()] }]),
        Condition::Not(inner) => expand(inner, sense.inverse(), cgroups),
        Condition::And(parts) if sense == Sense::Negated => match all_except(condition, cgroups) {
            _ if cgroups.budget.is_exhausted() => Err(TermError::TooMuchWork),
            Some(term) => Ok(vec![term]),
            None => union(parts, sense, cgroups),
        },
        Condition::And(parts) => product(parts, sense, cgroups),
        Condition::Or(parts) if sense == Sense::Negated => product(parts, sense, cgroups),
        Condition::Or(parts) => union(parts, sense, cgroups),
    }
}

/// `not condition` as a single alternative, for a condition that contains no `not`.
fn all_except(condition: &Condition, cgroups: Cgroups<'_>) -> Option<Term> {
    if has_not(condition) {
        return None;
    }
    let inner = expand(condition, Sense::Plain, cgroups).ok()?;
    if inner.len() > PRODUCT_MAX {
        return None;
    }
    let except = inner.into_iter().map(|term| term.row).collect();
    Some(Term { row: Match::default(), except })
}

fn has_not(condition: &Condition) -> bool {
    match condition {
        Condition::Row(_) => false,
        Condition::Not(_) => true,
        Condition::And(parts) | Condition::Or(parts) => parts.iter().any(has_not),
    }
}

fn union(parts: &[Condition], sense: Sense, cgroups: Cgroups<'_>) -> Result<Vec<Term>, TermError> {
    let mut all = Vec::new();
    let mut total = 0;
    for part in parts {
        let more = expand(part, sense, cgroups)?;
        total += size(&more);
        if total > SIZE_MAX {
            return Err(TermError::TooLarge);
        }
        all.extend(more);
    }
    Ok(all)
}

fn product(parts: &[Condition], sense: Sense, cgroups: Cgroups<'_>) -> Result<Vec<Term>, TermError> {
    let mut all = vec![Term { row: Match::default(), except: Vec::new() }];
    for part in parts {
        let next = expand(part, sense, cgroups)?;
        if all.len().saturating_mul(next.len()) > PAIRS_MAX {
            return Err(TermError::TooLarge);
        }
        let most = PRODUCT_MAX.max(size(&all)).max(size(&next));
        let mut joined = Vec::with_capacity(all.len());
        let mut total = 0;
        for a in &all {
            for b in &next {
                let Some(row) = cgroups.meet(&a.row, &b.row)? else { continue };
                cgroups.budget.spend(a.except.len() * b.except.len())?;
                let mut except = a.except.clone();
                except.extend(b.except.iter().filter(|new| !a.except.contains(new)).cloned());
                total += 1 + except.len();
                if total > most || except.len() > PRODUCT_MAX {
                    return Err(TermError::TooLarge);
                }
                joined.push(Term { row, except });
            }
        }
        all = joined;
    }
    Ok(all)
}

fn size(terms: &[Term]) -> usize {
    terms.iter().map(|term| 1 + term.except.len()).sum()
}

/// Removes exceptions that exclude nothing or that another exception covers.
fn tidy(term: &mut Term, cgroups: Cgroups<'_>) -> Result<(), TermError> {
    let mut kept: Vec<Match> = Vec::with_capacity(term.except.len());
    for except in &term.except {
        if cgroups.meet(except, &term.row)?.is_none() || kept.iter().any(|k| cgroups.covers(k, except)) {
            continue;
        }
        kept.retain(|k| !cgroups.covers(except, k));
        kept.push(except.clone());
    }
    term.except = kept;
    Ok(())
}

/// Splits the row around every exception that excludes only ports, if the packets certainly have a five-tuple.
fn split_ports(term: Term, out: &mut Vec<Term>, budget: &Budget) -> Result<(), TermError> {
    let mut todo = vec![term];
    let mut size = 0;
    while let Some(mut term) = todo.pop() {
        budget.spend(1 + term.except.len())?;
        let split =
            term.except.iter().enumerate().find_map(|(i, e)| only_ports(&term.row, e).map(|f| (i, f)));
        let Some((number, port)) = split else {
            size += 1 + term.except.len();
            out.push(term);
            if out.len() > SIZE_MAX || size > SIZE_MAX {
                return Err(TermError::TooLarge);
            }
            continue;
        };
        let except = term.except.swap_remove(number);
        let (range, hole) = match port {
            Port::Source => (term.row.sport, except.sport),
            Port::Destination => (term.row.dport, except.dport),
        };
        for part in around(range, hole) {
            let mut piece = term.clone();
            match port {
                Port::Source => piece.row.sport = Some(part),
                Port::Destination => piece.row.dport = Some(part),
            }
            todo.push(piece);
        }
        if todo.len() > PRODUCT_MAX {
            return Err(TermError::TooLarge);
        }
    }
    Ok(())
}

/// One of the two ports of a five-tuple.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Source,
    Destination,
}

/// The port that alone decides what `except` excludes from `row`, if there is one.
fn only_ports(row: &Match, except: &Match) -> Option<Port> {
    if !row.tests_key() {
        return None;
    }
    let no_source = Match { sport: None, ..except.clone() };
    let no_destination = Match { dport: None, ..except.clone() };
    if except.sport.is_some() && no_source.covers(row) {
        Some(Port::Source)
    } else if except.dport.is_some() && no_destination.covers(row) {
        Some(Port::Destination)
    } else {
        None
    }
}

/// The parts of `range` (all ports if `None`) below and above `hole`.
fn around(range: Option<PortRange>, hole: Option<PortRange>) -> Vec<PortRange> {
    let range = range.unwrap_or(PortRange { first: 0, last: u16::MAX });
    let Some(hole) = hole else { return Vec::new() };
    let below =
        hole.first.checked_sub(1).map(|last| PortRange { first: range.first, last: last.min(range.last) });
    let above =
        hole.last.checked_add(1).map(|first| PortRange { first: first.max(range.first), last: range.last });
    [below, above].into_iter().flatten().filter(|part| part.first <= part.last).collect()
}
