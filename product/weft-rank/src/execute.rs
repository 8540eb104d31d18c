//! The interface between an engine and what runs an algorithm.

use crate::algorithm::Algorithm;
use crate::effects::Effects;
use crate::inputs::Inputs;
use crate::part::Part;

/// Something that runs an algorithm. An engine holds it as `Arc<dyn Execute>`.
///
/// All executors of an algorithm agree with [`Program::run`](crate::Program::run) in the effects and in every word of state.
pub trait Execute: Send + Sync {
    /// Runs the program of `part`. A part that the algorithm does not have changes nothing and has no effects.
    ///
    /// A word that a slice lacks is 0, and is not written.
    fn run(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects;
}

/// The interpreter.
impl Execute for Algorithm {
    fn run(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects {
        match self.parts.get(part) {
            Some(program) => program.run(inputs, parameters, node, child),
            None => Effects::NONE,
        }
    }
}
