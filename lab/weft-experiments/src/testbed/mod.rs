//! Namespaces and links of tests, HTB as a peer, and the kernel's counts of waits for a core.

pub(crate) mod cpu_times;
pub(crate) mod htb;
#[cfg(test)]
pub(crate) mod pair;
pub(crate) mod schedstat;
