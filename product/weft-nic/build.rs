//! Compiles the eBPF programs of the ports.

#[path = "../../bpf/build.rs"]
mod bpf;

/// The headers that they include.
const HEADERS: [&str; 14] = [
    "admit.h",
    "claims.h",
    "doorbell.h",
    "flow_key.h",
    "group.h",
    "gso.h",
    "guard.h",
    "match.h",
    "message.h",
    "moves.h",
    "process.h",
    "queues.h",
    "tables.h",
    "tap.h",
];

fn main() {
    for program in ["doorbell", "message", "process", "receive"] {
        bpf::compile(program, &HEADERS, &[]);
    }
}
