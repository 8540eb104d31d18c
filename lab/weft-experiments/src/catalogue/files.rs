//! The files below `experiments/`, compiled into the program.

use weft_policy::FileError;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Names below `experiments/`, and texts.
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../experiments/", $name)))),*];
    };
}

files! {
    "published/titan.csv",
    "costs/free.toml",
    "costs/xeon-e5-1410.toml",
    "costs/xeon-gold-6128.toml",
    "scenarios/titan.toml",
    "scenarios/shuffle.toml",
    "scenarios/memcached.toml",
    "scenarios/loom-isolation.toml",
    "scenarios/loom-limit.toml",
    "scenarios/loom-memcached-limit.toml",
    "scenarios/loom-jobs.toml",
    "scenarios/loom-hierarchy.toml",
    "scenarios/loom-doorbells.toml",
    "scenarios/hoststack.toml",
    "scenarios/hoststack-all-to-all.toml",
    "titan.toml",
    "shuffle.toml",
    "memcached.toml",
    "loom-isolation.toml",
    "loom-limit.toml",
    "loom-memcached-limit.toml",
    "loom-jobs.toml",
    "loom-hierarchy.toml",
    "loom-doorbells-parameters.toml",
    "hoststack.toml",
    "hoststack-all-to-all-parameters.toml",
    "titan-tr-table3.toml",
    "titan-tr-table4.toml",
    "titan-tr-table5.toml",
    "titan-tr-fig2.toml",
    "titan-tr-fig3.toml",
    "titan-tr-fig4.toml",
    "titan-tr-fig5.toml",
    "titan-tr-fig6.toml",
    "titan-tr-fig7.toml",
    "titan-tr-fig8.toml",
    "titan-atc17-table3.toml",
    "titan-atc17-fig2.toml",
    "titan-atc17-fig3.toml",
    "titan-atc17-fig4.toml",
    "titan-atc17-memcached.toml",
    "loom-fig2.toml",
    "loom-fig3.toml",
    "loom-fig4.toml",
    "loom-fig9.toml",
    "loom-fig10.toml",
    "loom-fig11.toml",
    "loom-fig12.toml",
    "loom-fig13.toml",
    "loom-doorbells.toml",
    "loom-cpu-parameters.toml",
    "loom-cpu.toml",
    "hoststack-outcast.toml",
    "hoststack-all-to-all.toml",
    "scenarios/veth.toml",
    "veth.toml",
    "scenarios/tune.toml",
    "tune.toml",
    "scenarios/kernel-tcp.toml",
    "kernel-tcp-parameters.toml",
    "kernel-tcp.toml",
    "published/dragonet.csv",
    "scores.toml",
}

/// The text of a file.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns a cost file, a policy or a tenant's file that a scenario names relative to `scenarios/`.
///
/// # Errors
/// Fails with the file's name when it is not compiled into the program.
pub(crate) fn beside_scenarios(path: &str) -> Result<String, FileError> {
    let (above, beside) = (path.strip_prefix("../"), format!("scenarios/{path}"));
    let name = above.unwrap_or(&beside);
    let missing = || FileError::Unreadable(format!("experiments/{name} is not part of this program"));
    text(name).map(str::to_owned).ok_or_else(missing)
}
