//! Programs of tests, compiled with the compiler of the crate's build.

use std::path::Path;
use weft_host::bpf::{Object, ObjectOptions};
use weft_host::testing::unique;

/// Compiles and loads `NAME.bpf.c` of this folder.
pub(crate) fn load(name: &'static str) -> Object {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.o", unique(name)));
    let source = format!("{}/tests/suite/common/{name}.bpf.c", env!("CARGO_MANIFEST_DIR"));
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let include = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let arguments = ["-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-I", &include, "-c", &source, "-o"];
    let status = std::process::Command::new(clang).args(arguments).arg(&out).status().expect("clang");
    assert!(status.success());
    let image = std::fs::read(&out).expect("object");
    Object::load_with(&image, &ObjectOptions { name, ..ObjectOptions::default() }).expect("load")
}
