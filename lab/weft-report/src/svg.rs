//! Charts of lines as SVG files, with logarithmic axes.

use std::fmt::Write;

use crate::html::escape;

/// A line's strokes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stroke {
    /// Without gaps.
    Solid,
    /// Of dashes.
    Dashed,
    /// Of dots.
    Dotted,
}

impl Stroke {
    fn dashes(self) -> &'static str {
        match self {
            Stroke::Solid => "",
            Stroke::Dashed => "6 3",
            Stroke::Dotted => "2 3",
        }
    }
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The number of its colour, from 0.
    pub colour: usize,
    /// Its strokes.
    pub stroke: Stroke,
    /// Its points. One outside of the chart is drawn at its edge.
    pub points: Vec<(f64, f64)>,
}

/// A chart whose axes are both logarithmic.
#[derive(Clone, Debug)]
pub struct LogChart {
    /// Its heading, which says what the axes are.
    pub title: String,
    /// The marks of the horizontal axis; the first and the last are its ends.
    pub x: Vec<f64>,
    /// The marks of the vertical axis, from the least; the first and the last are its ends.
    pub y: Vec<f64>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Okabe and Ito's colours without yellow: distinguishable with every kind of colour vision.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#7f7f7f", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/// The area of the lines: left, top, width, height.
const AREA: [f64; 4] = [70.0, 40.0, 490.0, 310.0];
/// The distance of two entries of the legend.
const ENTRY: f64 = 20.0;

impl LogChart {
    /// The chart as a file.
    pub fn render(&self) -> String {
        let [left, top, width, height] = AREA;
        let (right, bottom) = (left + width, top + height);
        let whole = (bottom + 40.0).max(top + ENTRY * self.lines.len() as f64 + 20.0);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"{whole}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"860\" height=\"{whole}\" fill=\"white\"/>\n<text x=\"{left}\" y=\"20\">{}</text>\n",
            escape(&self.title)
        );
        for mark in &self.y {
            let at = bottom - place(*mark, &self.y) * height;
            let _ = writeln!(
                out,
                "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mark}</text>",
                left - 6.0,
                at + 4.0
            );
        }
        for mark in &self.x {
            let at = left + place(*mark, &self.x) * width;
            let _ = writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>",
                bottom + 16.0
            );
        }
        for (at, line) in self.lines.iter().enumerate() {
            self.draw(&mut out, line, top + ENTRY * at as f64);
        }
        out.push_str("</svg>\n");
        out
    }

    /// Draws a line, and its entry of the legend.
    fn draw(&self, out: &mut String, line: &Line, entry: f64) {
        let [left, top, width, height] = AREA;
        let colour = COLOURS[line.colour % COLOURS.len()];
        let style = format!(
            "fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{}\"",
            line.stroke.dashes()
        );
        let point = |(x, y): &(f64, f64)| {
            let (x, y) = (place(*x, &self.x), place(*y, &self.y));
            format!("{:.1},{:.1}", left + x * width, top + height - y * height)
        };
        let points: Vec<String> = line.points.iter().map(point).collect();
        let _ = writeln!(out, "<polyline points=\"{}\" {style}/>", points.join(" "));
        let _ = writeln!(
            out,
            "<path d=\"M580 {entry}h30\" {style}/><text x=\"616\" y=\"{}\">{}</text>",
            entry + 4.0,
            escape(&line.name)
        );
    }
}

/// The place of a value between the first and the last mark, from 0 to 1. A value that has no logarithm is at the beginning.
fn place(value: f64, marks: &[f64]) -> f64 {
    let ends = marks.first().zip(marks.last()).filter(|(first, last)| **first > 0.0 && first < last);
    let Some((first, last)) = ends else { return 0.0 };
    let part = (value.max(*first) / first).ln() / (last / first).ln();
    if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_within_the_chart_and_names_are_escaped() {
        let points = vec![(1.0, 0.0), (10.0, 10.0), (1e9, f64::NAN), (f64::INFINITY, 1e9)];
        let line = Line { name: "a<b".to_owned(), colour: 9, stroke: Stroke::Dotted, points };
        let (x, y) = (vec![1.0, 10.0, 100.0], vec![0.1, 1.0, 10.0]);
        let chart = LogChart { title: "t & u".to_owned(), x, y, lines: vec![line] };
        let text = chart.render();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("a&lt;b") && text.contains("t &amp; u") && !text.contains("NaN"), "{text}");
        assert!(text.contains("points=\"70.0,350.0 315.0,40.0 560.0,350.0 "), "{text}");
        let none = LogChart { title: String::new(), x: vec![], y: vec![3.0], lines: vec![] };
        assert!(!none.render().contains("NaN"));
    }
}
