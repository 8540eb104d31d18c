//! Any bytes as a capture file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_packet::pcap::fuzz_pcap(data));
