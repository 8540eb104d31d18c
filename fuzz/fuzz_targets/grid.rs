//! Any bytes as the grid of a campaign.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_campaign::fuzz_grid(data));
