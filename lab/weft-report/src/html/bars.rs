//! Stacked horizontal bars, as plain elements: they need no script.

use std::fmt::Write;

use super::chart::Colour;
use super::escape;

/// A part of a bar.
#[derive(Clone, Debug)]
pub struct BarPart {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its length, in the unit of the bars.
    pub value: f64,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its parts, from the left.
    pub parts: Vec<BarPart>,
}

/// Bars with a common scale.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The heading.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Appends the bars' elements. The longest has the full width.
    pub(super) fn write(&self, out: &mut String) {
        let length = |bar: &Bar| -> f64 { bar.parts.iter().map(|part| part.value.max(0.0)).sum() };
        let longest = self.bars.iter().map(length).fold(0.0, f64::max);
        let _ = writeln!(out, "<figure class=\"bars\"><figcaption><strong>{}</strong>", escape(&self.title));
        let _ = writeln!(out, "<span>{}</span></figcaption>", escape(&self.unit));
        self.write_legend(out);
        for bar in &self.bars {
            let _ = write!(out, "<div class=\"bar\"><span class=\"bar-name\">{}</span>", escape(&bar.name));
            out.push_str("<span class=\"bar-line\">");
            for part in bar.parts.iter().filter(|part| part.value > 0.0 && longest > 0.0) {
                let _ = write!(
                    out,
                    "<span class=\"bar-part\" style=\"width:{:.3}%;background:var(--{})\" title=\"{}: {:.4} {}\"></span>",
                    part.value / longest * 100.0,
                    part.colour.name(),
                    escape(&part.name),
                    part.value,
                    escape(&self.unit),
                );
            }
            let _ = writeln!(out, "</span><span class=\"bar-sum\">{:.3}</span></div>", length(bar));
        }
        out.push_str("</figure>\n");
    }

    fn write_legend(&self, out: &mut String) {
        out.push_str("<div class=\"legend\">\n");
        let mut seen: Vec<&str> = Vec::new();
        for part in self.bars.iter().flat_map(|bar| &bar.parts) {
            if seen.contains(&part.name.as_str()) {
                continue;
            }
            seen.push(&part.name);
            let _ = writeln!(
                out,
                "<span><span class=\"swatch\" style=\"--swatch:var(--{})\"></span>{}</span>",
                part.colour.name(),
                escape(&part.name)
            );
        }
        out.push_str("</div>\n");
    }
}
