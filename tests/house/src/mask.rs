//! Rust source with comments, strings or tests blanked out. Lines and columns are kept for findings.

/// The parts of a source to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Code only, without comments and the contents of strings and characters.
    Code,
    /// Code and strings.
    Strings,
}

/// Blanks everything that `keep` excludes.
pub fn mask(source: &str, keep: Keep) -> String {
    Masker { rest: source, out: String::with_capacity(source.len()), keep }.run()
}

struct Masker<'a> {
    rest: &'a str,
    out: String,
    keep: Keep,
}

impl Masker<'_> {
    fn run(mut self) -> String {
        while let Some(first) = self.rest.chars().next() {
            if self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end, false);
            } else if self.rest.starts_with("/*") {
                let end = block_comment(self.rest);
                self.take(end, false);
            } else if let Some(end) =
                string(self.rest).filter(|_| self.rest.starts_with('"') || !self.after_word())
            {
                self.take(end, self.keep == Keep::Strings);
            } else if let Some(end) = character(self.rest) {
                self.take(end, self.keep == Keep::Strings);
            } else {
                self.take(first.len_utf8(), true);
            }
        }
        self.out
    }

    /// Whether the last character is part of a word; an `r` or `b` after it is then part of that word.
    fn after_word(&self) -> bool {
        self.out.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn take(&mut self, bytes: usize, keep: bool) {
        let (part, rest) = self.rest.split_at(bytes);
        for c in part.chars() {
            self.out.push(if keep || c == '\n' { c } else { ' ' });
        }
        self.rest = rest;
    }
}

/// The end of the block comment at the start of `text`. Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The end of the string at the start of `text`, with its prefix: `"`, `b"`, `c"`, `r#"`, `br"` and so on.
fn string(text: &str) -> Option<usize> {
    let prefix = text.find(|c| !matches!(c, 'b' | 'c' | 'r'))?;
    if prefix > 2 {
        return None;
    }
    let raw = text[..prefix].ends_with('r');
    let hashes = text[prefix..].find(|c| c != '#')?;
    if !text[prefix + hashes..].starts_with('"') || (hashes > 0 && !raw) {
        return None;
    }
    let start = prefix + hashes + 1;
    if raw {
        let close = format!("\"{}", "#".repeat(hashes));
        return Some(text[start..].find(&close).map_or(text.len(), |at| start + at + close.len()));
    }
    let mut escaped = false;
    for (at, c) in text[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(start + at + 1),
            _ => {}
        }
    }
    Some(text.len())
}

/// The end of the character literal at the start of `text`; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut chars = inside.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return inside[2..].find('\'').map(|at| at + 4);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 2)
}

/// Blanks items that are built for tests only, after `#[cfg(test)]` and similar attributes. Takes masked source.
pub fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(start) = out[from..].find("#[cfg(").map(|at| from + at) {
        let end_of_attribute = out[start..].find(']').map_or(out.len(), |at| start + at + 1);
        let words = words(&out[start..end_of_attribute]);
        if !words.contains(&"test") || words.contains(&"not") {
            from = end_of_attribute;
            continue;
        }
        let end = end_of_item(&out, end_of_attribute);
        let blank: String = out[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blank);
        from = start + blank.len();
    }
    out
}

/// The words of a text.
pub fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// Whether no word goes on at `at`.
pub fn starts_word(code: &str, at: usize) -> bool {
    !code[..at].ends_with(of_word)
}

/// The word at the start of `code`, which may be empty.
pub fn word(code: &str) -> &str {
    &code[..code.find(|c| !of_word(c)).unwrap_or(code.len())]
}

fn of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The members of the list that `code` continues after its opening bracket.
pub fn members(code: &str) -> Vec<&str> {
    let (mut depth, mut from, mut before, mut found) = (0_usize, 0, ' ', Vec::new());
    for (at, c) in code.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            '>' | ')' | ']' | '}' if depth == 0 => {
                found.push(code[from..at].trim());
                break;
            }
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(code[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    found.retain(|member| !member.is_empty());
    found
}

/// The end of the item that begins at `from`: its `;`, or the brace that closes its first one.
pub fn end_of_item(code: &str, from: usize) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return from + at + 1;
                }
            }
            ';' if braces == 0 && others == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_and_lines_stay() {
        let source = "let a = \"// {\"; // {\n/* { /* } */ */ let b = r#\"\"{\"#; let c = b'{';\n";
        let code = mask(source, Keep::Code);
        assert!(!code.contains(['{', '}']), "{code}");
        assert_eq!(code.lines().count(), 2);
        assert_eq!(code.find("let b"), source.find("let b"));
        assert!(mask(source, Keep::Strings).contains("// {"));
    }

    #[test]
    fn a_lifetime_is_no_character() {
        let code = mask("fn f<'a>(x: &'a str) { g('\\'', '}', '\\u{7d}') }", Keep::Code);
        assert_eq!(code.matches('}').count(), 1, "{code}");
        assert!(code.contains("&'a str"));
    }

    #[test]
    fn words_that_end_in_b_or_r_are_no_prefixes() {
        assert_eq!(mask("macro_r\"\\\"{\"", Keep::Code).trim_end(), "macro_r");
    }

    #[test]
    fn members_end_with_their_list() {
        assert_eq!(
            members("a, b: B<c, d>, e: fn(f, g) -> [h; 2], } i, j"),
            ["a", "b: B<c, d>", "e: fn(f, g) -> [h; 2]"]
        );
        assert!(members(" }").is_empty());
    }

    #[test]
    fn tests_are_taken_out() {
        let code =
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c() } }\nfn d() {}\n#[cfg(not(test))]\nfn e() {}";
        let rest = without_tests(code);
        assert!(!rest.contains("fn b"), "{rest}");
        assert!(rest.contains("fn d") && rest.contains("fn e"), "{rest}");
    }
}
