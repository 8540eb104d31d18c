//! The paths that documents mention.

/// A path that a document mentions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mention {
    /// The line, from 1.
    pub line: usize,
    /// The path as written, without the part after `#`.
    pub path: String,
    /// Whether it is relative to the document's folder, as in a link, or to the root.
    pub relative: bool,
}

/// Folders of the repository: a word in code marks that begins with one is a path.
const FOLDERS: [&str; 11] = [
    "bpf/",
    "docs/",
    "experiments/",
    "fuzz/",
    "lab/",
    "packaging/",
    "policies/",
    "product/",
    "scripts/",
    "tests/",
    ".ci/",
];

/// The targets of links, and words in code marks that are paths of the repository.
pub fn mentions(markdown: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    for (index, line) in markdown.lines().enumerate() {
        let line_number = index + 1;
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(Mention { line: line_number, path: target.to_owned(), relative: true });
            }
        }
        for word in line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace) {
            let path = word.trim_end_matches(['.', ',', ';', ':', ')']);
            let fixed = !path.contains(['*', '<', '{', '$', '…']);
            if fixed && FOLDERS.iter().any(|folder| path.starts_with(folder)) {
                found.push(Mention { line: line_number, path: path.to_owned(), relative: false });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_are_found() {
        let text = "See [the map](architecture.md#floors) and `product/weft/src/main.rs`.\n`weft run policies/x.weft`";
        let paths: Vec<_> = mentions(text).into_iter().map(|m| (m.line, m.path, m.relative)).collect();
        assert_eq!(
            paths,
            [
                (1, "architecture.md".to_owned(), true),
                (1, "product/weft/src/main.rs".to_owned(), false),
                (2, "policies/x.weft".to_owned(), false),
            ]
        );
    }

    #[test]
    fn other_links_and_words_are_not() {
        assert_eq!(mentions("[x](https://example.org/a) [y](#here) `product/*/src` `a/b` docs/none"), []);
    }
}
