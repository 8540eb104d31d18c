//! Stacks for other programs: folded, as FlameGraph's scripts read them, and speedscope's format.

use std::fmt::Write;

use serde_json::{Value, json};
use weft_report::profile::Flame;

/// Folded stacks: a line of frames from the outermost, separated by semicolons, and microseconds. Level, side (or direction) and category
/// are the outermost frames.
pub fn folded(flames: &[Flame]) -> String {
    let mut out = String::new();
    for flame in flames {
        for (category, frames, seconds) in &flame.stacks {
            let micros = (seconds * 1e6).round() as u64;
            if micros == 0 {
                continue;
            }
            let _ = write!(out, "{};{};{}", flame.level, flame.part, category.name());
            for frame in frames {
                out.push(';');
                out.push_str(frame);
            }
            let _ = writeln!(out, " {micros}");
        }
    }
    out
}

/// A document of speedscope's format (<https://www.speedscope.app/file-format-schema.json>): a profile for each level and side.
pub fn speedscope(flames: &[Flame]) -> Value {
    let mut names: Vec<&str> = Vec::new();
    let mut index = std::collections::BTreeMap::new();
    let mut profiles = Vec::new();
    for flame in flames {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for (category, frames, seconds) in &flame.stacks {
            let own = std::iter::once(category.name()).chain(frames.iter().map(String::as_str));
            let stack: Vec<usize> = own
                .map(|name| {
                    *index.entry(name).or_insert_with(|| {
                        names.push(name);
                        names.len() - 1
                    })
                })
                .collect();
            samples.push(stack);
            weights.push(*seconds);
        }
        let end: f64 = weights.iter().sum();
        let name = format!("{}, {}", flame.level, flame.part);
        profiles.push(json!({
            "type": "sampled", "name": name, "unit": "seconds", "startValue": 0.0, "endValue": end,
            "samples": samples, "weights": weights,
        }));
    }
    let frames: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "weft profile",
        "shared": { "frames": frames },
        "profiles": profiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_report::profile::Category;

    fn flames() -> Vec<Flame> {
        let stack = |frames: &[&str], seconds| {
            (Category::DataCopy, frames.iter().map(|f| (*f).to_owned()).collect(), seconds)
        };
        let stacks = vec![stack(&["entry", "copy"], 0.002), stack(&["entry"], 1e-9)];
        vec![Flame { level: "jumbo".into(), part: "receiver", stacks }]
    }

    #[test]
    fn stacks_are_folded_from_the_outermost() {
        assert_eq!(folded(&flames()), "jumbo;receiver;data_copy;entry;copy 2000\n");
    }

    #[test]
    fn speedscope_shares_frames() {
        let document = speedscope(&flames());
        assert_eq!(document["shared"]["frames"].as_array().map(Vec::len), Some(3));
        assert_eq!(document["profiles"][0]["samples"], json!([[0, 1, 2], [0, 1]]));
        assert_eq!(document["profiles"][0]["weights"][0], json!(0.002));
    }
}
