//! Scheduling algorithms as machine code, by Cranelift.
//!
//! [`compile`] compiles all algorithms of a policy into one module, and each [`Compiled`] is an [`Execute`] for its engine. The
//! memory of the module is returned when the last of them is dropped, so a generation of a policy leaves nothing behind.
//!
//! Some hosts deny executable memory to a process that wrote it. [`compile`] then returns [`CompileError::ExecutableMemory`];
//! [`compile_or_interpret`] takes the interpreter instead, which gives equal results, and says why.

mod arithmetic;
mod code;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod guard;
mod lower;
mod split;

pub use code::Compiled;
#[cfg(any(test, feature = "fuzz"))]
pub use fuzz::fuzz_rank;

use std::sync::Arc;
use thiserror::Error;
use weft_rank::{Algorithm, AlgorithmError, Execute, Kind, Part, ProgramBuilder};

/// The reason why there is no machine code.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The kernel refused memory for machine code: as memory-deny-write-execute does (systemd's `MemoryDenyWriteExecute=`,
    /// prctl's `PR_SET_MDWE`), a filter of system calls, or a security module.
    #[error(
        "the kernel refused executable memory ({answer}); algorithms are interpreted. Allow it by \
         MemoryDenyWriteExecute=no in the service's unit, or by the system call filter"
    )]
    ExecutableMemory {
        /// The kernel's answer.
        answer: String,
    },
    /// Cranelift has no code for this processor.
    #[error("no machine code for this processor: {reason}; algorithms are interpreted")]
    Processor {
        /// Cranelift's reason.
        reason: String,
    },
    /// An algorithm that cannot run.
    #[error("algorithm `{name}`: {error}")]
    Algorithm {
        /// The algorithm.
        name: String,
        /// The fault.
        error: AlgorithmError,
    },
    /// A program that Cranelift refused, which is a defect of the compiler here.
    #[error("algorithm `{name}`, part `{part}`: {reason}; algorithms are interpreted")]
    Program {
        /// The algorithm.
        name: String,
        /// The part.
        part: Part,
        /// Cranelift's reason.
        reason: String,
    },
}

/// Compiles algorithms into one module of machine code. The results are in the order of the algorithms.
pub fn compile(algorithms: &[Arc<Algorithm>]) -> Result<Vec<Compiled>, CompileError> {
    for algorithm in algorithms {
        let wrong = |error| CompileError::Algorithm { name: algorithm.name.clone(), error };
        algorithm.validate().map_err(wrong)?;
    }
    code::compile(algorithms)
}

/// Executors of algorithms, and the reason why they are not machine code.
pub struct Executors {
    /// An executor for each algorithm, in their order.
    pub executors: Vec<Arc<dyn Execute>>,
    /// The reason why the interpreter runs them; `None` if machine code does.
    pub interpreted: Option<CompileError>,
}

/// Compiles algorithms, or takes the interpreter if that fails.
pub fn compile_or_interpret(algorithms: &[Arc<Algorithm>]) -> Executors {
    match compile(algorithms) {
        Ok(compiled) => {
            let executor = |compiled| Arc::new(compiled) as Arc<dyn Execute>;
            Executors { executors: compiled.into_iter().map(executor).collect(), interpreted: None }
        }
        Err(error) => {
            let executor = |algorithm: &Arc<Algorithm>| Arc::clone(algorithm) as Arc<dyn Execute>;
            Executors { executors: algorithms.iter().map(executor).collect(), interpreted: Some(error) }
        }
    }
}

/// Tries whether this process can have machine code, by compiling a program of one operation.
pub fn probe() -> Result<(), CompileError> {
    let mut builder = ProgramBuilder::new(Part::Rank);
    let zero = builder.constant(0);
    builder.rank_pair(zero, zero);
    let mut algorithm = Algorithm::new("probe", Kind::Algorithm);
    algorithm.parts.rank = builder.build().ok();
    compile(&[Arc::new(algorithm)]).map(drop)
}
