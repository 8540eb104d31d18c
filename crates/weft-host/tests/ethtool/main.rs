//! Receive steering: rules as bytes, a made-up NIC, and real links.

mod codec;
mod fake;
mod rss;
mod rules;
mod veth;
