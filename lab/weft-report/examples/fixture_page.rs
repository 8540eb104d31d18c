//! Writes the HTML page of an invented report to standard output, for looking at the page while working on it.
//!
//! `cargo run -p weft-report --example fixture_page [11] > page.html`

#[path = "../tests/suite/fixture/mod.rs"]
#[allow(dead_code, reason = "it uses a part")]
mod fixture;

fn main() {
    let report = match std::env::args().nth(1).as_deref() {
        Some("11") => fixture::demo_report_figure_11(),
        _ => fixture::demo_report(),
    };
    print!("{}", weft_report::demo::demo_html(&report));
}
