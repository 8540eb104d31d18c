//! The words that editors colour are those that the compiler reads.

use std::collections::BTreeSet;
use weft_policy::words;

/// The words of the keyword groups of the Vim syntax file, inside or outside the bodies of algorithms.
fn coloured(inside: bool) -> BTreeSet<String> {
    let path = format!("{}/../../editors/vim/syntax/weft.vim", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the syntax file is there");
    let groups = text.lines().filter_map(|line| line.strip_prefix("syntax keyword "));
    let of_language = groups.filter(|group| !group.starts_with("weftKind "));
    let wanted = of_language.filter(|group| group.contains(" contained ") == inside);
    wanted
        .flat_map(|group| group.split(' ').skip(1))
        .filter(|word| *word != "contained")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_vim_syntax_has_the_words_of_the_compiler() {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<String>>();
    let outside = [words::reserved(), words::contextual()].concat();
    assert_eq!(coloured(false), owned(&outside), "editors/vim/syntax/weft.vim, outside algorithms");
    let mut inside = owned(&[words::algorithm_words().as_slice(), words::functions()].concat());
    inside.extend(words::algorithm_names());
    assert_eq!(coloured(true), inside, "editors/vim/syntax/weft.vim, in algorithms");
    assert_eq!(words::algorithm_kinds(), ["algorithm", "shaper", "dropper"], "the words of weftKind");
}
