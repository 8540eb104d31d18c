//! Progress of the demo: the live view on a terminal, plain lines elsewhere.

use crate::live::demo::{DemoView, Sender};
use crate::live::meter::Meter;
use weft_cli::output;
use weft_cli::screen::Screen;
use weft_cli::signals::Stop;
use weft_experiments::experiments::loom::{DemoEvent, DemoOptions, Live};
use weft_nic::plan::Mode;
use weft_policy::CompiledPolicy;
use weft_units::{Bytes, Nanos};

/// Windows of 50 ms in a plain line: one second.
const LINE: u32 = 20;

/// The observer of the demo.
#[derive(Debug)]
pub(super) enum Watch {
    /// The live view.
    Live(Box<Screen<DemoView>>),
    /// Plain lines.
    Plain(Plain),
}

/// State of the plain lines.
#[derive(Debug)]
pub(super) struct Plain {
    /// Names of the senders, and indices of their classes.
    senders: Vec<(String, usize)>,
    meter: Meter,
    windows: u32,
}

impl Watch {
    /// Opens the live view, or prints the title.
    pub(super) fn open(
        live: bool,
        policy: &CompiledPolicy,
        options: &DemoOptions,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let class = |name: &str| policy.classes.iter().position(|c| c.name == name).unwrap_or(usize::MAX);
        let scenario = &options.scenario;
        let names = scenario.names();
        if !live {
            let senders = names.iter().map(|name| ((*name).to_owned(), class(name))).collect();
            return Ok(Self::Plain(Plain { senders, meter: Meter::new(LINE as usize), windows: 0 }));
        }
        let load = |name: &str| match scenario.bulk.iter().find(|b| b.name == name) {
            Some(bulk) if bulk.flows == 1 => "1 TCP flow".to_owned(),
            Some(bulk) => format!("{} TCP flows", bulk.flows),
            None => format!("{} requests/s", options.requests_per_s),
        };
        let senders = names.iter().map(|name| Sender::new(name, load(name), class(name))).collect();
        let title = format!("weft demo · Loom, Figure {}", scenario.figure);
        let view = DemoView::new(title, senders, options.modes.len(), scenario.duration);
        Ok(Self::Live(Box::new(Screen::open(view, stop)?)))
    }

    /// Shows an event.
    pub(super) fn event(&mut self, event: &DemoEvent<'_>) {
        match self {
            Self::Live(screen) => screen.update(|view| show(view, event)),
            Self::Plain(plain) => plain.event(event),
        }
    }
}

fn show(view: &mut DemoView, event: &DemoEvent<'_>) {
    match event {
        DemoEvent::Calibrating => view.phase(CALIBRATING),
        DemoEvent::Rate { rate, .. } => view.rate(*rate),
        DemoEvent::ModeStarts { mode, index, count } => {
            view.begin(*index, &starts(*mode, *index, *count));
        }
        DemoEvent::Live(live) => view.live(*live),
        DemoEvent::ModeEnds(outcome) => view.phase(&format!("{} has ended", title(outcome.mode))),
    }
}

impl Plain {
    fn event(&mut self, event: &DemoEvent<'_>) {
        match event {
            DemoEvent::Calibrating => output::message(CALIBRATING),
            DemoEvent::Rate { rate, trial: None } => output::message(&format!("link: {rate}")),
            DemoEvent::Rate { rate, trial: Some(trial) } => {
                output::message(&format!("link: {rate}, {}", trial.sentence()));
            }
            DemoEvent::ModeStarts { mode, index, count } => {
                self.windows = 0;
                self.meter.clear();
                output::message(&starts(*mode, *index, *count));
            }
            DemoEvent::Live(live) => self.live(*live),
            DemoEvent::ModeEnds(_) => {}
        }
    }

    /// Prints a line per second.
    fn live(&mut self, live: Live<'_>) {
        self.meter.add(live.sample);
        if live.at == Nanos::ZERO {
            return;
        }
        self.windows += 1;
        if !self.windows.is_multiple_of(LINE) {
            return;
        }
        let mut line = format!("{:>4} {:>4.0} s ", live.mode.name(), live.at.as_secs_f64());
        for (name, class) in &self.senders {
            let mbps = self.meter.rate(*class).get() as f64 / 1e6;
            line.push_str(&format!(" {name} {mbps:>6.1}"));
        }
        let standing: Bytes = self.senders.iter().map(|(_, class)| self.meter.standing(*class)).sum();
        let rings = self.meter.backlogged_rings();
        output::message(&format!("{line} Mb/s, {standing} in the NIC, {rings} rings waiting"));
    }
}

const CALIBRATING: &str = "measuring this machine's capacity, to choose the link's rate below it";

fn title(mode: Mode) -> String {
    match mode {
        Mode::OneRing => "SQ, one queue".to_owned(),
        Mode::HashedRings { queues } | Mode::Multiqueue { queues, .. } => {
            format!("MQ, {queues} queues, flows spread by hash")
        }
        Mode::RingPerFlow => "QPF, a queue per flow".to_owned(),
        Mode::Loom => "Loom, the policy in the NIC".to_owned(),
    }
}

fn starts(mode: Mode, index: usize, count: usize) -> String {
    format!("mode {} of {count}: {}", index + 1, title(mode))
}
