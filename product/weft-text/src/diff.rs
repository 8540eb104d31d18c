//! The difference of two texts, line by line, in the unified form.

use core::fmt::Write;

/// The unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// The most cells of the table of common lines. Larger changes are shown as a whole.
const CELLS_MAX: usize = 4_000_000;

/// A line of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// The changes from `old` to `new` in the unified form of diff(1), with `name` as the name of both; empty if they are equal.
pub fn unified(name: &str, old: &str, new: &str) -> String {
    let lines = lines(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let changed: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !matches!(line, Line::Same(_)))
        .map(|(at, _)| at)
        .collect();
    if changed.is_empty() {
        let end = if old == new { "" } else { "the texts differ in their line ends only\n" };
        return end.to_owned();
    }
    let mut out = format!("--- {name}\n+++ {name}\n");
    for hunk in changed.chunk_by(|a, b| b - a <= 2 * CONTEXT) {
        let (first, last) = (hunk[0].saturating_sub(CONTEXT), hunk[hunk.len() - 1] + CONTEXT);
        let last = last.min(lines.len() - 1);
        let (before, part) = (&lines[..first], &lines[first..=last]);
        let of = |lines: &[Line<'_>], new: bool| {
            let counts =
                |line: &&Line<'_>| !matches!((line, new), (Line::Old(_), true) | (Line::New(_), false));
            lines.iter().filter(counts).count()
        };
        let begin = |new| of(before, new) + usize::from(of(part, new) > 0);
        let (old_begin, old_count, new_begin, new_count) =
            (begin(false), of(part, false), begin(true), of(part, true));
        let _ = writeln!(out, "@@ -{old_begin},{old_count} +{new_begin},{new_count} @@");
        for line in part {
            let (mark, text) = match line {
                Line::Same(text) => (' ', text),
                Line::Old(text) => ('-', text),
                Line::New(text) => ('+', text),
            };
            let _ = writeln!(out, "{mark}{text}");
        }
    }
    out
}

/// All lines of both texts, each common line once.
fn lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let front = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[front..], &new[front..]);
    let back = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_part, new_part) = (&old_rest[..old_rest.len() - back], &new_rest[..new_rest.len() - back]);
    let mut out: Vec<Line<'a>> = old[..front].iter().map(|line| Line::Same(line)).collect();
    out.extend(changed(old_part, new_part));
    out.extend(old[old.len() - back..].iter().map(|line| Line::Same(line)));
    out
}

/// The lines of the changed part, by the longest common subsequence.
fn changed<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > CELLS_MAX {
        let removed = old.iter().map(|line| Line::Old(line));
        return removed.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            out.push(Line::Old(old[i]));
            i += 1;
        } else {
            out.push(Line::New(new[j]));
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn changes_have_context_and_line_numbers() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n";
        expect![[r#"
            --- p
            +++ p
            @@ -2,7 +2,7 @@
             2
             3
             4
            -5
            +five
             6
             7
             8
            @@ -12,3 +12,4 @@
             12
             13
             14
            +15
        "#]]
        .assert_eq(&unified("p", old, new));
        assert_eq!(unified("p", old, old), "");
        assert!(unified("p", "a\r\n", "a\n").contains("line ends"));
        assert!(unified("p", "", "a\n").contains("@@ -0,0 +1,1 @@"));
    }

    proptest! {
        #[test]
        fn a_difference_holds_both_texts(old in "[ab\n]{0,20}", new in "[ab\n]{0,20}") {
            let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let all = lines(&old, &new);
            let of = |wanted: fn(&Line<'_>) -> bool| {
                all.iter().filter(|line| wanted(line)).map(|line| match line {
                    Line::Same(text) | Line::Old(text) | Line::New(text) => *text,
                }).collect::<Vec<_>>()
            };
            prop_assert_eq!(of(|line| !matches!(line, Line::New(_))), old);
            prop_assert_eq!(of(|line| !matches!(line, Line::Old(_))), new);
        }
    }
}
