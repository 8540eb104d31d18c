//! Whether a policy's match table fits the port. The rows themselves are those of [`weft_titan::match_table`].

use weft_policy::CompiledPolicy;
use weft_titan::match_table::{CGROUPS, RULES};
pub use weft_titan::match_table::{RULE_BYTES, encode};

/// Why a policy does not fit the port's match table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// Too many rows.
    #[error(
        "the policy compiles to {given} match rows, and a port holds at most {RULES}; merge classes or prefixes"
    )]
    Rules {
        /// How many there are.
        given: usize,
    },
    /// Too many cgroups.
    #[error("the policy names {given} cgroups, and a port holds at most {CGROUPS}")]
    Cgroups {
        /// How many there are.
        given: usize,
    },
}

/// Checks that the policy's table fits.
///
/// # Errors
/// When it has too many rows or names too many cgroups.
pub fn check(policy: &CompiledPolicy) -> Result<(), TableError> {
    if policy.rules.len() > RULES {
        return Err(TableError::Rules { given: policy.rules.len() });
    }
    if policy.cgroups.len() > CGROUPS {
        return Err(TableError::Cgroups { given: policy.cgroups.len() });
    }
    Ok(())
}
