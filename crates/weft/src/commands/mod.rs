//! One file for each subcommand.

pub(crate) mod bench;
pub(crate) mod campaign;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod keeper;
pub(crate) mod man;
pub(crate) mod policy;
mod policy_change;
mod policy_diff;
pub(crate) mod port;
pub(crate) mod profile;
pub(crate) mod replay;
pub(crate) mod reproduce;
mod reproduce_cross;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod tenant;
pub(crate) mod titan;
pub(crate) mod top;
pub(crate) mod tune;
