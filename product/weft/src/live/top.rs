//! The live view of `weft top`: classes against their shares, limits, ports.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Row, Table};
use weft_cli::screen::View;
use weft_control::interface::ServiceStatus;
use weft_facts::counters::{ClassEvents, Counters};
use weft_facts::human;
use weft_facts::status::{StatusClass, reasons};

/// The width of the bar that shows a rate against its entitlement.
const BAR: usize = 12;
/// The part of its entitlement below which a class with a backlog is shown in red.
const SHARE_MIN: f64 = 0.8;

/// The live view.
#[derive(Debug, Default)]
pub(crate) struct TopView {
    /// The latest counters.
    pub(crate) status: ServiceStatus,
}

/// The view of one uplink.
#[derive(Debug)]
struct UplinkView<'a> {
    status: &'a ServiceStatus,
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// A table with its head and border. The columns `left` are aligned to the left.
fn table(
    title: &str,
    head: &[&'static str],
    left: &[usize],
    rows: Vec<Row<'static>>,
    area: (Rect, &mut Frame<'_>),
) {
    let cells = head.iter().enumerate().map(|(index, name)| match left.contains(&index) {
        true => Cell::from(*name),
        false => right((*name).to_owned()),
    });
    let head_row = Row::new(cells).style(Style::default().add_modifier(Modifier::DIM));
    let width = |index: usize| match (index, left.contains(&index)) {
        (0, _) => Constraint::Fill(1),
        (_, true) => Constraint::Fill(1),
        _ => Constraint::Length(12),
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let block = Block::bordered().title(format!(" {title} "));
    let (area, frame) = area;
    frame.render_widget(Table::new(rows, widths).header(head_row).block(block), area);
}

/// The rate against the entitlement, as a bar of eighths.
fn bar(class: &StatusClass) -> Span<'static> {
    let Some(entitled) = class.entitled_bps.filter(|bps| *bps > 0.0) else { return Span::raw("") };
    let part = class.bps / entitled;
    let eighths = (part.clamp(0.0, 1.0) * BAR as f64 * 8.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let color = if class.backlog_bytes > 0 && part < SHARE_MIN { Color::Red } else { Color::Green };
    Span::styled("█".repeat(eighths / 8) + rest, Style::default().fg(color))
}

/// The rare events of all classes and ports as text; `None` without one.
pub(crate) fn events(status: &ServiceStatus) -> Option<String> {
    let mut classes = ClassEvents::default();
    status.classes.iter().for_each(|class| classes += class.counters);
    human::named_counts(classes.named().chain(status.counters.named()))
}

impl UplinkView<'_> {
    fn classes(&self) -> Vec<Row<'static>> {
        let row = |c: &StatusClass| {
            Row::new([
                Cell::from(c.class.clone()),
                Cell::from(bar(c)),
                right(human::rate(c.bps)),
                right(human::or_none(c.entitled_bps, human::rate)),
                right(human::bytes(c.backlog_bytes as f64)),
                right(human::or_none(c.sojourn_s, |s| human::time(s.p50))),
                right(human::or_none(c.sojourn_s, |s| human::time(s.p99))),
                Cell::from(reasons(&c.dropped)),
            ])
        };
        self.status.classes.iter().map(row).collect()
    }

    fn limits(&self) -> Vec<Row<'static>> {
        let limits = self.status.limits.iter();
        limits
            .map(|l| {
                Row::new([
                    Cell::from(l.limit.clone()),
                    Cell::from(l.classes.join(", ")),
                    right(human::or_none(l.bps, human::rate)),
                    right(human::rate(l.limit_bps)),
                ])
            })
            .collect()
    }

    fn ports(&self) -> Vec<Row<'static>> {
        let ports = self.status.ports.iter();
        ports
            .map(|p| {
                Row::new([
                    Cell::from(p.port.clone()),
                    Cell::from(p.netns.clone().unwrap_or_default()),
                    right(human::count(p.sent_packets)),
                    right(human::bytes(p.sent_bytes as f64)),
                    right(human::count(p.received_packets)),
                    right(human::count(p.dropped_packets)),
                ])
            })
            .collect()
    }
}

impl View for TopView {
    fn draw(&self, frame: &mut Frame<'_>) {
        let uplinks = self.status.each();
        let parts = Layout::vertical(uplinks.iter().map(|_| Constraint::Fill(1))).split(frame.area());
        for (status, area) in uplinks.into_iter().zip(parts.iter()) {
            UplinkView { status }.draw(*area, frame);
        }
    }
}

impl UplinkView<'_> {
    fn draw(&self, area: Rect, frame: &mut Frame<'_>) {
        let height = |rows: usize| Constraint::Max(u16::try_from(rows.max(1) + 3).unwrap_or(u16::MAX));
        let limits = if self.status.limits.is_empty() {
            Constraint::Length(0)
        } else {
            height(self.status.limits.len())
        };
        let [head, classes, limit_area, ports, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            limits,
            height(self.status.ports.len()),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(Line::from(format!(" {}", self.status.headline())).bold(), head);
        let names = ["class", "of its share", "rate", "entitled", "waiting", "delay p50", "p99", "dropped"];
        table("classes", &names, &[0, 1, 7], self.classes(), (classes, frame));
        if !self.status.limits.is_empty() {
            table(
                "limits",
                &["limit", "classes", "rate", "limit"],
                &[0, 1],
                self.limits(),
                (limit_area, frame),
            );
        }
        let names = ["port", "namespace", "sent", "bytes", "received", "dropped"];
        table("ports", &names, &[0, 1], self.ports(), (ports, frame));
        let dropped = reasons(&self.status.dropped);
        let events = events(self.status).map_or_else(String::new, |events| format!(" · counted: {events}"));
        frame.render_widget(Line::from(format!(" dropped in all: {dropped}{events} · q stops ")).dim(), foot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use weft_facts::status::{StatusLimit, StatusPort};

    #[test]
    fn every_part_is_drawn() {
        let class = StatusClass {
            class: "web".to_owned(),
            bps: 5e6,
            entitled_bps: Some(1e7),
            backlog_bytes: 1,
            counters: ClassEvents { late_claims: weft_units::Packets(3), ..ClassEvents::default() },
            ..StatusClass::default()
        };
        assert_eq!((bar(&class).content.as_ref(), bar(&class).style.fg), ("██████", Some(Color::Red)));
        let limit = StatusLimit { limit: "capped".to_owned(), ..StatusLimit::default() };
        let port = StatusPort { port: "weft0".to_owned(), ..StatusPort::default() };
        let status = ServiceStatus {
            classes: vec![class],
            limits: vec![limit],
            ports: vec![port],
            ..ServiceStatus::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).expect("terminal");
        terminal.draw(|frame| TopView { status }.draw(frame)).expect("drawn");
        let screen = terminal.backend().to_string();
        for word in ["web", "██████", "capped", "weft0", "dropped in all: 0 · counted: late_claims 3"]
        {
            assert!(screen.contains(word), "{word}: {screen}");
        }
    }
}
