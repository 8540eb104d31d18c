//! The crate's tests of its public interface, in one program.

mod algorithms;
mod arithmetic;
mod ebpf;
mod form;
