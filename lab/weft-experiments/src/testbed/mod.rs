//! Namespaces and links of tests, and the kernel's counts of waits for a core.

#[cfg(test)]
pub(crate) mod pair;
pub(crate) mod schedstat;
