//! The live view of `weft run`: a table of classes.

use ratatui::Frame;
use ratatui::layout::Constraint;
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Row, Table};
use weft_cli::screen::View;
use weft_facts::human;
use weft_run::session::Status;

/// The live view.
#[derive(Debug)]
pub(crate) struct RunView {
    /// The run's description, in a line.
    pub(crate) title: String,
    /// The latest counters.
    pub(crate) status: Status,
}

impl View for RunView {
    fn draw(&self, frame: &mut Frame<'_>) {
        let seconds = self.status.elapsed.as_secs();
        let clock = format!(" {}:{:02}:{:02} ", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let uplink =
            self.status.observed_rate.map_or_else(String::new, |rate| format!(" uplink carries {rate} ·"));
        let footer = format!(
            "{uplink} received {} · {} · rings waiting {} · q stops ",
            human::count(self.status.received),
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
                Cell::from(c.name.clone()),
                right(c.now.to_string()),
                right(human::count(c.packets)),
                right(c.bytes.to_string()),
                right(c.standing.to_string()),
                right(human::count(c.counts.refused.packets.get())),
            ])
        });
        let head = ["class", "now", "packets", "bytes", "in the NIC", "refused"];
        let head = head.iter().enumerate().map(|(i, name)| match i {
            0 => Cell::from(*name),
            _ => right((*name).to_owned()),
        });
        let head = Row::new(head).style(Style::default().add_modifier(Modifier::DIM));
        let widths = [Constraint::Fill(1)].into_iter().chain([Constraint::Length(13); 5]);
        frame.render_widget(Table::new(rows, widths).header(head).block(block), frame.area());
    }
}
