//! The CNI plugin `weft`: containers get ports of `weft daemon`, or marks that its policy tests.
//!
//! It follows the [specification](https://www.cni.dev/docs/spec/), version 1.1.0, and answers configurations from 0.3.1 on.
//!
//! 1. [`environment`] and [`config`] read and check the call; nothing has been done so far.
//! 2. [`plugin`] chooses by operation and [`config::PluginRole`].
//! 3. `port` makes the container's interface: addresses by [`ipam`], a port by [`daemon`], then name, addresses, routes.
//!    `chain` acts on an interface that another plugin made.
//! 4. The result or the error goes to standard output, in the version of the configuration.
//!
//! These rules hold:
//!
//! - The plugin keeps no state. The name of a port is a function of network and attachment ([`name`]), so DEL and GC find it
//!   after a restart of anything.
//! - An ADD that fails leaves nothing behind. A DEL of what is gone succeeds.
//! - What cannot be honoured is refused with the specification's code, and never ignored.
//! - No input causes a panic ([`fuzz_cni`]).
#![forbid(unsafe_code)]

pub mod bandwidth;
mod chain;
pub mod config;
pub mod control;
pub mod daemon;
pub mod environment;
pub mod error;
mod fuzz;
pub mod ipam;
pub mod name;
pub mod plugin;
mod port;
pub mod result;
pub mod version;

pub use error::CniError;
pub use fuzz::fuzz_cni;
