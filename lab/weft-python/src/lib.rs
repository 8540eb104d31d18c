//! The native part of the Python package `weftline`, whose other part is in `python/`.
//!
//! | module | contents |
//! |---|---|
//! | `run`, `campaign`, `policy`, `replay` | the functions of the package |
//! | `input`, `files` | what callers give: paths, texts and values |
//! | `failure`, `background` | exceptions; work without the interpreter's lock, which Ctrl-C ends |
//! | `table`, `arrow`, `export` | tables, and their way to others by Arrow's C interfaces |
//!
//! A program of unit tests could not be linked with what calls the interpreter, so in one there are only the modules that do not.
#![cfg_attr(test, allow(dead_code))]

mod arrow;
mod table;

#[cfg(not(test))]
mod background;
#[cfg(not(test))]
mod campaign;
#[cfg(not(test))]
mod export;
#[cfg(not(test))]
mod failure;
#[cfg(not(test))]
mod files;
#[cfg(not(test))]
mod input;
#[cfg(not(test))]
mod policy;
#[cfg(not(test))]
mod replay;
#[cfg(not(test))]
mod run;

#[cfg(not(test))]
#[pyo3::pymodule]
mod _weftline {
    #[pymodule_export]
    use crate::campaign::{campaign, results, status};
    #[pymodule_export]
    use crate::export::Table;
    #[pymodule_export]
    use crate::policy::{Policy, compile};
    #[pymodule_export]
    use crate::replay::replay;
    #[pymodule_export]
    use crate::run::run;
}
