//! Any bytes as a scheduling program: interpreter, machine code and eBPF agree.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_rank_cranelift::fuzz_rank(data));
