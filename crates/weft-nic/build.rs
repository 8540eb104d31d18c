//! Compiles the eBPF sources in `bpf/` with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("doorbell.bpf.o");
    let bpf = manifest.join("../../bpf");
    let files = [
        "admit.h",
        "doorbell.bpf.c",
        "doorbell.h",
        "flow_key.h",
        "guard.h",
        "match.h",
        "moves.h",
        "queues.h",
        "tap.h",
    ];
    for file in files {
        println!("cargo::rerun-if-changed={}", bpf.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    // -mcpu=v3: atomic exchange and fetch-and-or; -g: the maps' types (BTF).
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]);
    // Debian keeps asm/types.h in a folder of the architecture.
    for arch in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let include = Path::new("/usr/include").join(arch);
        if include.is_dir() {
            command.arg("-I").arg(include);
        }
    }
    command.arg(bpf.join("doorbell.bpf.c")).arg("-o").arg(&out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile bpf/doorbell.bpf.c ({status}); are libbpf-dev and linux-libc-dev installed?"
        ),
        Err(error) => panic!("{clang}: {error}; install the Debian package clang, or set CLANG"),
    }
}
