//! Any bytes as a frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_packet::headers::fuzz_packet(data));
