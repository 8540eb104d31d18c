//! The Titan papers' experiment on real packets (technical report, section 3 and Tables 3 and 5; ATC'17, Table 3).
//!
//! | module | content |
//! |---|---|
//! | [`settings`] | parameters of a run: Titan's mechanisms, flows, times |
//! | [`path`] | the interface to the NIC: namespaces, and a log of departures |
//! | [`nic`] | the path through the software NIC |
//! | [`figures`] | fairness and throughput from that log: pure functions |
//! | [`run`] | one run: iperf3's flows, pings, processor times, and the resulting figures |
//! | [`experiment`] | all runs interleaved, means and spreads, and the papers' claims |

pub mod error;
pub mod experiment;
pub mod figures;
pub mod nic;
pub mod path;
pub mod run;
pub mod settings;
mod traffic;

pub use weft_profile::ping::PingResults;
