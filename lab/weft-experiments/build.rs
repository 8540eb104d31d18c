//! Compiles the eBPF programs of the experiments and benchmarks: the order check, and the plain redirect beside which cost is measured.

#[path = "../../bpf/build.rs"]
mod bpf;

fn main() {
    bpf::compile("order", &["order.h", "flow_key.h"], &[]);
    bpf::compile("cost_redirect", &[], &[]);
}
