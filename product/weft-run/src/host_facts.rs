//! The facts of the host on which a report was made.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use weft_facts::record::Host;

/// Reads the properties of kernel, processors and memory. Unreadable ones are omitted.
pub fn detect() -> Host {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores =
        std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    let mut detected = BTreeMap::new();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if let Some(model) = field(&cpu, "model name", ':') {
        detected.insert("cpu".to_owned(), Value::from(model));
    }
    if weft_host::perf_event::is_virtual_machine() {
        detected.insert("virtual_machine".to_owned(), Value::from(true));
    }
    let kilobytes = field(&memory, "MemTotal", ':').and_then(|text| text.strip_suffix(" kB")?.parse().ok());
    if let Some(kilobytes) = kilobytes {
        let kilobytes: u64 = kilobytes;
        detected.insert("memory_bytes".to_owned(), Value::from(kilobytes.saturating_mul(1024)));
    }
    if let Some(name) = field(&system, "PRETTY_NAME", '=') {
        detected.insert("system".to_owned(), Value::from(name.trim_matches('"')));
    }
    Host { kernel: kernel.trim().to_owned(), cores, detected }
}

/// The value of the first line `name SEPARATOR value`.
fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linux_host_has_a_kernel_and_cores() {
        let host = detect();
        assert!(!host.kernel.is_empty() && host.cores >= 1, "{host:?}");
    }

    #[test]
    fn fields_are_told_apart_by_their_whole_name() {
        let text = "model\t\t: 5\nmodel name\t: A CPU: fast\n";
        assert_eq!(field(text, "model name", ':'), Some("A CPU: fast"));
        assert_eq!(field(text, "name", ':'), None);
    }
}
