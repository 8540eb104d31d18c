//! The HTML page is self-contained, and no text of a report can become markup or script.

use crate::fixture;
use serde_json::json;
use weft_facts::table::{Column, Table};
use weft_report::demo::{DemoReport, demo_html};
use weft_report::html::{HtmlPage, PageBlock, Section, escape, script_json};

/// The text between `from` and the next `to` after it.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}")) + from.len();
    &text[start..start + text[start..].find(to).unwrap_or_else(|| panic!("no {to} after {from}"))]
}

/// The attributes and constructs that make a browser load other files.
fn references(html: &str) -> Vec<&str> {
    let markup = |needle| html.match_indices(needle).map(move |(at, _)| &html[at..(at + 40).min(html.len())]);
    ["src=", "href=", "<link", "<img", "<iframe", "url(", "@import", "fetch(", "XMLHttpRequest"]
        .into_iter()
        .flat_map(markup)
        .collect()
}

#[test]
fn the_page_refers_to_nothing_outside() {
    for report in [fixture::demo_report(), fixture::demo_report_figure_11()] {
        let html = demo_html(&report);
        assert_eq!(references(&html), Vec::<&str>::new());
        assert!(html.contains("default-src 'none'"));
        assert!(html.contains("Copyright (c) 2022 Leon Sorokin"), "uPlot's licence goes with it");
    }
}

#[test]
fn the_page_has_a_panel_per_mode_and_falls_back_to_tables() {
    let html = demo_html(&fixture::demo_report());
    for title in ["(a) SQ", "(b) MQ", "(c) QPF", "(d) Loom"] {
        assert!(html.contains(&format!("<strong>{title}</strong>")), "{title}");
    }
    assert_eq!(html.matches("<div class=\"plot\"").count(), 6, "four panels, latency, queue");
    assert_eq!(html.matches("<noscript>").count(), 7, "one for each plot and the notice");
    let charts: serde_json::Value =
        serde_json::from_str(between(&html, "id=\"charts\">", "</script>")).expect("JSON");
    let ranges: Vec<_> = (0..4).map(|i| (&charts[i]["x"]["range"], &charts[i]["y"]["range"])).collect();
    assert!(ranges.windows(2).all(|w| w[0] == w[1]), "panels share their axes: {ranges:?}");
    assert_eq!(charts[4]["y"]["scale"], "log");
}

#[test]
fn the_embedded_document_is_the_report() {
    let mut report = fixture::demo_report();
    report.link_bps_source = "</script><script>alert(1)</script><!-- & \u{2028}".into();
    let html = demo_html(&report);
    let read: DemoReport = serde_json::from_str(between(&html, "id=\"report\">", "</script>")).expect("JSON");
    assert_eq!(read, report);
}

#[test]
fn hostile_text_stays_text() {
    let evil = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>";
    let mut report = fixture::demo_report();
    report.link_bps_source = evil.into();
    report.congestion_control = evil.into();
    report.command = Some(evil.into());
    report.host.kernel = evil.into();
    report.host.detected.insert(evil.into(), json!({ evil: [evil] }));
    report.flows.insert(evil.into(), 3);
    for mode in &mut report.modes {
        mode.description = evil.into();
        mode.notes.push(evil.into());
        mode.cost.other.insert(evil.into(), json!(evil));
        mode.standing_queue_bytes.insert(evil.into(), 1.0);
        mode.conservation.drops.insert(evil.into(), Default::default());
        mode.conservation.stages[0].name = evil.into();
        mode.samples[40].bps.insert(evil.into(), 1.0);
    }
    let html = demo_html(&report);
    let scripts = demo_html(&fixture::demo_report()).matches("<script").count();
    assert_eq!(html.matches("<script").count(), scripts);
    assert!(!html.contains("<img") && !html.contains("<script>alert"));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn escapes() {
    assert_eq!(escape("a<b>&\"'\0"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}");
    let value = json!({ "</script>": ["<!--", "&", "\u{2029}", "\\", "\n"] });
    let text = script_json(&value);
    assert!(!text.contains(['<', '>', '&', '\u{2029}']));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
}

#[test]
fn a_page_without_charts_has_no_script() {
    let mut table = Table::new("numbers").columns([Column::left("name"), Column::right("value")]);
    table.row(["one", "1"]);
    let page = HtmlPage {
        title: "Other experiments".into(),
        sections: vec![Section::new("A section", [PageBlock::Table(table), PageBlock::Code("a < b".into())])],
        ..HtmlPage::default()
    };
    let html = page.render();
    assert!(
        !html.contains("<script") && html.contains("<td class=\"num\">1</td>") && html.contains("a &lt; b")
    );
}
