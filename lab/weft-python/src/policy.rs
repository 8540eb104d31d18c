//! `weftline.compile`: the policy compiler.

use crate::failure::{Failure, diagnostic};
use crate::files::Beside;
use crate::input::{Given, rate};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use weft_policy::{
    CompileOptions, CompiledPolicy, Severity, Source, Users, compile_with, describe, describe_infrastructure,
    draw,
};
use weft_sched::LaneSpec;
use weft_units::BitsPerSec;

/// A compiled policy.
#[pyclass(frozen, module = "weftline")]
pub(crate) struct Policy {
    pub(crate) compiled: Arc<CompiledPolicy>,
    name: String,
    text: String,
    warnings: Vec<weft_policy::Diagnostic>,
}

/// Compiles a policy: a path or a text. `link` replaces its rate.
#[pyfunction]
#[pyo3(signature = (policy, link = None))]
pub(crate) fn compile(policy: &Bound<'_, PyAny>, link: Option<&Bound<'_, PyAny>>) -> PyResult<Policy> {
    let link = link.map(rate).transpose()?;
    let given = Given::read(policy, "policy")?;
    let compiled = policy.py().detach(move || compiled(given, link));
    Ok(compiled?)
}

fn compiled(given: Given, link: Option<BitsPerSec>) -> Result<Policy, Failure> {
    let Given { name, text } = given;
    let users = Users::from_passwd(&std::fs::read_to_string("/etc/passwd").unwrap_or_default());
    let options = CompileOptions { users, link, ..CompileOptions::default() };
    let compilation = compile_with(Source { name: &name, text: &text }, &Beside, &options);
    let Some(compiled) = compilation.policy else { return Err(Failure::Policy(compilation.diagnostics)) };
    let mut warnings = compilation.diagnostics;
    warnings.retain(|one| one.severity == Severity::Warning);
    Ok(Policy { compiled: Arc::new(compiled), name, text, warnings })
}

#[pymethods]
impl Policy {
    /// The file, or `policy` for a text.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The text of the policy.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The link's rate in bits per second; None if the policy states none.
    #[getter]
    fn link_bps(&self) -> Option<u64> {
        self.compiled.link.map(BitsPerSec::get)
    }

    /// The names of the classes. `class` of a replay is an index of this list.
    #[getter]
    fn classes(&self) -> Vec<&str> {
        self.compiled.classes.iter().map(|class| class.name.as_str()).collect()
    }

    /// The lanes, each a `weftline.Lane`.
    #[getter]
    fn lanes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (policy, program) = (&self.compiled, &self.compiled.program);
        let class = py.import("weftline._types")?.getattr("Lane")?;
        let lanes = program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant());
        let lane = |(number, lane): (usize, &LaneSpec)| {
            let of = policy.classes.get(lane.class.index()).map_or("", |class| &class.name);
            let leaf = program.leaves.get(lane.leaf.index()).map_or("", |leaf| &leaf.name);
            let limits = lane.limits.iter().filter_map(|limit| program.limits.get(limit.index()));
            let limits = PyTuple::new(py, limits.map(|limit| limit.name.as_str()).collect::<Vec<_>>())?;
            class.call1((number, of, leaf, limits, lane.packet_bound.0))
        };
        lanes.map(lane).collect()
    }

    /// The program in words, as `weft policy show` prints it: tree, limits, lanes, rules.
    #[getter]
    fn program(&self) -> String {
        describe(&self.compiled) + describe_infrastructure(&self.compiled)
    }

    /// The warnings of the compiler.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.warnings.iter().map(|found| diagnostic(py, found)).collect()
    }

    /// A drawing of the tree as SVG.
    fn to_svg(&self) -> PyResult<String> {
        let drawing = draw(Source { name: &self.name, text: &self.text }, &Beside);
        let drawing =
            drawing.ok_or_else(|| Failure::plain("the policy cannot be drawn: a file has changed", ""))?;
        Ok(drawing.to_svg())
    }

    fn _repr_svg_(&self) -> PyResult<String> {
        self.to_svg()
    }

    fn __repr__(&self) -> String {
        let classes = self.compiled.classes.len();
        format!("<weftline.Policy {}: {classes} classes>", self.name)
    }
}
