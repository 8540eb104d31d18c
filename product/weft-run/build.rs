//! Compiles the eBPF programs of policies in the kernel.

#[path = "../../bpf/build.rs"]
mod bpf;

/// The headers that they include.
const HEADERS: [&str; 6] = ["classify.h", "doorbell.h", "flow_key.h", "guard.h", "match.h", "tables.h"];

fn main() {
    bpf::compile("classify", &HEADERS, &[]);
}
