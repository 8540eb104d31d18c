//! The papers' shuffle on real packets (technical report, section 7 and Figure 7): every server opens a connection to
//! every other and transfers the same amount. The result is the time between a server's first and last completion.
//!
//! | module | content |
//! |---|---|
//! | `settings` | parameters of a run |
//! | `testbed` | servers: namespaces with a multiqueue NIC each, and a switch between them |
//! | `transfer` | the connections, and their completion times |
//! | `run` | one run, with the NICs' accounting |
//! | `experiment` | `titan-shuffle`: all runs, cells, plots, claims |

pub mod error;
pub mod experiment;
pub mod run;
pub mod settings;
mod testbed;
mod transfer;

#[cfg(test)]
mod tests;
