//! Compiles the eBPF programs of the experiments and benchmarks with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs in `bpf/`: the order check, and the plain redirect beside which cost is measured.
const PROGRAMS: [&str; 2] = ["order", "cost_redirect"];
/// The headers that they include.
const HEADERS: [&str; 2] = ["order.h", "flow_key.h"];

fn main() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let bpf = manifest.join("../../bpf");
    for header in HEADERS {
        println!("cargo::rerun-if-changed={}", bpf.join(header).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    for program in PROGRAMS {
        compile(&bpf.join(format!("{program}.bpf.c")), &out.join(format!("{program}.bpf.o")));
    }
}

fn compile(source: &Path, object: &Path) {
    println!("cargo::rerun-if-changed={}", source.display());
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    // -mcpu=v3: atomic fetch-and-add; -g: the maps' types (BTF), which the spin lock needs.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]);
    // Debian keeps asm/types.h in a folder of the architecture.
    for arch in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let include = Path::new("/usr/include").join(arch);
        if include.is_dir() {
            command.arg("-I").arg(include);
        }
    }
    command.arg(source).arg("-o").arg(object);
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile bpf/{name} ({status}); are libbpf-dev and linux-libc-dev installed?"
        ),
        Err(error) => panic!("{clang}: {error}; install the Debian package clang, or set CLANG"),
    }
}
