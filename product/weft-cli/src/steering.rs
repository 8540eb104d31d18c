//! The options of a plan of receive queues.

use clap::Args as ClapArgs;
use weft_steer::search::Options;

/// Input of a plan.
#[derive(Debug, ClapArgs)]
pub struct Problem {
    /// The NIC: a model's name, or a file.
    #[arg(long, value_name = "NIC")]
    pub nic: String,
    /// The goals, or the file of a policy that has `steer` clauses.
    #[arg(long, value_name = "POLICY")]
    pub policy: String,
    /// The most queues to use [default: all of the NIC].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub queues: Option<u32>,
    /// Keep queue 0 for packets that no rule matches, as Dragonet does.
    #[arg(long)]
    pub reserve_default: bool,
    /// Also use filter tables that no Linux driver offers.
    #[arg(long)]
    pub all_tables: bool,
    /// The most flows that one event may move.
    #[arg(long, value_name = "N")]
    pub most_moved: Option<u32>,
    /// Seed of the search's restarts.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Problem {
    /// The options of the search.
    pub fn options(&self) -> Options {
        Options {
            queues: self.queues,
            reserve_default: self.reserve_default,
            all_tables: self.all_tables,
            most_moved: self.most_moved,
            seed: self.seed,
            ..Options::default()
        }
    }
}
