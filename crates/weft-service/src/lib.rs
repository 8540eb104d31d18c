//! x
pub mod config;
pub mod data_path;
mod entitlement;
pub mod log;
pub mod policy;
pub mod service;
