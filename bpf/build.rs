//! Compiles eBPF programs with clang, for the build scripts of the crates that load them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `bpf/NAME.bpf.c` to `NAME.bpf.o` in the output folder, now and when the source, one of its `headers` or the compiler
/// changes. `flags` are added to those of all programs.
///
/// # Panics
/// If clang is missing or refuses the source; the build ends with that message.
pub(crate) fn compile(name: &str, headers: &[&str], flags: &[&str]) {
    let variable = |name| PathBuf::from(std::env::var_os(name).expect("cargo sets it"));
    let bpf = variable("CARGO_MANIFEST_DIR").join("../../bpf");
    let source = format!("{name}.bpf.c");
    for file in headers.iter().copied().chain([source.as_str()]) {
        println!("cargo::rerun-if-changed={}", bpf.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    // -mcpu=v3: atomic operations with a result; -g: BTF types, which maps with a spin lock need, and which locate fields of the
    // kernel's structures.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]).args(flags);
    // Debian keeps asm/types.h in a folder of the architecture.
    for arch in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let include = Path::new("/usr/include").join(arch);
        if include.is_dir() {
            command.arg("-I").arg(include);
        }
    }
    command.arg(bpf.join(&source)).arg("-o").arg(variable("OUT_DIR").join(format!("{name}.bpf.o")));
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile bpf/{source} ({status}); are libbpf-dev and linux-libc-dev installed?"
        ),
        Err(error) => panic!("{clang}: {error}; install the Debian package clang, or set CLANG"),
    }
}
