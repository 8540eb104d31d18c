//! One file or folder for each subcommand.

pub(crate) mod bench;
pub(crate) mod campaign;
pub(crate) mod demo;
pub(crate) mod profile;
pub(crate) mod reproduce;
mod reproduce_cross;
pub(crate) mod sim;
pub(crate) mod tune;
pub(crate) mod verify;
