//! Experiments: one description, run on real packets or in virtual time, and compared with what was published.

pub mod bench_assignment;
pub mod bench_engine;
pub mod bench_port;
pub mod bench_sim;
pub mod demo;
pub mod experiment;
mod experiment_files;
mod iperf;
pub mod kernel_tcp;
pub mod overlay;
pub mod reproduce;
mod schedstat;
pub mod simulate;
pub mod steer;
pub mod titan;
