//! Receive steering: the binary form of rules, an emulated NIC, and real links.

mod codec;
mod fake;
mod rss;
mod rules;
mod veth;
