//! The work of a compilation, counted in steps: rows compared, pairs of alternatives joined, limits passed. The count depends on the
//! texts alone, and not on the machine.
//!
//! The steps for the classes of a tenant's file are the tenant's. Each tenant has the same number of them, whatever others use.

use core::cell::Cell;

/// A number of steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Steps(pub u64);

impl Steps {
    /// The most for a policy that its operator loads: about a second. Ten thousand classes by port need a hundredth of it. The files
    /// of all its tenants together may need as many.
    pub const WHOLE: Self = Self(1 << 24);
    /// The most for what others add to a policy, or ask about: some hundredths of a second. A tenant's file never has more.
    pub const SMALL: Self = Self(1 << 20);

    /// These and `more`, at most those of a policy with all its tenants.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0)).min(Self(2 * Self::WHOLE.0))
    }

    /// The steps of one of `tenants` tenants.
    const fn of_tenant(tenants: usize) -> Self {
        let part = match Self::WHOLE.0.checked_div(tenants as u64) {
            Some(part) => part,
            None => Self::SMALL.0,
        };
        Self(if part < Self::SMALL.0 { part } else { Self::SMALL.0 })
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// All steps are used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Exhausted;

/// The tenants to whose files classes belong.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The tenant whose file describes a class; `None` for the operator's. What a file does not classify is described by the one above.
    pub(crate) of_class: Vec<Option<usize>>,
    /// The tenant whose file has a class in its tree.
    pub(crate) in_tree: Vec<Option<usize>>,
    /// The tenant above each tenant.
    pub(crate) above: Vec<Option<usize>>,
    /// The most rows of each tenant in each table.
    pub(crate) rows: Vec<usize>,
}

impl Owners {
    /// Whether what `inner` owns counts for `outer`, too.
    pub(crate) fn is_within(&self, inner: Option<usize>, outer: Option<usize>) -> bool {
        core::iter::successors(Some(inner), |at| at.map(|at| self.above.get(at).copied().flatten()))
            .any(|at| at == outer)
    }

    /// The class that makes a row of `class` necessary where an exception of class `cause` is decided.
    fn cause(&self, cause: Option<usize>, class: usize) -> usize {
        let owner = |class: usize| self.of_class.get(class).copied().flatten();
        match cause {
            Some(cause) if !self.is_within(owner(class), owner(cause)) => cause,
            _ => class,
        }
    }

    /// The tenant directly below the operator who pays for `owner`.
    fn payer(&self, owner: Option<usize>) -> Option<usize> {
        core::iter::successors(owner, |at| self.above.get(*at).copied().flatten()).last()
    }

    /// The number of tenants directly below the operator.
    fn tenants(&self) -> usize {
        self.above.iter().filter(|above| above.is_none()).count()
    }
}

/// The steps of a compilation.
#[derive(Debug)]
pub(crate) struct Budget {
    most: Steps,
    owners: Owners,
    of_tenant: Steps,
    /// The steps of each tenant directly below the operator; the operator's are last.
    used: Vec<Cell<u64>>,
    /// The one whose steps are counted.
    spender: Cell<usize>,
    whole: Cell<u64>,
}

impl Budget {
    pub(crate) fn new(most: Steps) -> Self {
        Self::shared(most, Owners::default())
    }

    /// Steps for a policy with tenants; `most` is for the operator's part.
    pub(crate) fn shared(most: Steps, owners: Owners) -> Self {
        let operator = owners.above.len();
        let (used, spender) = (vec![Cell::new(0); operator + 1], Cell::new(operator));
        let of_tenant = Steps::of_tenant(owners.tenants()).min(most);
        Self { most, owners, of_tenant, used, spender, whole: Cell::new(0) }
    }

    /// The most steps of the one whose steps are counted.
    pub(crate) fn most(&self) -> Steps {
        if self.is_tenant(self.spender.get()) { self.of_tenant } else { self.most }
    }

    /// The steps so far.
    pub(crate) fn used(&self) -> Steps {
        Steps(self.whole.get())
    }

    /// Counts steps from now on for the one who describes `class`. Returns its number, a tenant's or the operator's, which is above all of theirs.
    pub(crate) fn charge(&self, class: usize) -> usize {
        self.charge_to(self.owners.of_class.get(class).copied().flatten())
    }

    /// As [`Self::charge`], for the one who has `class` in its tree.
    pub(crate) fn charge_tree(&self, class: usize) -> usize {
        self.charge_to(self.owners.in_tree.get(class).copied().flatten())
    }

    fn charge_to(&self, owner: Option<usize>) -> usize {
        let payer = self.owners.payer(owner).unwrap_or(self.owners.above.len());
        self.spender.set(payer);
        payer
    }

    /// The class that makes a row of `class` necessary where an exception of class `cause` is decided: one who writes an exception pays
    /// for it, also where others' classes decide it.
    pub(crate) fn cause(&self, cause: Option<usize>, class: usize) -> usize {
        self.owners.cause(cause, class)
    }

    /// Whether this number is a tenant's.
    pub(crate) fn is_tenant(&self, payer: usize) -> bool {
        payer < self.owners.above.len()
    }

    /// The number of those who may pay.
    pub(crate) fn payers(&self) -> usize {
        self.used.len()
    }

    /// The most rows of `payer` in each table; `most` are the operator's.
    pub(crate) fn rows(&self, payer: usize, most: usize) -> usize {
        self.owners.rows.get(payer).copied().unwrap_or(most)
    }

    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Counts steps.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), Exhausted> {
        let used = &self.used[self.spender.get()];
        used.set(used.get().saturating_add(steps as u64));
        self.whole.set(self.whole.get().saturating_add(steps as u64));
        if self.is_exhausted() { Err(Exhausted) } else { Ok(()) }
    }

    /// Whether the one whose steps are counted has none left. Where a caller has fewer than an operator, all together count, too.
    pub(crate) fn is_exhausted(&self) -> bool {
        let all = self.most < Steps::WHOLE && self.used() > self.most;
        all || Steps(self.used[self.spender.get()].get()) > self.most()
    }
}
