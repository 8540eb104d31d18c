//! The papers' shuffle on real packets (technical report, section 7 and Figure 7): every server opens a connection to every
//! other and transfers as much, and it matters how far apart a server's flows complete.
//!
//! | module | what |
//! |---|---|
//! | `settings` | what a run is |
//! | `testbed` | servers: namespaces with a multiqueue NIC each, and a switch between them |
//! | `transfer` | the connections, and when each has delivered all |
//! | `run` | one run, with the NICs' accounting |
//! | `experiment` | `titan-shuffle`: all runs, cells, plots, claims |

pub mod experiment;
pub mod run;
pub mod settings;
mod testbed;
mod transfer;

#[cfg(test)]
mod tests;
