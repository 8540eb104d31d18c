//! Self-contained HTML pages with interactive plots.
//!
//! A [`HtmlPage`] has a title, facts and [`Section`]s of [`PageBlock`]s. [`HtmlPage::render`] makes a single file that opens without a
//! network: the plotting library (uPlot), the style and the script are inlined, and a content security policy forbids
//! everything else. All text is escaped. Without JavaScript the page shows its tables and a summary of each plot.

mod bars;
mod chart;
mod escape;
mod flame;

use std::fmt::Write;

use serde_json::Value;

use crate::judgement::Judgement;
use weft_facts::table::{Align, Table, Tone};

pub use bars::{Bar, BarPart, Bars};
pub use chart::{Axis, AxisScale, AxisUnit, Chart, ChartGroup, ChartLine, Colour, Shape};
pub use escape::{escape, script_json};
pub use flame::{FlameGraph, FlameStack};

/// The plotting library; `assets/uplot/README.md` has version and licence.
const UPLOT_JS: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
/// The library's style.
const UPLOT_CSS: &str = include_str!("../../assets/uplot/uPlot.min.css");
/// The library's licence, which must accompany it.
const UPLOT_LICENSE: &str = include_str!("../../assets/uplot/LICENSE");
/// The page's script.
const PAGE_JS: &str = include_str!("../../assets/page.js");
/// The page's style.
const PAGE_CSS: &str = include_str!("../../assets/page.css");

/// A page.
#[derive(Clone, Debug, Default)]
pub struct HtmlPage {
    /// The title, also of the window.
    pub title: String,
    /// One or two sentences below the title.
    pub subtitle: String,
    /// The sections in order.
    pub sections: Vec<Section>,
    /// The page's data, available to scripts as the JSON text of the element `report`.
    pub data: Option<Value>,
}

/// A part of a page with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The content.
    pub blocks: Vec<PageBlock>,
}

impl Section {
    /// A section.
    pub fn new(title: impl Into<String>, blocks: impl IntoIterator<Item = PageBlock>) -> Self {
        Section { title: title.into(), blocks: blocks.into_iter().collect() }
    }
}

/// A block of a section.
#[derive(Clone, Debug)]
pub enum PageBlock {
    /// A paragraph of text.
    Text(String),
    /// A table.
    Table(Table),
    /// Charts with a common legend.
    Charts(ChartGroup),
    /// Stacked bars.
    Bars(Bars),
    /// A flame graph.
    Flame(FlameGraph),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A command or other text to copy.
    Code(String),
    /// Judgements, each with its requirement, measured figure and bound.
    Checks(Vec<Check>),
}

/// A judgement.
#[derive(Clone, Debug)]
pub struct Check {
    /// The judgement.
    pub judgement: Judgement,
    /// The requirement.
    pub name: String,
    /// The measured figure.
    pub figure: String,
    /// The bound on the figure.
    pub bound: String,
}

impl HtmlPage {
    /// The page as one HTML file.
    pub fn render(&self) -> String {
        let mut charts = Vec::new();
        let mut body = String::new();
        for section in &self.sections {
            let _ = writeln!(body, "<section>\n<h2>{}</h2>", escape(&section.title));
            for block in &section.blocks {
                block_html(&mut body, block, &mut charts);
            }
            body.push_str("</section>\n");
        }
        let title = escape(&self.title);
        let mut out = String::with_capacity(body.len() + UPLOT_JS.len() + 64 * 1024);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; img-src data:\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{UPLOT_CSS}\n{PAGE_CSS}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<p>{}</p>\n</header>\n\
             <noscript><p class=\"note\">The plots need JavaScript. Every plot is summed up as a table in its place; all other \
             figures are in the tables below.</p></noscript>\n<main>\n{body}</main>\n",
            escape(&self.subtitle)
        );
        if let Some(data) = &self.data {
            let json = script_json(data);
            let _ = writeln!(out, "<script type=\"application/json\" id=\"report\">{json}</script>");
        }
        if !charts.is_empty() {
            let json = script_json(&Value::Array(charts));
            let _ = write!(
                out,
                "<script type=\"application/json\" id=\"charts\">{json}</script>\n\
                 <script>\n/*\nuPlot\n\n{UPLOT_LICENSE}*/\n{UPLOT_JS}\n</script>\n<script>\n{PAGE_JS}</script>\n"
            );
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

/// Appends a block. Charts are collected in `charts`; their elements carry the index there.
fn block_html(out: &mut String, block: &PageBlock, charts: &mut Vec<Value>) {
    match block {
        PageBlock::Text(text) => {
            let _ = writeln!(out, "<p>{}</p>", escape(text));
        }
        PageBlock::Code(text) => {
            let _ = writeln!(out, "<pre><code>{}</code></pre>", escape(text));
        }
        PageBlock::Table(table) => table_html(out, table),
        PageBlock::Charts(group) => group.write(out, charts),
        PageBlock::Bars(bars) => bars.write(out),
        PageBlock::Flame(graph) => graph.write(out),
        PageBlock::Facts(facts) => {
            out.push_str("<dl>\n");
            for (name, value) in facts {
                let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
            }
            out.push_str("</dl>\n");
        }
        PageBlock::Checks(checks) => checks_html(out, checks),
    }
}

/// Appends judgements as a list.
fn checks_html(out: &mut String, checks: &[Check]) {
    out.push_str("<ul class=\"checks\">\n");
    for c in checks {
        let (class, mark, word) = match c.judgement {
            Judgement::Holds => ("good", "✓", "holds"),
            Judgement::Fails => ("bad", "✗", "does not hold"),
            Judgement::NotShown(_) => ("unseen", "?", "cannot be shown here"),
        };
        let _ = writeln!(
            out,
            "<li class=\"{class}\"><span class=\"mark\" role=\"img\" aria-label=\"{word}\">{mark}</span>\
             <span class=\"what\">{}</span><span class=\"figure\">{}</span><span class=\"bound\">{}</span></li>",
            escape(&c.name),
            escape(&c.figure),
            escape(&c.bound)
        );
    }
    out.push_str("</ul>\n");
}

/// Appends a table.
pub(crate) fn table_html(out: &mut String, table: &Table) {
    let class = |align: Align| if align == Align::Right { " class=\"num\"" } else { "" };
    out.push_str("<div class=\"scroll\"><table>\n");
    if !table.title().is_empty() {
        let _ = writeln!(out, "<caption>{}</caption>", escape(table.title()));
    }
    out.push_str("<thead><tr>");
    for column in table.heads() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column.align), escape(&column.name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        out.push_str("<tr>");
        for (cell, column) in row.iter().zip(table.heads()) {
            let text = escape(&cell.text);
            let text = match cell.tone {
                Tone::Plain => text,
                Tone::Good => format!("<span class=\"good\">{text}</span>"),
                Tone::Bad => format!("<span class=\"bad\">{text}</span>"),
                Tone::Dim => format!("<span class=\"dim\">{text}</span>"),
            };
            let _ = write!(out, "<td{}>{text}</td>", class(column.align));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    for note in table.notes() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
}
