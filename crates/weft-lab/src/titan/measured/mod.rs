//! The Titan papers' experiment on real packets.
