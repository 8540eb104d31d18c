//! One file for each subcommand.

pub(crate) mod apply;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod doctor;
pub(crate) mod keeper;
pub(crate) mod laboratory;
pub(crate) mod policy;
mod policy_change;
mod policy_diff;
pub(crate) mod port;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod tenant;
pub(crate) mod titan;
pub(crate) mod top;
