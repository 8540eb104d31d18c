//! The files of a configuration: the main file and the drop-ins, in their order.

use super::read::{Layer, read};
use super::{Config, ConfigError};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file: far more than a thousand ports need.
const FILE_MAX: u64 = 1 << 20;
/// The name of the main file.
const MAIN: &str = "weft.toml";

/// The folders in which configurations are searched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folders {
    /// The folders, the one that counts most first.
    pub folders: Vec<PathBuf>,
    /// The main file, if one is named. Its drop-ins are in the folder of its name with `.d`.
    pub main: Option<PathBuf>,
    /// The folder of policies that are named without a path.
    pub policies: PathBuf,
}

impl Default for Folders {
    fn default() -> Self {
        Self {
            folders: ["/etc/weft", "/run/weft", "/usr/lib/weft"].map(PathBuf::from).to_vec(),
            main: None,
            policies: PathBuf::from("/etc/weft/policies"),
        }
    }
}

impl Folders {
    /// The folders of this host, or the file that the user named.
    pub fn of(main: Option<PathBuf>) -> Self {
        Self { main, ..Self::default() }
    }

    /// Reads the main file and its drop-ins.
    ///
    /// # Errors
    /// When there is no main file, a file cannot be read or is invalid, or a required key is missing.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let main = self.main_file()?;
        let files = [vec![main.clone()], self.drop_ins()?].concat();
        let (mut layer, mut mistakes) = (Layer::default(), Vec::new());
        for file in &files {
            match self.layer(file) {
                Ok(above) => layer = layer.under(above),
                Err(ConfigError::At(found)) => mistakes.extend(found),
                Err(error) => return Err(error),
            }
        }
        if mistakes.is_empty() { layer.complete(&main) } else { Err(ConfigError::At(mistakes)) }
    }

    fn main_file(&self) -> Result<PathBuf, ConfigError> {
        if let Some(main) = &self.main {
            return Ok(main.clone());
        }
        let mut files = self.folders.iter().map(|folder| folder.join(MAIN));
        let first = files.clone().next().unwrap_or_default();
        files.find(|file| file.exists()).ok_or(ConfigError::Missing { first })
    }

    /// The drop-ins that count, in the order of their names.
    fn drop_ins(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let folders: Vec<PathBuf> = match &self.main {
            Some(main) => vec![PathBuf::from(format!("{}.d", main.display()))],
            None => self.folders.iter().map(|folder| folder.join(format!("{MAIN}.d"))).collect(),
        };
        let mut found = BTreeMap::new();
        for folder in folders {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry.map_err(|e| unreadable(&folder, &e))?;
                let name = entry.file_name();
                if Path::new(&name).extension().is_some_and(|extension| extension == "conf") {
                    found.entry(name).or_insert_with(|| entry.path());
                }
            }
        }
        Ok(found.into_values().collect())
    }

    fn layer(&self, file: &Path) -> Result<Layer, ConfigError> {
        let text = read_at_most(file)?;
        read(&text, file, &self.policies).map_err(ConfigError::At)
    }
}

fn unreadable(file: &Path, error: &dyn core::fmt::Display) -> ConfigError {
    ConfigError::Read { file: file.to_owned(), reason: error.to_string() }
}

fn read_at_most(file: &Path) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|f| f.take(FILE_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|e| unreadable(file, &e))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(unreadable(file, &format_args!("it has more than {FILE_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| {
        unreadable(file, &format_args!("it is not UTF-8 text; see byte {}", e.utf8_error().valid_up_to()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Metrics, OnFailure};
    use tempfile::TempDir;
    use weft_units::BitsPerSec;

    /// Three folders with these files.
    fn folders(files: &[(&str, &str)]) -> (TempDir, Folders) {
        let root = tempfile::tempdir().expect("folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            fs::write(path, text).expect("write");
        }
        let folders = ["etc", "run", "lib"].map(|name| root.path().join(name)).to_vec();
        let found = Folders { folders, main: None, policies: root.path().join("policies") };
        (root, found)
    }

    #[test]
    fn drop_ins_replace_keys_in_the_order_of_their_names() {
        let (root, folders) = folders(&[
            ("lib/weft.toml", "uplink = \"never\"\n"),
            ("etc/weft.toml", "uplink = \"eth0\"\npolicy = \"a\"\nrate = \"1gbps\"\n"),
            ("lib/weft.toml.d/10-a.conf", "rate = \"2gbps\"\non-failure = \"pass\"\n"),
            ("lib/weft.toml.d/50-b.conf", "rate = \"3gbps\"\n"),
            ("etc/weft.toml.d/50-b.conf", "metrics = \"unix:/x\"\n"),
            ("etc/weft.toml.d/90-c.conf.old", "rate = \"9gbps\"\n"),
        ]);
        let config = folders.load().expect("valid");
        assert_eq!(
            (config.uplinks[0].device.as_str(), config.uplinks[0].rate),
            ("eth0", Some(BitsPerSec(2_000_000_000)))
        );
        assert_eq!((config.on_failure, config.metrics), (OnFailure::Pass, Metrics::Unix("/x".into())));
        assert_eq!(config.uplinks[0].policy, root.path().join("policies/a.weft"));
    }

    #[test]
    fn an_empty_drop_in_masks_those_of_its_name() {
        let (_root, folders) = folders(&[
            ("etc/weft.toml", "uplink = \"eth0\"\npolicy = \"a\"\n"),
            ("lib/weft.toml.d/10-a.conf", "rate = \"2gbps\"\n"),
            ("run/weft.toml.d/10-a.conf", ""),
        ]);
        assert_eq!(folders.load().expect("valid").uplinks[0].rate, None);
    }

    #[test]
    fn ports_of_all_files_are_joined_by_name() {
        let (_root, folders) = folders(&[
            (
                "etc/weft.toml",
                "uplink = \"e\"\npolicy = \"a\"\n[[ports]]\nname = \"p0\"\n[[ports]]\nname = \"p1\"\n",
            ),
            (
                "etc/weft.toml.d/x.conf",
                "[[ports]]\nname = \"p1\"\nnetns = \"web\"\n[[ports]]\nname = \"p2\"\n",
            ),
        ]);
        let ports = &folders.load().expect("valid").uplinks[0].ports;
        let names: Vec<_> = ports.iter().map(|p| (p.name.as_str(), p.netns.as_deref())).collect();
        assert_eq!(names, [("p0", None), ("p1", Some("web")), ("p2", None)]);
    }

    #[test]
    fn without_a_file_or_a_key_the_remedy_is_told() {
        let (root, none) = folders(&[]);
        let error = none.load().unwrap_err().to_string();
        assert!(error.contains("etc/weft.toml") && error.contains("--config"), "{error}");
        fs::create_dir_all(root.path().join("etc")).expect("folder");
        fs::write(root.path().join("etc/weft.toml"), "uplink = \"eth0\"\n").expect("write");
        let error = none.load().unwrap_err().to_string();
        assert!(error.contains("weft.toml: error: `policy` is missing"), "{error}");
    }

    #[test]
    fn a_named_file_has_drop_ins_of_its_own() {
        let (root, _) = folders(&[
            ("x/my.toml", "uplink = \"eth0\"\npolicy = \"p/q.weft\"\n"),
            ("x/my.toml.d/a.conf", "group = \"ops\"\n"),
            ("etc/weft.toml.d/a.conf", "group = \"no\"\n"),
        ]);
        let config = Folders::of(Some(root.path().join("x/my.toml"))).load().expect("valid");
        assert_eq!(config.group, "ops");
        assert_eq!(config.uplinks[0].policy, root.path().join("x/p/q.weft"));
    }
}
