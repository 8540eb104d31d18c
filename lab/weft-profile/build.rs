//! Compiles the eBPF program of the profile.

#[path = "../../bpf/build.rs"]
mod bpf;

fn main() {
    bpf::compile("profile", &[], &[]);
}
