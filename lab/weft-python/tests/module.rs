//! The built module in the system's Python: what the package promises without any other package, and its generated part. `make test-python`
//! has the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weft_units::testing::skip;

/// The folder of the pure-Python part.
fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

/// Runs the system's Python with arguments; `None` if it is older than 3.11 or absent.
fn interpreter(test: &str, arguments: &[&str], path: &Path) -> Option<Output> {
    let run = |arguments: &[&str]| {
        Command::new("python3")
            .env("PYTHONPATH", path)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(arguments)
            .output()
    };
    let version = run(&["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]);
    if !version.is_ok_and(|output| output.status.success()) {
        skip(test, "no python3 of 3.11 or later");
        return None;
    }
    Some(run(arguments).expect("python3"))
}

#[track_caller]
fn succeeds(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Cargo has put the module beside this program, since this package's tests depend on it.
fn module() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let folder = program.parent().expect("its folder");
    let found = [folder, folder.parent().expect("target")].map(|folder| folder.join("lib_weftline.so"));
    found.into_iter().find(|path| path.is_file()).expect("lib_weftline.so beside the tests")
}

#[test]
fn the_module_works_in_the_systems_python() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = folder.path().join("weftline");
    fs::create_dir(&package).expect("a folder");
    for entry in fs::read_dir(python().join("weftline")).expect("the package").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), package.join(entry.file_name())).expect("copied");
        }
    }
    fs::copy(module(), package.join("_weftline.abi3.so")).expect("copied");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/module.py");
    let script = script.to_str().expect("UTF-8");
    if let Some(output) = interpreter("the_module_works_in_the_systems_python", &[script], folder.path()) {
        succeeds(&output);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
    }
}

#[test]
fn the_documents_classes_are_those_of_the_schemas() {
    let script = python().join("generate.py");
    let arguments = [script.to_str().expect("UTF-8"), "--check"];
    if let Some(output) =
        interpreter("the_documents_classes_are_those_of_the_schemas", &arguments, Path::new(""))
    {
        succeeds(&output);
    }
}
