//! The command line of weftline.
fn main() {}
