//! The software NIC: ports, descriptor rings, doorbells, segmentation and the transmit worker.

pub mod fuzz;
pub mod packet;
pub mod pcap;
pub mod segment;
pub mod vnet;
