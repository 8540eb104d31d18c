//! Any line of the other host of `weft profile --to`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_profile::hosts::fuzz_hosts(data));
