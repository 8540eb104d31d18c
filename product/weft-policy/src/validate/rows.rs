//! The classification table: the conditions of all classes, in the order of the file, become rows; the first match decides.

use super::row_index::RowIndex;
use super::terms::{Cgroups, ROWS_MAX, Term, TermError, terms};
use crate::budget::Budget;
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use crate::lowering::model::{ClassRole, Condition, Policy};
use std::collections::{BTreeMap, BTreeSet};
use weft_packet::Match;
use weft_text::{Span, quoted};

/// A row and the number of its class; the number of classes means `default`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClassRow {
    pub(crate) row: Match,
    pub(crate) class: usize,
    /// The class that makes the row necessary: its own, or the one in whose exception it is.
    pub(crate) cause: usize,
}

/// The reason why there is no table, and the class at which it was found.
struct Refused {
    error: TermError,
    class: usize,
}

/// The table of the policy's classes; its last row matches everything. The diagnostics report the errors.
pub(crate) fn table(policy: &Policy, budget: &Budget) -> (Vec<ClassRow>, Vec<SpannedDiagnostic>) {
    let cgroups = Cgroups { paths: &policy.cgroups, budget };
    let mut diagnostics = Vec::new();
    let mut alternatives: Vec<(Term, usize)> = Vec::new();
    let mut counts = vec![0; budget.payers()];
    for (number, class) in policy.classes.iter().enumerate() {
        let Some(condition) = &class.condition else { continue };
        let payer = budget.charge(number);
        // A tenant who is refused costs no more, and the others are looked at.
        if budget.is_tenant(payer) && (budget.is_exhausted() || counts[payer] > budget.rows(payer, ROWS_MAX))
        {
            continue;
        }
        match terms(condition, cgroups) {
            Ok(terms) => {
                if terms.is_empty() && !is_listed(policy, condition) {
                    diagnostics.push(never_true(&class.name.value, class.name.span));
                }
                counts[payer] += terms.len();
                alternatives.extend(terms.into_iter().map(|term| (term, number)));
            }
            Err(error) => diagnostics.push(refused(policy, &Refused { error, class: number }, budget)),
        }
        if budget.is_exhausted() && !budget.is_tenant(payer) {
            return (Vec::new(), diagnostics);
        }
        let most = budget.rows(payer, ROWS_MAX);
        if counts[payer] > most {
            diagnostics.push(too_many_rows(class.name.span, most));
            if !budget.is_tenant(payer) {
                return (Vec::new(), diagnostics);
            }
        }
    }
    let default = Term { row: Match::default(), except: Vec::new() };
    alternatives.push((default, policy.classes.len()));
    if diagnostics.iter().any(SpannedDiagnostic::is_error) {
        return (Vec::new(), diagnostics);
    }
    let mut table = Table {
        alternatives: &alternatives,
        cgroups,
        rows: Vec::new(),
        counts: vec![0; budget.payers()],
        indexes: (0..budget.payers()).map(|_| RowIndex::default()).collect(),
        refused: BTreeMap::new(),
    };
    let operators = table.decide(0, &Match::default(), None).err();
    if operators.is_none() && table.refused.is_empty() {
        diagnostics.extend(shadowed(policy, &table));
        return (table.rows, diagnostics);
    }
    for refusal in operators.into_iter().chain(table.refused.into_values()) {
        let payer = budget.charge(refusal.class);
        diagnostics.push(match refusal.error {
            TermError::TooLarge => {
                let at = policy.classes.get(refusal.class).or(policy.classes.last());
                let span = at.map_or(Span::default(), |class| class.name.span);
                too_many_rows(span, budget.rows(payer, ROWS_MAX))
            }
            TermError::CgroupsNotComparable | TermError::TooMuchWork => refused(policy, &refusal, budget),
        });
    }
    (Vec::new(), diagnostics)
}

/// Whether a class has no packets on purpose: `not any`, in a policy that steers, is a class whose flows the list of flows names.
fn is_listed(policy: &Policy, condition: &Condition) -> bool {
    !policy.goals.is_empty() && *condition == Condition::Not(Box::new(Condition::Row(Match::default())))
}

/// The table under construction.
struct Table<'a> {
    alternatives: &'a [(Term, usize)],
    cgroups: Cgroups<'a>,
    rows: Vec<ClassRow>,
    /// The number of rows that each one pays for.
    counts: Vec<usize>,
    /// The rows that each one pays for, to find those that cover a region. A tenant's are compared with the operator's and its own: what
    /// other tenants write costs it nothing, and of their rows the operator's has one for all of a tenant's packets.
    indexes: Vec<RowIndex>,
    /// The tenants that have used up what they may, by their numbers.
    refused: BTreeMap<usize, Refused>,
}

impl Table<'_> {
    /// Adds the rows that decide for every packet of `region`, using the alternatives from number `from` on. An exception
    /// of an alternative is a separate region: the alternatives after it decide it, and its rows come first. The last
    /// alternative matches everything, so every region is decided completely. The region is in an exception of class `cause`.
    fn decide(&mut self, from: usize, region: &Match, cause: Option<usize>) -> Result<(), Refused> {
        let budget = self.cgroups.budget;
        let payer = cause.map_or_else(|| budget.payers() - 1, |cause| budget.charge(cause));
        if self.covered(region, payer) {
            return Ok(());
        }
        for number in from..self.alternatives.len() {
            let cause = budget.cause(cause, self.alternatives[number].1);
            if self.refused.contains_key(&budget.charge(cause)) {
                continue;
            }
            match self.decide_by(number, region, cause) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(refused) => {
                    let payer = budget.charge(refused.class);
                    if !budget.is_tenant(payer) {
                        return Err(refused);
                    }
                    self.refused.entry(payer).or_insert(refused);
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of an alternative in `region`. Returns whether they decide for all of it.
    fn decide_by(&mut self, number: usize, region: &Match, cause: usize) -> Result<bool, Refused> {
        let (cgroups, alternatives) = (self.cgroups, self.alternatives);
        let (term, class) = &alternatives[number];
        let refused = |error| Refused { error, class: cause };
        let payer = cgroups.budget.charge(cause);
        let Some(row) = cgroups.meet(&term.row, region).map_err(refused)? else { return Ok(false) };
        if self.covered(&row, payer) || term.except.iter().any(|except| cgroups.covers(except, &row)) {
            return Ok(false);
        }
        for except in &term.except {
            if let Some(inner) = cgroups.meet(except, &row).map_err(refused)? {
                self.decide(number + 1, &inner, Some(cause))?;
                cgroups.budget.charge(cause);
            }
        }
        let decided = cgroups.covers(&row, region);
        if !self.covered(&row, payer) {
            self.indexes[payer].add(&row);
            self.counts[payer] += 1;
            self.rows.push(ClassRow { row, class: *class, cause });
        }
        if self.counts[payer] > cgroups.budget.rows(payer, ROWS_MAX) {
            return Err(refused(TermError::TooLarge));
        }
        Ok(decided)
    }

    /// Whether an earlier row of the operator's or of `payer` covers `row`.
    fn covered(&mut self, row: &Match, payer: usize) -> bool {
        let operator = self.indexes.len() - 1;
        let own = (payer != operator).then(|| &self.indexes[payer]);
        [Some(&self.indexes[operator]), own].into_iter().flatten().any(|index| {
            // The next comparison of the table checks the budget.
            let _ = self.cgroups.budget.spend(index.shapes());
            index.covers(row, self.cgroups)
        })
    }
}

/// Warnings for classes that match packets but have no row.
fn shadowed(policy: &Policy, table: &Table<'_>) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    let has_rows: BTreeSet<usize> = table.rows.iter().map(|row| row.class).collect();
    for (number, class) in policy.classes.iter().enumerate() {
        // What a tenant's file does not classify may be nothing, like `default`.
        if has_rows.contains(&number) || class.role == ClassRole::Rest {
            continue;
        }
        let mine: Vec<&Term> =
            table.alternatives.iter().filter(|(_, owner)| *owner == number).map(|(term, _)| term).collect();
        if mine.is_empty() {
            continue;
        }
        // Who takes them is said where there are steps left to find it.
        let has_steps = |_: &&(Term, usize)| !table.cgroups.budget.is_exhausted();
        let before = table.alternatives.iter().take_while(|(_, owner)| *owner < number).take_while(has_steps);
        let taker = before
            .filter(|(term, _)| term.except.is_empty())
            .find(|(term, _)| mine.iter().all(|own| table.cgroups.covers(&term.row, &own.row)))
            .and_then(|(_, owner)| policy.classes.get(*owner));
        let by = match taker {
            Some(taker) => format!("{} before it takes them all", quoted(&taker.name.value)),
            None => "the classes before it take them all".to_owned(),
        };
        let message = format!("the class {} never gets a packet: {by}", quoted(&class.name.value));
        let help = "the first class that matches takes a packet: move the narrower class up";
        diagnostics.push(SpannedDiagnostic::new(Code::ClassShadowed, class.name.span, message, help));
    }
    diagnostics
}

fn never_true(name: &str, span: Span) -> SpannedDiagnostic {
    let message = format!("no packet can pass all tests of the class {}", quoted(name));
    SpannedDiagnostic::new(
        Code::NeverTrue,
        span,
        message,
        "check for tests joined by `and` that exclude each other",
    )
}

/// The diagnostic for a classification table or a destination table with more than [`ROWS_MAX`] rows, or with more than the `most` that
/// a tenant's file may have.
pub(crate) fn too_many_rows(span: Span, most: usize) -> SpannedDiagnostic {
    if most < ROWS_MAX {
        let message = format!(
            "with this class, the file needs more than {most} rows, which is the quota `rows` of its tenant"
        );
        let help = "test fewer combinations, or ask the operator for more: all tenants share the table, and `rows N` in the braces of \
                    the tenant is what one of them may have";
        return SpannedDiagnostic::new(Code::OverQuota, span, message, help);
    }
    let message = format!("with this class, the match table needs more than {ROWS_MAX} rows");
    let help = "a `not` of fields other than ports repeats the classes after it: put the excluded packets into a class \
                of their own before this one; each class below limits by destination needs a row for each destination";
    SpannedDiagnostic::new(Code::TooManyRows, span, message, help)
}

/// The diagnostic for a policy whose compilation has no steps left at the class `name`.
pub(crate) fn too_much_work(name: &str, span: Span, budget: &Budget) -> SpannedDiagnostic {
    let most = budget.most().0;
    let message = format!(
        "this policy needs more than {most} steps to compile, which are used up at the class {}",
        quoted(name)
    );
    let help = "combine fewer alternatives by `and` and `not`, or write classes of their own; what root loads may need more \
                steps than what other users ask about";
    SpannedDiagnostic::new(Code::TooMuchWork, span, message, help)
}

fn refused(policy: &Policy, refused: &Refused, budget: &Budget) -> SpannedDiagnostic {
    let (name, span) = match policy.classes.get(refused.class) {
        Some(class) => (class.name.value.as_str(), class.name.span),
        None => (super::build::DEFAULT, Span::default()),
    };
    match refused.error {
        TermError::TooMuchWork => too_much_work(name, span, budget),
        TermError::TooLarge => {
            let message =
                format!("the condition of {} has too many alternatives and exceptions", quoted(name));
            let help = "split it into several classes, or test fewer combinations";
            SpannedDiagnostic::new(Code::PredicateTooLarge, span, message, help)
        }
        TermError::CgroupsNotComparable => {
            let message = format!(
                "the rows of {} would test a cgroup path from the root and one from the run's own cgroup together",
                quoted(name)
            );
            let help = "begin all paths with `/`, or none";
            SpannedDiagnostic::new(Code::CgroupsNotComparable, span, message, help)
        }
    }
}
