//! `weft profile`: where a host's processor time goes when it talks.
//!
//! The measurement of the SIGCOMM'21 host-stack study, for unmodified kernels:
//!
//! 1. [`pattern`] places the flows of a traffic pattern on cores; [`level`] has the levels of optimisation, [`setup`]
//!    further settings of the sender.
//! 2. A trial makes two namespaces joined by a veth pair per receiving core, sets the level and reads it back, starts
//!    the traffic, and measures: first without the instrument, then with it, or the other way round.
//! 3. The instrument samples all processors ([`weft_host::perf_event`]), and takes sizes and latency from tracepoints.
//! 4. [`attribution`] gives each sample a side by its process or call chain, and a category by the table ([`categories`]).
//! 5. [`session`] repeats all levels in turn, and concludes the document of `weft_report::profile`.
//! 6. [`stacks`] writes folded stacks and speedscope's format; [`fit`] fits the simulator's costs to runs;
//!    [`statements`] judges the study's statements; [`remedy_trials`] tries the remarks.
//!
//! A trial for `weft tune` also counts each flow's bytes and has pings ([`ping`]) in its part without the instrument.
//!
//! [`hosts`] measures between two hosts: a server samples the receiver's side, and the trials are those of step 5.
//!
//! [`attach`] profiles what runs on the host anyway, with the instrument of step 3 and directions instead of sides.
//!
//! Everything that a trial changes belongs to its namespaces, which the kernel removes with it; those of a killed run are
//! removed by the next ([`weft_host::cleanup_stale`]). No setting of the host is changed, but by levels between two hosts at a device that
//! the user names: [`journal`] restores those, also after a kill.

mod advice;
mod applications;
pub mod attach;
pub mod attribution;
pub mod categories;
mod connections;
pub mod coverage;
pub mod error;
pub mod fit;
pub mod hosts;
pub mod iperf;
pub mod journal;
pub mod level;
pub mod pattern;
pub mod ping;
pub mod probes;
pub mod remedy;
pub mod remedy_trials;
pub mod session;
pub mod setup;
pub mod stacks;
pub mod statements;
mod testbed;
pub mod traffic;
pub mod trial;

pub use connections::wait_until_listening;
