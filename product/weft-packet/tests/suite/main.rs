//! The crate's tests of its public interface, in one program.

mod frames;
mod headers;
mod pcap;
mod segment;
