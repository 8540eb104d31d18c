//! The crate's tests of its public interface, in one program.

mod bpf;
mod cleanup;
mod doctor;
mod ethtool;
mod gso;
mod htb;
mod links;
mod namespaces;
mod programs;
mod sock_diag;
mod tap;
mod tbf;
mod tc;
mod tc_filter;
mod transmit;
