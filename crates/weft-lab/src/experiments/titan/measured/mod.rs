//! The Titan papers' experiment on real packets (technical report, section 3 and Tables 3 and 5; ATC'17, Table 3).
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what a run is: which of Titan's parts, how many flows, how long |
//! | [`path`] | the seam to the NIC: namespaces, and a log of what left when |
//! | [`nic`] | the path through the software NIC |
//! | [`figures`] | fairness and throughput from that log: pure functions |
//! | [`run`] | one run: iperf3's flows, pings, processors, and what came of them |
//! | [`experiment`] | all runs in turns, means and spreads, and what they say of the papers' claims |

pub mod experiment;
pub mod figures;
mod latency;
pub mod nic;
pub mod path;
mod processors;
pub mod run;
pub mod settings;
mod traffic;

pub use latency::RoundTrips;
