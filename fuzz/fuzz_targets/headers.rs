//! Any bytes as a received frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_nic::receive::headers::fuzz_headers(data));
