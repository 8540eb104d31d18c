//! The playground: its answers, its samples, and the page in a browser.

mod answers;
mod browser;
mod chromium;
mod random;
mod samples;
#[path = "../../../../product/weft-facts/tests/suite/schema.rs"]
mod schema;
