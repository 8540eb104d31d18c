//! Compiles the eBPF programs of queue assignment.

#[path = "../../bpf/build.rs"]
mod bpf;

/// The headers that the assignment includes.
const HEADERS: [&str; 9] = [
    "titan.h",
    "titan_maps.h",
    "titan_assign.h",
    "titan_table.h",
    "titan_sweep.h",
    "queues.h",
    "flow_key.h",
    "match.h",
    "tables.h",
];
/// The register layout that bpf_tracing.h requires; the programs take typed arguments and never use it.
const TRACING: [&str; 1] = ["-D__TARGET_ARCH_x86"];

fn main() {
    bpf::compile("titan", &HEADERS, &TRACING);
    bpf::compile("tracing_check", &[], &TRACING);
}
