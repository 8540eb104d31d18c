//! The data caches of the first processor, by sysfs.

use std::fs;
use std::path::Path;

use weft_units::Bytes;

/// The folder of the first processor's caches.
const FOLDER: &str = "/sys/devices/system/cpu/cpu0/cache";

/// A cache that holds data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataCache {
    /// Its level, from 1.
    pub level: u32,
    /// Its size. Other processors may share it.
    pub size: Bytes,
}

/// The data caches from the first level on; none if the kernel does not say.
pub fn data_caches() -> Vec<DataCache> {
    data_caches_in(Path::new(FOLDER))
}

fn data_caches_in(folder: &Path) -> Vec<DataCache> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<DataCache> = entries.flatten().filter_map(|entry| cache_in(&entry.path())).collect();
    found.sort_unstable_by_key(|cache| cache.level);
    found
}

fn cache_in(folder: &Path) -> Option<DataCache> {
    let read = |name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    if !matches!(read("type")?.as_str(), "Data" | "Unified") {
        return None;
    }
    let kibibytes: u64 = read("size")?.strip_suffix('K')?.parse().ok()?;
    Some(DataCache { level: read("level")?.parse().ok()?, size: Bytes(kibibytes.saturating_mul(1024)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_instructions_and_what_is_unreadable_are_left_out() {
        let folder = tempfile::tempdir().expect("folder");
        for (index, kind, level, size) in [
            ("index3", "Unified", "3", "32768K"),
            ("index0", "Data", "1", "48K"),
            ("index1", "Instruction", "1", "32K"),
            ("index2", "Unified", "2", "much"),
        ] {
            let cache = folder.path().join(index);
            fs::create_dir(&cache).expect("folder");
            for (name, text) in [("type", kind), ("level", level), ("size", size)] {
                fs::write(cache.join(name), format!("{text}\n")).expect("file");
            }
        }
        fs::create_dir(folder.path().join("power")).expect("folder");
        let cache = |level, size| DataCache { level, size: Bytes(size) };
        assert_eq!(data_caches_in(folder.path()), [cache(1, 48 << 10), cache(3, 32 << 20)]);
        assert!(data_caches_in(&folder.path().join("absent")).is_empty());
    }
}
