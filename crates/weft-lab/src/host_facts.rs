//! What every document says of the host it was made on.

use serde_json::{Value, json};
use weft_host::doctor::{State, survey};
use weft_report::record::Host;

/// The facilities that explain a figure of ours; the rest is `weft doctor`'s.
const TELLING: [&str; 4] = ["kernel", "cc.", "bpf", "macvtap"];

/// Kernel, processors, and what was detected.
pub fn host_facts() -> Host {
    let detected = survey().into_iter().filter(|f| TELLING.iter().any(|t| f.id.starts_with(t))).map(|f| {
        let state = match f.state {
            State::Present(detail) if detail.is_empty() => json!("present"),
            State::Present(detail) => json!(detail),
            State::Limited(detail) => json!(format!("limited: {detail}")),
            State::Missing(detail) => json!(format!("missing: {detail}")),
        };
        (f.id.to_owned(), state)
    });
    let mut detected: std::collections::BTreeMap<String, Value> = detected.collect();
    if let Some(model) = processor() {
        detected.insert("processor".to_owned(), json!(model));
    }
    Host {
        kernel: weft_host::sysctl::release(),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        detected,
    }
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
