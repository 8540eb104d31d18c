//! The sample algorithms: on small cases with published orders, and on random traffic against definitions in plain Rust.

mod node;
mod oracles;
mod published;
