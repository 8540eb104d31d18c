//! Compiles the eBPF program of the plugin.

#[path = "../../bpf/build.rs"]
mod bpf;

fn main() {
    bpf::compile("mark", &[], &[]);
}
