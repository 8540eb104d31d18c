//! The work of a compilation, counted in steps: rows compared, pairs of alternatives joined, limits passed. The count depends on the
//! texts alone, and not on the machine.

use core::cell::Cell;

/// A number of steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Steps(pub u64);

impl Steps {
    /// The most for a policy that its operator loads: about a second. Ten thousand classes by port need a hundredth of it.
    pub const WHOLE: Self = Self(1 << 24);
    /// The most for what others add to a policy, or ask about: some hundredths of a second.
    pub const SMALL: Self = Self(1 << 20);

    /// These and `more`, at most [`WHOLE`](Self::WHOLE).
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0)).min(Self::WHOLE)
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

/// The steps of a compilation.
#[derive(Debug)]
pub(crate) struct Budget {
    most: Steps,
    used: Cell<u64>,
}

impl Budget {
    pub(crate) fn new(most: Steps) -> Self {
        Self { most, used: Cell::new(0) }
    }

    pub(crate) fn most(&self) -> Steps {
        self.most
    }

    pub(crate) fn used(&self) -> Steps {
        Steps(self.used.get())
    }

    /// Counts steps.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), Exhausted> {
        self.used.set(self.used.get().saturating_add(steps as u64));
        if self.is_exhausted() { Err(Exhausted) } else { Ok(()) }
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.used() > self.most
    }
}
