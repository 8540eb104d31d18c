//! The live view of `weft run`: a table of classes.

use ratatui::Frame;
use ratatui::layout::Constraint;
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Row, Table};
use weft_cli::screen::View;
use weft_facts::counters::Counters;
use weft_facts::human;
use weft_facts::status::ServiceStatus;

/// The live view.
#[derive(Debug)]
pub(crate) struct RunView {
    /// The run's description, in a line.
    pub(crate) title: String,
    /// The latest counters.
    pub(crate) status: ServiceStatus,
}

impl View for RunView {
    fn draw(&self, frame: &mut Frame<'_>) {
        let seconds = self.status.uptime_s as u64;
        let clock = format!(" {}:{:02}:{:02} ", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let observed = self.status.uplink.observed_bps.map(human::rate);
        let uplink = observed.map_or_else(String::new, |rate| format!(" uplink carries {rate} ·"));
        let footer = format!(
            "{uplink} received {} · {} · rings waiting {} · q stops ",
            human::count(self.status.received_packets),
            self.status.dropped,
            self.status.backlogged_rings
        );
        let block = Block::bordered()
            .title(Line::from(format!(" {} ", self.title)).bold())
            .title(Line::from(clock).right_aligned())
            .title_bottom(footer);
        let right = |text: String| Cell::from(Line::from(text).right_aligned());
        let rows = self.status.classes.iter().map(|c| {
            Row::new([
                Cell::from(c.class.clone()),
                right(human::rate(c.bps)),
                right(human::count(c.packets)),
                right(human::bytes(c.bytes as f64)),
                right(human::bytes(c.backlog_bytes as f64)),
                right(human::count(c.dropped.total())),
            ])
        });
        let head = ["class", "now", "packets", "bytes", "in the NIC", "dropped"];
        let head = head.iter().enumerate().map(|(i, name)| match i {
            0 => Cell::from(*name),
            _ => right((*name).to_owned()),
        });
        let head = Row::new(head).style(Style::default().add_modifier(Modifier::DIM));
        let widths = [Constraint::Fill(1)].into_iter().chain([Constraint::Length(13); 5]);
        frame.render_widget(Table::new(rows, widths).header(head).block(block), frame.area());
    }
}
