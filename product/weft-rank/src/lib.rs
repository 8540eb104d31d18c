//! Scheduling algorithms as straight-line programs that every executor runs with equal results.
//!
//! * An [`Algorithm`] has state per node and per child, parameters, and a [`Program`] for each of its [`Parts`].
//! * A [`Program`] is a list of [`Operation`]s in single-assignment form, without branches and calls, with [`Effect`]s
//!   at its end. [`ProgramBuilder`] makes one; [`Program::new`] checks one from elsewhere.
//! * [`Program::run`] is the interpreter and the reference: it defines the meaning of a program. What is lowered
//!   to eBPF agrees with it in every bit.
//! * [`Execute`] is the interface through which an engine runs an algorithm, by whatever executor.
//! * [`arithmetic`] has the rules of all operations: they saturate, and division by zero is defined.
//!
//! Nothing here reads a clock, allocates while a program runs, or can panic on a program or on its inputs.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod arithmetic;
pub mod builder;
pub mod ebpf;
pub mod effects;
pub mod execute;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
#[doc(hidden)]
pub mod generate;
pub mod inputs;
pub mod operation;
pub mod part;
pub mod program;
pub mod samples;

mod interpreter;

pub use algorithm::{Aggregates, Algorithm, AlgorithmError, Cost, Field, Kind, Parts, Reading};
pub use arithmetic::Scale;
pub use builder::ProgramBuilder;
pub use effects::{Effects, Eligibility, Rank, Until};
pub use execute::Execute;
#[cfg(any(test, feature = "fuzz"))]
pub use fuzz::fuzz_rank;
pub use inputs::{Inputs, Metadata, Place};
pub use operation::{Binary, Effect, Input, Metadatum, Operation, Product, RankWord, Slot, Value};
pub use part::Part;
pub use program::{Program, ProgramError};
