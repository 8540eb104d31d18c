//! Any bytes as a packet that was read from a TAP or macvtap.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_packet::tap::fuzz_tap(data));
