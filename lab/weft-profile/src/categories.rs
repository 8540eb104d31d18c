//! The table of categories: rules from names of kernel functions to the study's categories.
//!
//! A function's rule is that of its exact name, else that of the longest family prefix; leading underscores do not count for
//! families. The shipped table is `categories.csv`; a user's file is read over it, and its rules come first.

use std::collections::BTreeMap;

use weft_report::profile::Category;

/// The shipped table.
const SHIPPED: &str = include_str!("../categories.csv");

/// The rule of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CategoryRule {
    /// It has a category.
    Category(Category),
    /// A helper: the nearest caller with a category decides.
    Inherit,
    /// It switches interrupts back on. The category is for clocks without skid.
    Skid(Category),
    /// An idle loop.
    Idle,
}

/// An error of reading a table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} of {file} is not a rule: {reason}")]
pub struct CategoryTableError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub reason: RuleError,
}

/// The reason that a line is not a rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// The line does not have three fields.
    #[error("it needs KIND,NAME,CATEGORY")]
    Fields,
    /// The kind is unknown.
    #[error("`{0}` is none of exact, family, pair and skid")]
    Kind(String),
    /// The category is unknown.
    #[error("`{0}` is no category; see docs/profile.md")]
    Category(String),
    /// A pair lacks its arrow.
    #[error("a pair is CALLER > LEAF")]
    Pair,
}

/// A table of rules.
#[derive(Clone, Debug, Default)]
pub struct Categories {
    version: String,
    exact: BTreeMap<String, CategoryRule>,
    families: BTreeMap<String, CategoryRule>,
    /// By leaf: callers' names or prefixes, whether they are prefixes, and the category.
    pairs: BTreeMap<String, Vec<Pair>>,
}

#[derive(Clone, Debug)]
struct Pair {
    caller: String,
    by: Match,
    category: Category,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Match {
    Name,
    Prefix,
}

impl Categories {
    /// The shipped table.
    ///
    /// # Errors
    /// Never for a released program: a test reads the table.
    pub fn shipped() -> Result<Self, CategoryTableError> {
        let mut table = Self::default();
        table.read("categories.csv", SHIPPED)?;
        Ok(table)
    }

    /// Adds the rules of a file; they replace those of the same names.
    ///
    /// # Errors
    /// For the first line that is no rule.
    pub fn overlay(&mut self, file: &str, text: &str) -> Result<(), CategoryTableError> {
        self.read(file, text)?;
        self.version.push_str(" with ");
        self.version.push_str(file);
        Ok(())
    }

    /// The version, with the names of files read over the table.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.exact.len() + self.families.len() + self.pairs.values().map(Vec::len).sum::<usize>()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rule of a function.
    pub fn rule(&self, name: &str) -> Option<CategoryRule> {
        if let Some(rule) = self.exact.get(name) {
            return Some(*rule);
        }
        let bare = name.trim_start_matches('_');
        let ends = (1..=bare.len()).rev().filter(|end| bare.is_char_boundary(*end));
        ends.filter_map(|end| self.families.get(&bare[..end])).next().copied()
    }

    /// The category of a function when `caller` called it, where a pair says so.
    pub fn pair(&self, caller: &str, leaf: &str) -> Option<Category> {
        let matches = |pair: &&Pair| match pair.by {
            Match::Name => caller == pair.caller,
            Match::Prefix => caller.starts_with(&pair.caller),
        };
        self.pairs.get(leaf)?.iter().find(matches).map(|pair| pair.category)
    }

    /// The exact names of the table, for comparison with a kernel's.
    pub fn exact_names(&self) -> impl Iterator<Item = &str> {
        self.exact.keys().map(String::as_str)
    }

    fn read(&mut self, file: &str, text: &str) -> Result<(), CategoryTableError> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.line(line).map_err(|reason| CategoryTableError {
                file: file.to_owned(),
                line: index + 1,
                reason,
            })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), RuleError> {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let (Some(kind), Some(name), Some(category)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(RuleError::Fields);
        };
        match kind {
            "version" => self.version = format!("{name} ({category})"),
            "exact" => {
                self.exact.insert(name.to_owned(), rule(category)?);
            }
            "skid" => {
                self.exact.insert(name.to_owned(), CategoryRule::Skid(named(category)?));
            }
            "family" => {
                let bare = name.trim_start_matches('_').to_owned();
                self.families.insert(bare, rule(category)?);
            }
            "pair" => {
                let (caller, leaf) = name.split_once('>').ok_or(RuleError::Pair)?;
                let (caller, by) = match caller.trim().strip_suffix('*') {
                    Some(prefix) => (prefix, Match::Prefix),
                    None => (caller.trim(), Match::Name),
                };
                let pair = Pair { caller: caller.to_owned(), by, category: named(category)? };
                self.pairs.entry(leaf.trim().to_owned()).or_default().insert(0, pair);
            }
            other => return Err(RuleError::Kind(other.to_owned())),
        }
        Ok(())
    }
}

fn named(category: &str) -> Result<Category, RuleError> {
    match Category::named(category) {
        Some(Category::IrqOff | Category::Unmapped) | None => Err(RuleError::Category(category.to_owned())),
        Some(category) => Ok(category),
    }
}

fn rule(category: &str) -> Result<CategoryRule, RuleError> {
    match category {
        "inherit" => Ok(CategoryRule::Inherit),
        "idle" => Ok(CategoryRule::Idle),
        other => Ok(CategoryRule::Category(named(other)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> Categories {
        Categories::shipped().expect("the shipped table")
    }

    #[test]
    fn the_shipped_table_has_the_study_s_categories() {
        let table = shipped();
        assert!(table.len() > 600 && table.version().starts_with('1'), "{}", table.version());
        let category = |name| match table.rule(name) {
            Some(CategoryRule::Category(category)) => Some(category),
            _ => None,
        };
        for (name, expected) in [
            ("_copy_to_iter", Category::DataCopy),
            ("tcp_ack", Category::Tcpip),
            ("__tcp_transmit_skb", Category::Tcpip),
            ("veth_xmit", Category::Netdev),
            ("skb_release_data", Category::Skb),
            ("__skb_clone", Category::Skb),
            ("__kfree_skb", Category::Skb),
            ("kfree", Category::Mem),
            ("kmem_cache_alloc_noprof", Category::Mem),
            ("__schedule", Category::Sched),
            ("asm_sysvec_apic_timer_interrupt", Category::Etc),
        ] {
            assert_eq!(category(name), Some(expected), "{name}");
        }
        assert_eq!(table.rule("memset"), Some(CategoryRule::Inherit));
        assert_eq!(table.rule("_raw_spin_unlock_irqrestore"), Some(CategoryRule::Skid(Category::Lock)));
        assert_eq!(table.rule("no_such_function_xyz"), None);
    }

    #[test]
    fn the_longest_family_decides_and_an_overlay_comes_first() {
        let mut table = Categories::default();
        table.read("t", "family,a,etc\nfamily,_ab,skb\npair,x* > leaf,mem\n").expect("rules");
        let is = |table: &Categories, name: &str| table.rule(name);
        assert_eq!(is(&table, "__abc"), Some(CategoryRule::Category(Category::Skb)));
        assert_eq!(is(&table, "ac"), Some(CategoryRule::Category(Category::Etc)));
        assert_eq!(table.pair("xyz", "leaf"), Some(Category::Mem));
        assert_eq!(table.pair("yx", "leaf"), None);
        table.overlay("mine.csv", "exact,ac,lock\npair,xy > leaf,sched\n").expect("rules");
        assert_eq!(is(&table, "ac"), Some(CategoryRule::Category(Category::Lock)));
        assert_eq!(table.pair("xy", "leaf"), Some(Category::Sched));
        assert!(table.version().ends_with("mine.csv"));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, part) in [
            ("exact,a", "KIND,NAME,CATEGORY"),
            ("\nregex,a,etc", "line 2 of t"),
            ("exact,a,network", "`network` is no category"),
            ("pair,a,etc", "CALLER > LEAF"),
            ("exact,a,irq_off", "no category"),
        ] {
            let error = Categories::default().read("t", text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
