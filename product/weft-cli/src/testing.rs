//! Help for the tests of both commands.

use clap::Command;

/// The README, which names each command.
pub const README: &str = include_str!("../../../README.md");

/// The commands at and below `command` whose help has no example; a group's commands have theirs.
pub fn without_example(command: &mut Command, path: &str) -> Vec<String> {
    if command.has_subcommands() {
        let below = command.get_subcommands_mut();
        return below.flat_map(|c| without_example(c, &format!("{path} {}", c.get_name()))).collect();
    }
    let help = command.render_long_help().to_string();
    let lacks = !help.contains(&format!("\n  {path}")) && !help.contains(&format!("\n  sudo {path}"));
    if lacks { vec![path.to_owned()] } else { Vec::new() }
}
