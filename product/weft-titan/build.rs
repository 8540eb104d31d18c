//! Compiles the eBPF sources in `bpf/` with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources with their included headers.
const SOURCES: [(&str, &[&str]); 2] = [
    (
        "titan",
        &[
            "titan.h",
            "titan_maps.h",
            "titan_assign.h",
            "titan_table.h",
            "titan_sweep.h",
            "queues.h",
            "flow_key.h",
            "match.h",
            "tables.h",
        ],
    ),
    ("tracing_check", &[]),
];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    for (source, included) in SOURCES {
        compile(source, included);
    }
}

fn compile(source: &str, included: &[&str]) {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join(format!("{source}.bpf.o"));
    let (bpf, file) = (manifest.join("../../bpf"), format!("{source}.bpf.c"));
    for file in included.iter().copied().chain([file.as_str()]) {
        println!("cargo::rerun-if-changed={}", bpf.join(file).display());
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    // -mcpu=v3: atomic operations with a result; -g: BTF types, which locate fields of the kernel's structures.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]);
    // The register layout that bpf_tracing.h requires; the programs take typed arguments and never use it.
    command.arg("-D__TARGET_ARCH_x86");
    // Debian keeps asm/types.h in a folder of the architecture.
    for arch in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let include = Path::new("/usr/include").join(arch);
        if include.is_dir() {
            command.arg("-I").arg(include);
        }
    }
    command.arg(bpf.join(&file)).arg("-o").arg(&out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile bpf/{file} ({status}); are libbpf-dev and linux-libc-dev installed?"
        ),
        Err(error) => panic!("{clang}: {error}; install the Debian package clang, or set CLANG"),
    }
}
