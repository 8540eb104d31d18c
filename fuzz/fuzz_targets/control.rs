//! Any bytes on a connection to the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_control::fuzz_control(data));
