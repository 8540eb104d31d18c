//! Scheduling algorithms as machine code, by Cranelift.
