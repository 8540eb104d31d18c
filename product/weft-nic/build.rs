//! Compiles the eBPF sources in `bpf/` with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The objects of this crate, each `bpf/NAME.bpf.c`, and the headers that they include.
const OBJECTS: [&str; 4] = ["doorbell", "message", "process", "receive"];
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
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let bpf = manifest.join("../../bpf");
    for header in HEADERS {
        println!("cargo::rerun-if-changed={}", bpf.join(header).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    for object in OBJECTS {
        let source = bpf.join(format!("{object}.bpf.c"));
        println!("cargo::rerun-if-changed={}", source.display());
        compile(&source, &out.join(format!("{object}.bpf.o")));
    }
}

fn compile(source: &Path, object: &Path) {
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
    command.arg(source).arg("-o").arg(object);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile {} ({status}); are libbpf-dev and linux-libc-dev installed?",
            source.display()
        ),
        Err(error) => panic!("{clang}: {error}; install the Debian package clang, or set CLANG"),
    }
}
