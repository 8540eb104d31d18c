//! Packet formats: headers, segmentation, checksums, captures, classification and sets of packets.
//!
//! | module | contents |
//! |---|---|
//! | [`ecn`] | the mark of congestion in an IP header |
//! | [`ethernet`] | framing: Ethernet's overhead in the frame and on the wire, and the bit of groups |
//! | [`fragment`] | cutting IPv4 datagrams into fragments |
//! | [`headers`] | parsing of Ethernet, IP and transport headers, without allocation |
//! | [`vnet`] | the virtio-net header before frames of TUN, TAP and macvtap |
//! | [`tap`] | packets read from TAP and macvtap, parsed once |
//! | [`segment`] | cutting super-packets into segments, with their checksums |
//! | [`pcap`] | reading and writing captures |
//! | [`classifier`], [`prefix`] | rows of a match table: conjunctions of tests, their containment and intersection |
//! | [`header_match`] | sets of packets as header fields under a mask |
//! | [`rss`] | the Toeplitz hash of receive-side scaling |
//! | [`mutation`] | test support: seeded mutation of inputs for parsers |
//! | `strategies` | test support: random rows for property tests, by the feature `testing` |
#![forbid(unsafe_code)]

pub mod classifier;
pub mod ecn;
pub mod ethernet;
pub mod fragment;
pub mod header_match;
pub mod headers;
pub mod mutation;
pub mod pcap;
pub mod prefix;
pub mod rss;
pub mod segment;
#[cfg(any(test, feature = "testing"))]
pub mod strategies;
pub mod tap;
pub mod vnet;

pub use classifier::{Attribute, AttributeTests, Intersection, Match, PortRange, Prefix};
pub use header_match::{Field, HeaderMatch, Relation};
pub use prefix::ParsePrefixError;
pub use rss::{HashedFields, RssKey, Toeplitz};
