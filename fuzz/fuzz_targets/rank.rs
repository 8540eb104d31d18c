//! Any bytes as a scheduling program: interpreter and eBPF agree.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_rank::fuzz_rank(data));
