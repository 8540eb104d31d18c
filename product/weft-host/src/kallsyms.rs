//! Names of kernel functions by address, from `/proc/kallsyms`.

use crate::error::OsError;

/// The file.
const FILE: &str = "/proc/kallsyms";

/// Symbols at the ends of the kernel's text, which are no functions.
const ENDS: [&str; 3] = ["_etext", "_einittext", "_end"];

/// An error of reading the kernel's symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The file could not be read.
    #[error(transparent)]
    Os(#[from] OsError),
    /// All addresses are zero.
    #[error(
        "{FILE} hides the addresses; run as root (CAP_SYSLOG), or set sysctl kernel.kptr_restrict to 1 or 0"
    )]
    Hidden,
    /// The file has no functions.
    #[error("{FILE} names no functions; the kernel needs CONFIG_KALLSYMS")]
    Empty,
}

/// The functions of the running kernel and its modules, in order of their addresses.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols {
    starts: Vec<u64>,
    /// For each start, the end of its name in `names`.
    ends: Vec<usize>,
    names: String,
}

impl KernelSymbols {
    /// Reads the running kernel's.
    ///
    /// # Errors
    /// If rights are missing, or the kernel has no list of symbols.
    pub fn load() -> Result<Self, SymbolError> {
        let text = std::fs::read_to_string(FILE).map_err(|e| OsError::new(format!("read {FILE}"), e))?;
        Self::parse(&text)
    }

    /// Parses lines of address, type and name, such as `ffffffff81000000 T _stext`. Data symbols are left out, and of several
    /// names of an address the last is kept. Names are without the compiler's suffixes (`.isra.0`).
    ///
    /// # Errors
    /// If there is no function, or all addresses are zero.
    pub fn parse(text: &str) -> Result<Self, SymbolError> {
        let mut functions: Vec<(u64, &str)> = text.lines().filter_map(function).collect();
        if functions.is_empty() {
            return Err(SymbolError::Empty);
        }
        if functions.iter().all(|(address, _)| *address == 0) {
            return Err(SymbolError::Hidden);
        }
        functions.sort_by_key(|(address, _)| *address);
        let mut symbols = Self::default();
        for (i, (address, name)) in functions.iter().enumerate() {
            if functions.get(i + 1).is_some_and(|(next, _)| next == address) {
                continue;
            }
            symbols.starts.push(*address);
            symbols.names.push_str(base_name(name));
            symbols.ends.push(symbols.names.len());
        }
        Ok(symbols)
    }

    /// The function that contains the address, which is that of the last start at or below it; `None` behind the kernel's text.
    pub fn find(&self, address: u64) -> Option<&str> {
        let name = self.name(self.starts.partition_point(|start| *start <= address).checked_sub(1)?)?;
        (!ENDS.contains(&name)).then_some(name)
    }

    /// All names, in order of the addresses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.starts.len()).filter_map(|i| self.name(i))
    }

    fn name(&self, index: usize) -> Option<&str> {
        let begin = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.names.get(begin..*self.ends.get(index)?)
    }
}

fn function(line: &str) -> Option<(u64, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let kind = fields.next()?;
    let name = fields.next()?;
    matches!(kind, "t" | "T" | "w" | "W").then_some((address, name))
}

/// A function's name without the suffix that the compiler gives to a copy or part of it.
pub fn base_name(name: &str) -> &str {
    // A name that begins with a dot is no function's, and stays.
    match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _stext\nffffffff81000000 T first\nffffffff81000100 t tcp_ack.isra.0\n\
                        ffffffff81000200 D some_data\nffffffffc0000000 t veth_xmit\t[veth]\nnonsense\n";

    #[test]
    fn an_address_belongs_to_the_function_that_starts_before_it() {
        let symbols = KernelSymbols::parse(TEXT).expect("symbols");
        assert_eq!(symbols.find(0xffffffff80ffffff), None);
        assert_eq!(symbols.find(0xffffffff81000000), Some("first"));
        assert_eq!(symbols.find(0xffffffff810001ff), Some("tcp_ack"));
        assert_eq!(symbols.find(0xffffffff81000200), Some("tcp_ack"), "data is no function");
        assert_eq!(symbols.find(u64::MAX), Some("veth_xmit"));
        assert_eq!(symbols.names().collect::<Vec<_>>(), ["first", "tcp_ack", "veth_xmit"]);
    }

    #[test]
    fn hidden_addresses_are_refused() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 T first\n";
        assert!(matches!(KernelSymbols::parse(hidden), Err(SymbolError::Hidden)));
        assert!(matches!(KernelSymbols::parse(""), Err(SymbolError::Empty)));
        assert_eq!((base_name("a.cold"), base_name("b"), base_name(".x")), ("a", "b", ".x"));
    }
}
