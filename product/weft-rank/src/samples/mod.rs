//! Published algorithms, built by hand: what tests and benchmarks of executors and engines run.
//!
//! The policy language has the same algorithms as texts. A test compares each of these with a definition written apart from it.

mod deadlines;
mod fair;
mod guarantees;
mod shapers;
mod sizes;

pub use deadlines::{aged, edf, fifo, fifo_plus, least_slack, lstf};
pub use fair::{drr, round_robin, stfq, strict, weighted_round_robin, wf2q};
pub use guarantees::{codel, floors};
pub use shapers::{bucket, edt, paced};
pub use sizes::{las, pfabric, srpt};

use crate::algorithm::{Algorithm, Kind, Parts};
use crate::builder::ProgramBuilder;
use crate::part::Part;
use crate::program::Program;

/// All algorithms of this module.
pub fn all() -> Vec<Algorithm> {
    vec![
        fifo(),
        strict(),
        round_robin(),
        weighted_round_robin(),
        drr(),
        stfq(),
        wf2q(),
        edf(),
        lstf(),
        fifo_plus(),
        least_slack(),
        aged(),
        srpt(),
        pfabric(),
        las(),
        bucket(),
        edt(),
        paced(),
        floors(),
        codel(),
    ]
}

/// The program of a part, or none if it is wrong, which a test excludes.
fn program(part: Part, write: impl FnOnce(&mut ProgramBuilder)) -> Option<Program> {
    let mut builder = ProgramBuilder::new(part);
    write(&mut builder);
    builder.build().ok()
}

/// An algorithm of the kind with these programs, and without fields.
fn algorithm<const N: usize>(name: &str, kind: Kind, programs: [Option<Program>; N]) -> Algorithm {
    Algorithm { parts: Parts::from_iter(programs.into_iter().flatten()), ..Algorithm::new(name, kind) }
}
