//! Experiments: one description, run on real packets or in virtual time, and compared with what was published.
//!
//! | module | what it holds |
//! |---|---|
//! | [`experiments`] | experiments on this machine, by paper |
//! | [`traffic`] | senders and receivers: iperf3, flows that come and go, flows whose order is checked |
//! | `testbed` | namespaces and links of tests, HTB, waits for a core |
//! | [`catalogue`] | the files of experiments, and changes to them |
//! | [`simulate`] | `weft sim`: runs of scenarios, and their records |
//! | [`reproduce`] | `weft reproduce`: runs, cells, scores and claims beside what was published |
//! | [`predict`] | `weft profile predict`: simulated from fitted costs beside measured |
//! | [`tune`] | `weft tune`: candidates for a host's settings, simulated, ranked, and tried with real traffic |
//! | [`mod@bench`] | benchmarks beside peers |

pub mod bench;
pub mod catalogue;
pub mod experiments;
pub mod predict;
pub mod reproduce;
pub mod simulate;
mod testbed;
pub mod traffic;
pub mod tune;
