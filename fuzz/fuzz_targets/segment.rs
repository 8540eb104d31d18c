//! Any bytes as a super-packet with its virtio-net header.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_packet::segment::fuzz_segment(data));
