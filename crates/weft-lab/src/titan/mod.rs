//! Titan on the running kernel: its parts on real packets, and what was measured.

pub mod measured;
