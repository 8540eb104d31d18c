//! Commands and scripts that other programs use to run the shards of a campaign.

use crate::grid::Shard;
use std::fmt::Write as _;

/// The runs of a shard that [`shards`] aims at.
const RUNS_PER_SHARD: u64 = 100;
/// The most shards that it proposes.
const SHARDS_MAX: u64 = 1000;
/// The longest array of jobs, counted from 1, under Slurm's default MaxArraySize of 1001.
pub const SLURM_ARRAY_MAX: u64 = 1000;
/// The program for Ray, whose constants of a campaign are replaced.
const RAY: &str = include_str!("ray.py");

/// A campaign as the user named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    /// The program.
    pub program: String,
    /// The grid file.
    pub grid: String,
    /// The store.
    pub out: String,
}

/// Returns a number of shards for as many runs.
pub fn shards(runs: u64) -> u64 {
    runs.div_ceil(RUNS_PER_SHARD).clamp(1, SHARDS_MAX)
}

impl Names {
    /// Returns the command of a shard, on one thread.
    pub fn command(&self, shard: Shard) -> String {
        format!("{} --shard {shard} --threads 1", self.all())
    }

    fn words(&self) -> [&str; 6] {
        [&self.program, "campaign", "run", &self.grid, "--out", &self.out]
    }

    fn all(&self) -> String {
        self.words().map(shell).join(" ")
    }

    /// Returns a script for Slurm: an array of `nodes` jobs, each a shard on all processors that it gets. A job that is requeued, as after
    /// the failure of a node, continues.
    pub fn slurm(&self, nodes: u64) -> String {
        let mut script = String::from("#!/bin/sh\n");
        for line in [
            "# Submit it with sbatch. Program, grid and folder must be the same on all nodes.".to_owned(),
            "#SBATCH --job-name=weft-campaign".to_owned(),
            format!("#SBATCH --array=1-{nodes}"),
            "#SBATCH --ntasks=1".to_owned(),
            "#SBATCH --requeue".to_owned(),
            "#SBATCH --open-mode=append".to_owned(),
            "# Add what your site needs, such as --partition, --time and --cpus-per-task.".to_owned(),
            "threads=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}".to_owned(),
        ] {
            let _ = writeln!(script, "{line}");
        }
        let all = self.all();
        let _ =
            writeln!(script, "exec {all} --shard \"$SLURM_ARRAY_TASK_ID/{nodes}\" --threads \"$threads\"");
        script
    }

    /// Returns a program in Python that runs as many shards as tasks of Ray, each on one thread.
    pub fn ray(&self, shards: u64) -> String {
        let command = [&self.words()[..], &["--threads", "1"]].concat();
        let filled = [
            ("COMMAND", format!("[{}]", command.into_iter().map(python).collect::<Vec<_>>().join(", "))),
            ("STORE", python(&self.out)),
            ("SHARDS", shards.to_string()),
        ];
        let line = |line: &str| {
            let of =
                filled.iter().find(|(name, _)| line.strip_prefix(name).is_some_and(|l| l.starts_with(" = ")));
            of.map_or_else(|| format!("{line}\n"), |(name, value)| format!("{name} = {value}\n"))
        };
        RAY.lines().map(line).collect()
    }
}

/// Writes a word as a string of Python, of which JSON's are a part.
fn python(word: &str) -> String {
    serde_json::Value::from(word).to_string()
}

/// Quotes a word for a shell, if it needs quotes.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_safe_in_a_shell() {
        let names =
            Names { program: "weft".to_owned(), grid: "my grid.toml".to_owned(), out: "it's".to_owned() };
        let shard = Shard::new(2, 8).expect("a shard");
        let command = r"weft campaign run 'my grid.toml' --out 'it'\''s' --shard 2/8 --threads 1";
        assert_eq!(names.command(shard), command);
        assert!(names.slurm(4).contains("--shard \"$SLURM_ARRAY_TASK_ID/4\""));
        let ray = names.ray(4);
        assert!(ray.contains(
            r#"COMMAND = ["weft", "campaign", "run", "my grid.toml", "--out", "it's", "--threads", "1"]"#
        ));
        assert!(ray.contains("\nSTORE = \"it's\"\nSHARDS = 4\n"), "{ray}");
        assert_eq!([0, 1, 250, 10_000_000].map(shards), [1, 1, 3, 1000]);
    }
}
