//! Modules of machine code: making them, calling into them, and returning their memory.

use crate::{CompileError, lower};
use cranelift_codegen::ir::{AbiParam, ArgumentPurpose, Signature, UserFuncName};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, ModuleError, default_libcall_names};
use std::sync::{Arc, Mutex, PoisonError};
use weft_rank::program::Words;
use weft_rank::{Algorithm, Effects, Execute, Inputs, Part, Program};

/// A compiled program: reads the inputs, the parameters and the state, writes the state, and returns the effects. They are words in memory
/// that the caller names, so nothing is copied afterwards.
///
/// # Safety
/// The pointers are to inputs and to as many words as the algorithm's programs use; the code is still there.
type Entry = unsafe extern "C" fn(*const Inputs, *const u64, *mut u64, *mut u64) -> Effects;

const PARTS: usize = Part::ALL.len();

/// An algorithm as machine code.
pub struct Compiled {
    algorithm: Arc<Algorithm>,
    entries: [Option<Entry>; PARTS],
    /// The words that the programs read or write; with shorter slices the interpreter runs.
    words: Words,
    /// Keeps the memory of `entries`.
    _code: Arc<Code>,
}

impl Execute for Compiled {
    #[inline]
    fn run(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects {
        let Some(entry) = self.entries[part.index()] else { return Effects::NONE };
        let Words { node: in_node, child: in_child, parameters: in_parameters } = self.words;
        if parameters.len() < in_parameters || node.len() < in_node || child.len() < in_child {
            return self.interpret(part, inputs, parameters, node, child);
        }
        // SAFETY: `entry` is the code of a program of `self.algorithm`, and `self._code` keeps its memory. The code reads `inputs`, and reads
        // and writes the words below `self.words` of the slices, which are at least as long; the exclusive references exclude
        // that any of them overlap.
        unsafe { entry(inputs, parameters.as_ptr(), node.as_mut_ptr(), child.as_mut_ptr()) }
    }
}

impl Compiled {
    /// The algorithm.
    pub fn algorithm(&self) -> &Arc<Algorithm> {
        &self.algorithm
    }

    #[cold]
    fn interpret(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects {
        Execute::run(&*self.algorithm, part, inputs, parameters, node, child)
    }
}

/// The memory of a module. It is `None` only while it is dropped.
struct Code(Mutex<Option<JITModule>>);

impl Drop for Code {
    fn drop(&mut self) {
        let module = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(module) = module {
            // SAFETY: the functions of the module are called by `Compiled` only, and each of them holds an `Arc` of this value. The last
            // one is gone, so none runs and none will.
            unsafe { module.free_memory() };
        }
    }
}

/// Compiles valid algorithms into one module.
pub(crate) fn compile(algorithms: &[Arc<Algorithm>]) -> Result<Vec<Compiled>, CompileError> {
    let mut code = Code(Mutex::new(Some(module()?)));
    let slot = code.0.get_mut().unwrap_or_else(PoisonError::into_inner);
    let Some(module) = slot.as_mut() else { return Ok(Vec::new()) };
    let defined: Vec<_> =
        algorithms.iter().map(|algorithm| define_all(module, algorithm)).collect::<Result<_, _>>()?;
    module.finalize_definitions().map_err(memory)?;
    let entries: Vec<_> =
        defined.into_iter().map(|functions| functions.map(|id| id.map(|id| entry(module, id)))).collect();
    let code = Arc::new(code);
    let compiled = |(algorithm, entries): (&Arc<Algorithm>, _)| Compiled {
        algorithm: Arc::clone(algorithm),
        entries,
        words: words(algorithm),
        _code: Arc::clone(&code),
    };
    Ok(algorithms.iter().zip(entries).map(compiled).collect())
}

/// The code of a finished function.
fn entry(module: &JITModule, id: FuncId) -> Entry {
    let address = module.get_finalized_function(id);
    // SAFETY: `define` gave the function the signature of `Entry` in the calling convention of this processor and system, which is the
    // one that `extern "C"` means. The address is that of its finished code.
    unsafe { std::mem::transmute::<*const u8, Entry>(address) }
}

/// The greatest need of all programs.
fn words(algorithm: &Algorithm) -> Words {
    algorithm.parts.iter().map(Program::words).fold(Words::default(), |most, one| Words {
        node: most.node.max(one.node),
        child: most.child.max(one.child),
        parameters: most.parameters.max(one.parameters),
    })
}

/// An empty module for this processor.
fn module() -> Result<JITModule, CompileError> {
    let processor = |reason: String| CompileError::Processor { reason };
    let mut flags = settings::builder();
    let options = [("opt_level", "speed"), ("use_colocated_libcalls", "false"), ("is_pic", "false")];
    for (name, value) in options {
        flags.set(name, value).map_err(|error| processor(error.to_string()))?;
    }
    let builder = cranelift_native::builder().map_err(|reason| processor(reason.to_owned()))?;
    let isa = builder.finish(settings::Flags::new(flags)).map_err(|error| processor(error.to_string()))?;
    Ok(JITModule::new(JITBuilder::with_isa(isa, default_libcall_names())))
}

/// Everything that a finished module asks of the kernel is memory.
fn memory(error: ModuleError) -> CompileError {
    let answer = match error {
        ModuleError::Allocation { err } => err.to_string(),
        ModuleError::Backend(error) => format!("{error:#}"),
        other => other.to_string(),
    };
    CompileError::ExecutableMemory { answer }
}

/// Defines a function for each program of an algorithm.
fn define_all(
    module: &mut JITModule,
    algorithm: &Algorithm,
) -> Result<[Option<FuncId>; PARTS], CompileError> {
    let mut functions = [None; PARTS];
    for program in algorithm.parts.iter() {
        let part = program.part();
        let id = define(module, program).map_err(|error| match *error {
            ModuleError::Allocation { .. } => memory(*error),
            other => {
                CompileError::Program { name: algorithm.name.clone(), part, reason: format!("{other:?}") }
            }
        })?;
        functions[part.index()] = Some(id);
    }
    Ok(functions)
}

fn define(module: &mut JITModule, program: &Program) -> Result<FuncId, Box<ModuleError>> {
    let pointer = module.target_config().pointer_type();
    let effects = AbiParam::special(pointer, ArgumentPurpose::StructReturn);
    let [inputs, parameters, node, child] = [AbiParam::new(pointer); 4];
    let params = vec![effects, inputs, parameters, node, child];
    let signature = Signature { params, ..module.make_signature() };
    let id = module.declare_anonymous_function(&signature).map_err(Box::new)?;
    let mut context = module.make_context();
    context.func.signature = signature;
    context.func.name = UserFuncName::user(0, id.as_u32());
    lower::lower(program, &mut context.func, &mut FunctionBuilderContext::new(), module.target_config());
    module.define_function(id, &mut context).map_err(Box::new)?;
    Ok(id)
}
