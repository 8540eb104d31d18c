//! Machine code for a policy's algorithms, where this program was built with it and the kernel allows it.
//!
//! It takes the place of the interpreter and gives the same results in every bit, so a caller may continue without it.

use crate::CompiledPolicy;
use thiserror::Error;

/// The reasons why algorithms are interpreted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoMachineCode {
    /// The program does not contain the compiler.
    #[error("this program was built without machine code (feature `jit`); algorithms are interpreted")]
    NotBuilt,
    /// The compiler or the kernel refused.
    #[cfg(feature = "jit")]
    #[error(transparent)]
    Refused(#[from] weft_rank_cranelift::CompileError),
}

/// Tries whether this process can have machine code.
///
/// # Errors
/// When it cannot.
pub fn probe() -> Result<(), NoMachineCode> {
    compiler::probe()
}

impl CompiledPolicy {
    /// Compiles the policy's algorithms to machine code, which then runs in place of the interpreter. All of them make one
    /// module, whose memory is returned with the last copy of the policy and the last engine that runs it.
    ///
    /// # Errors
    /// When there is no machine code; the algorithms are then interpreted. A policy without algorithms has no error.
    pub fn compile_algorithms(&mut self) -> Result<(), NoMachineCode> {
        let algorithms = self.program.algorithms();
        if algorithms.is_empty() {
            return Ok(());
        }
        self.program.run_by(|_| None);
        let executors = compiler::compile(&algorithms)?;
        self.program.run_by(|algorithm| {
            let at = algorithms.iter().position(|known| **known == *algorithm)?;
            executors.get(at).cloned()
        });
        Ok(())
    }
}

#[cfg(feature = "jit")]
mod compiler {
    use super::NoMachineCode;
    use std::sync::Arc;
    use weft_rank::{Algorithm, Execute};

    pub(super) fn probe() -> Result<(), NoMachineCode> {
        weft_rank_cranelift::probe().map_err(NoMachineCode::from)
    }

    /// Executors of algorithms, in their order.
    pub(super) fn compile(algorithms: &[Arc<Algorithm>]) -> Result<Vec<Arc<dyn Execute>>, NoMachineCode> {
        let compiled = weft_rank_cranelift::compile(algorithms)?;
        Ok(compiled.into_iter().map(|compiled| Arc::new(compiled) as Arc<dyn Execute>).collect())
    }
}

#[cfg(not(feature = "jit"))]
mod compiler {
    use super::NoMachineCode;
    use std::sync::Arc;
    use weft_rank::{Algorithm, Execute};

    pub(super) fn probe() -> Result<(), NoMachineCode> {
        Err(NoMachineCode::NotBuilt)
    }

    pub(super) fn compile(_: &[Arc<Algorithm>]) -> Result<Vec<Arc<dyn Execute>>, NoMachineCode> {
        Err(NoMachineCode::NotBuilt)
    }
}
