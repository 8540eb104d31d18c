//! The size check of a policy's match table. [`weft_titan::match_table`] has the rows themselves.

use weft_policy::CompiledPolicy;
use weft_titan::match_table::{CGROUPS, RULES};
pub use weft_titan::match_table::{RULE_BYTES, encode};

/// Errors of a policy that exceeds the port's match table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The policy has too many rows.
    #[error(
        "the policy compiles to {given} match rows, and a port holds at most {RULES}; merge classes or prefixes"
    )]
    Rules {
        /// The number of rows.
        given: usize,
    },
    /// The policy has too many cgroups.
    #[error("the policy names {given} cgroups, and a port holds at most {CGROUPS}")]
    Cgroups {
        /// The number of cgroups.
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
