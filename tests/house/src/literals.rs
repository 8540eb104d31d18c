//! Addresses of particular machines in the code: IPv4, MAC and PCI.

use crate::Finding;
use crate::mask::{Keep, mask, without_tests};

/// Networks reserved for examples (RFC 5737).
const FOR_EXAMPLES: [&str; 3] = ["192.0.2.", "198.51.100.", "203.0.113."];

/// Address literals outside comments and tests. An address belongs in a policy, an option or a testbed.
pub fn addresses(source: &str) -> Vec<Finding> {
    let code = without_tests_but_strings(source);
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let tokens = line.split(|c: char| !c.is_ascii_alphanumeric() && !".:".contains(c));
        for token in tokens.filter(|token| is_ipv4(token) || is_mac(token) || is_pci(token)) {
            found.push(Finding::at(index + 1, format!("the address `{token}` in code")));
        }
        for call in ["Ipv4Addr::new(", "Ipv6Addr::new("] {
            let literal = |at: usize| line[at + call.len()..].starts_with(|c: char| c.is_ascii_digit());
            if line.match_indices(call).any(|(at, _)| literal(at)) {
                found.push(Finding::at(index + 1, format!("an address by `{call}…)` in code")));
            }
        }
    }
    found
}

/// Finds tests in code without strings, since strings may contain braces, and then blanks them in code with strings.
pub fn without_tests_but_strings(source: &str) -> String {
    let code = mask(source, Keep::Code);
    let kept = without_tests(&code);
    let strings = mask(source, Keep::Strings);
    let lines = strings.lines().zip(code.lines().zip(kept.lines()));
    lines
        .map(|(text, (before, after))| if before == after { text } else { "" })
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_ipv4(token: &str) -> bool {
    let address = token.split(':').next().unwrap_or_default();
    let address = address.trim_matches('.');
    let parts: Vec<&str> = address.split('.').collect();
    let for_examples = FOR_EXAMPLES.iter().any(|network| address.starts_with(network));
    parts.len() == 4 && parts.iter().all(|part| part.parse::<u8>().is_ok()) && !for_examples
}

fn is_hex(part: &str, digits: usize) -> bool {
    part.len() == digits && part.chars().all(|c| c.is_ascii_hexdigit())
}

fn is_mac(token: &str) -> bool {
    let parts: Vec<&str> = token.split(':').collect();
    parts.len() == 6 && parts.iter().all(|part| is_hex(part, 2))
}

/// `domain:bus:device.function`, as in `0000:81:00.1`.
fn is_pci(token: &str) -> bool {
    let Some((head, function)) = token.split_once('.') else { return false };
    let parts: Vec<&str> = head.split(':').collect();
    let fits = parts.len() == 3 && is_hex(parts[0], 4) && is_hex(parts[1], 2) && is_hex(parts[2], 2);
    fits && is_hex(function, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found() {
        for bad in [
            "let a = \"10.0.0.1\";",
            "connect(\"192.168.1.1:80\")",
            "let mac = \"02:00:00:00:00:01\";",
            "let nic = \"0000:81:00.1\";",
            "let a = Ipv4Addr::new(10, 0, 0, 1);",
        ] {
            assert_eq!(addresses(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn other_numbers_and_comments_are_not() {
        for good in [
            "// such as 10.0.0.1",
            "let v = \"1.2.3\"; let w = 256.0; let r = 0..4;",
            "Ipv4Addr::new(a, b, c, d)",
            "#[cfg(test)]\nmod tests {\n    const A: &str = \"10.0.0.1\";\n}",
            "let help = \"such as 192.0.2.1\";",
            "x::y::z(\"12:34:56\")",
        ] {
            assert_eq!(addresses(good), [], "{good}");
        }
    }
}
