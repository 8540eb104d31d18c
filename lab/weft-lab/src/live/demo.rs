//! The demo's live view: current throughput, its history, queues, progress.

use super::meter::Meter;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Cell, Chart, Dataset, Gauge, GraphType, Paragraph, Row, Table};
use std::time::Instant;
use weft_cli::screen::View;
use weft_experiments::experiments::loom::Live;
use weft_units::{BitsPerSec, Nanos};

/// Windows of 50 ms in the current rate.
const NOW: usize = 10;
/// Windows of 50 ms in a point of the plot.
const POINT: u32 = 5;
/// Colours of the senders, in their order.
const COLORS: [Color; 7] =
    [Color::White, Color::Cyan, Color::Green, Color::Yellow, Color::Magenta, Color::Red, Color::Blue];

/// A sender of the scenario.
#[derive(Debug)]
pub(crate) struct Sender {
    /// The name.
    pub(crate) name: String,
    /// The load, in words.
    pub(crate) load: String,
    /// The index of its class in the policy.
    pub(crate) class: usize,
    /// Points of the plot: seconds and Mb/s.
    points: Vec<(f64, f64)>,
}

impl Sender {
    /// Returns a sender without points.
    pub(crate) fn new(name: &str, load: String, class: usize) -> Self {
        Self { name: name.to_owned(), load, class, points: Vec::new() }
    }
}

/// The demo's live view.
#[derive(Debug)]
pub(crate) struct DemoView {
    title: String,
    senders: Vec<Sender>,
    duration: Nanos,
    phase: String,
    rate: Option<BitsPerSec>,
    mode: (usize, usize),
    at: Nanos,
    meter: Meter,
    windows: u32,
    since: Instant,
}

impl DemoView {
    /// Returns the view of a demo of `count` modes, each of `duration`.
    pub(crate) fn new(title: String, senders: Vec<Sender>, count: usize, duration: Nanos) -> Self {
        Self {
            title,
            senders,
            duration,
            phase: "setting up".to_owned(),
            rate: None,
            mode: (0, count),
            at: Nanos::ZERO,
            meter: Meter::new(NOW),
            windows: 0,
            since: Instant::now(),
        }
    }

    /// Sets the phase.
    pub(crate) fn phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
    }

    /// Sets the link's rate.
    pub(crate) fn rate(&mut self, rate: BitsPerSec) {
        self.rate = Some(rate);
    }

    /// Begins mode number `index`.
    pub(crate) fn begin(&mut self, index: usize, phase: &str) {
        self.mode.0 = index;
        self.at = Nanos::ZERO;
        self.windows = 0;
        self.meter.clear();
        self.senders.iter_mut().for_each(|sender| sender.points.clear());
        self.phase(phase);
    }

    /// Adds a window.
    pub(crate) fn live(&mut self, live: Live<'_>) {
        self.at = live.at;
        self.meter.add(live.sample);
        self.windows += 1;
        if self.windows.is_multiple_of(POINT) && live.at > Nanos::ZERO {
            let at = live.at.as_secs_f64();
            for sender in &mut self.senders {
                sender.points.push((at, mbps(self.meter.rate(sender.class))));
            }
        }
    }

    fn progress(&self) -> f64 {
        let within = (self.at.as_secs_f64() / self.duration.as_secs_f64()).clamp(0.0, 1.0);
        ((self.mode.0 as f64 + within) / self.mode.1.max(1) as f64).clamp(0.0, 1.0)
    }

    fn head(&self, frame: &mut Frame<'_>, area: Rect) {
        let elapsed = self.since.elapsed().as_secs();
        let rate = self.rate.map_or_else(String::new, |rate| format!(" · link {rate}"));
        let clock = format!("{}:{:02} ", elapsed / 60, elapsed % 60);
        let block = Block::bordered()
            .title(Line::from(format!(" {} ", self.title)).bold())
            .title(Line::from(clock).right_aligned());
        let [text, gauge] = Layout::vertical([Constraint::Length(1); 2]).areas(block.inner(area));
        frame.render_widget(block, area);
        frame.render_widget(Paragraph::new(format!(" {}{rate}", self.phase)), text);
        let gauge_style = Style::default().fg(Color::Cyan).bg(Color::DarkGray);
        frame.render_widget(Gauge::default().gauge_style(gauge_style).ratio(self.progress()), gauge);
    }

    fn now(&self, frame: &mut Frame<'_>, area: Rect) {
        let rings = self.meter.backlogged_rings();
        let footer = format!(" rings with packets waiting: {rings} ");
        let block = Block::bordered().title(" now ").title_bottom(Line::from(footer).right_aligned());
        let width = usize::from(area.width.saturating_sub(56)).max(8);
        let rows = self.senders.iter().zip(COLORS.iter().cycle()).map(|(sender, color)| {
            let rate = self.meter.rate(sender.class);
            Row::new([
                Cell::from(Span::styled(sender.name.clone(), Style::default().fg(*color).bold())),
                Cell::from(sender.load.clone()),
                Cell::from(Span::styled(bar(rate, self.rate, width), Style::default().fg(*color))),
                Cell::from(Line::from(format!("{:.1} Mb/s", mbps(rate))).right_aligned()),
                Cell::from(Line::from(self.meter.standing(sender.class).to_string()).right_aligned()),
            ])
        });
        let head = [
            Cell::from("tenant"),
            Cell::from("sends"),
            Cell::from("throughput"),
            Cell::from(Line::from("now").right_aligned()),
            Cell::from(Line::from("in the NIC").right_aligned()),
        ];
        let widths = [
            Constraint::Length(7),
            Constraint::Length(16),
            Constraint::Fill(1),
            Constraint::Length(12),
            Constraint::Length(11),
        ];
        let head = Row::new(head).style(Style::default().add_modifier(Modifier::DIM));
        frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
    }

    fn plot(&self, frame: &mut Frame<'_>, area: Rect) {
        let top = self.rate.map_or(1.0, mbps);
        let end = self.duration.as_secs_f64();
        let datasets = self.senders.iter().zip(COLORS.iter().cycle()).map(|(sender, color)| {
            Dataset::default()
                .name(sender.name.clone())
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::default().fg(*color))
                .data(&sender.points)
        });
        let labels = |end: f64| [0.0, end / 2.0, end].map(|x| Line::from(format!("{x:.0}")));
        let x = Axis::default().title("s").bounds([0.0, end]).labels(labels(end));
        let y = Axis::default().title("Mb/s").bounds([0.0, top]).labels(labels(top));
        let block = Block::bordered().title(" throughput over time ");
        let block = block.title_bottom(Line::from(" q or Ctrl-C stops ").right_aligned());
        frame.render_widget(Chart::new(datasets.collect()).block(block).x_axis(x).y_axis(y), area);
    }
}

impl View for DemoView {
    fn draw(&self, frame: &mut Frame<'_>) {
        let senders = u16::try_from(self.senders.len()).unwrap_or(u16::MAX);
        let parts =
            [Constraint::Length(4), Constraint::Length(senders.saturating_add(3)), Constraint::Min(6)];
        let [head, now, plot] = Layout::vertical(parts).areas(frame.area());
        self.head(frame, head);
        self.now(frame, now);
        self.plot(frame, plot);
    }
}

fn mbps(rate: BitsPerSec) -> f64 {
    rate.get() as f64 / 1e6
}

/// Returns a bar of at most `width` characters: `rate` over `most`, in eighths of a character.
fn bar(rate: BitsPerSec, most: Option<BitsPerSec>, width: usize) -> String {
    let part = most.map_or(0.0, |most| mbps(rate) / mbps(most).max(1e-9)).clamp(0.0, 1.0);
    let eighths = (part * width as f64 * 8.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_rates() {
        let link = Some(BitsPerSec(100_000_000));
        assert_eq!(bar(BitsPerSec(50_000_000), link, 10), "█████");
        assert_eq!(bar(BitsPerSec(2_500_000), link, 10), "▎");
        assert_eq!(bar(BitsPerSec(900_000_000), link, 3), "███");
        assert_eq!(bar(BitsPerSec(1), None, 10), "");
    }
}
