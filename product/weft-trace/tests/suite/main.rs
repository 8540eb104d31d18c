//! The crate's tests of its public interface, in one program.

mod parquet;
mod perfetto;
