//! The files of the repository.

use crate::mask::{Keep, mask};
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Folders without sources of the workspace.
const SKIPPED: [&str; 4] = ["target", ".git", "corpus", "artifacts"];

/// All files below `folder` whose names end in `ending`, as sorted paths from the root. Empty if the folder does not
/// exist.
pub fn files(folder: &str, ending: &str) -> Vec<String> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() && !SKIPPED.contains(&&*name) && !name.starts_with("target") {
                folders.push(path);
            } else if path.is_file() && name.ends_with(ending) {
                found.push(path.strip_prefix(&root).expect("below it").to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// The text of a file, at a path from the root.
///
/// # Panics
/// If the file does not exist.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether a source is built for tests only: a file below `tests`, `benches` or `examples`, or with such a name.
pub fn is_for_tests(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    parts
        .iter()
        .any(|part| ["tests", "benches", "examples", "tests.rs", "testing.rs", "testbed.rs"].contains(part))
}

/// The files of modules that the source at `path` declares for tests only: `#[cfg(test)] mod NAME;`.
pub fn test_modules(path: &str, source: &str) -> Vec<String> {
    let code = mask(source, Keep::Code);
    let folder = path.trim_end_matches("/mod.rs").trim_end_matches("/lib.rs").trim_end_matches(".rs");
    let declared = code.split("#[cfg(test)]").skip(1).filter_map(|rest| {
        let item = rest.trim_start();
        let item = item.strip_prefix("pub(crate) ").unwrap_or(item);
        let name = item.strip_prefix("mod ")?.split(';').next()?;
        name.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| name.to_owned())
    });
    declared.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found() {
        let sources = files("product", ".rs");
        assert!(sources.iter().any(|f| f == "product/weft/src/main.rs"), "{sources:?}");
        assert!(sources.iter().all(|f| f.ends_with(".rs")));
    }

    #[test]
    fn modules_for_tests_are_found() {
        let source = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod tests { }\n";
        assert_eq!(test_modules("x/y/mod.rs", source), ["x/y/b.rs", "x/y/b/mod.rs"]);
        let wider = source.replace("mod b", "pub(crate) mod b");
        assert_eq!(test_modules("x/y/mod.rs", &wider), test_modules("x/y/mod.rs", source));
        assert_eq!(test_modules("x/y.rs", source)[0], "x/y/b.rs");
    }

    #[test]
    fn tests_are_told_apart() {
        assert!(is_for_tests("product/a/tests/b.rs") && is_for_tests("product/a/src/b/tests.rs"));
        assert!(!is_for_tests("product/a/src/latest.rs"));
    }
}
