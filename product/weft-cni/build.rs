//! Compiles `bpf/mark.bpf.c` with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("mark.bpf.o");
    let source = manifest.join("../../bpf/mark.bpf.c");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]);
    // Debian keeps asm/types.h in a folder of the architecture.
    for arch in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let include = Path::new("/usr/include").join(arch);
        if include.is_dir() {
            command.arg("-I").arg(include);
        }
    }
    command.arg(&source).arg("-o").arg(&out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile {} ({status}); are libbpf-dev and linux-libc-dev installed?",
            source.display()
        ),
        Err(error) => panic!("{clang}: {error}; install the Debian package clang, or set CLANG"),
    }
}
