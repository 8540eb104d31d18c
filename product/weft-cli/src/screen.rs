//! The alternate screen: drawn by its own thread, and restored on every way out.

use crate::signals::Stop;
use crate::terminal::{DRAWING, SHOWN, is_shown, restore};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between frames, and the longest that a key waits.
const FRAME: Duration = Duration::from_millis(100);

/// The content of a screen.
pub trait View: Send + 'static {
    /// Draws the content.
    fn draw(&self, frame: &mut Frame<'_>);
}

/// A live view on the terminal; the terminal is restored when the value is dropped.
#[derive(Debug)]
pub struct Screen<V> {
    view: Arc<Mutex<V>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<V: View> Screen<V> {
    /// Shows `view`. `q`, Escape and Ctrl-C ask `stop` to end the run.
    pub fn open(view: V, stop: &Stop) -> anyhow::Result<Self> {
        let failed = |e: io::Error| anyhow::anyhow!("the live view cannot be shown ({e}); try --plain");
        let terminal = ratatui::try_init().map_err(failed)?;
        SHOWN.store(true, Ordering::SeqCst);
        let view = Arc::new(Mutex::new(view));
        let end = Arc::new(AtomicBool::new(false));
        let (shown, ended, stop) = (Arc::clone(&view), Arc::clone(&end), stop.clone());
        let thread = std::thread::Builder::new()
            .name("weft-live".to_owned())
            .spawn(move || show(terminal, &shown, &ended, &stop));
        match thread {
            Ok(thread) => Ok(Self { view, end, thread: Some(thread) }),
            Err(error) => {
                restore();
                Err(failed(error))
            }
        }
    }

    /// Changes the content.
    pub fn update(&self, change: impl FnOnce(&mut V)) {
        change(&mut lock(&self.view));
    }
}

impl<V> Drop for Screen<V> {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        restore();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show<V: View>(mut terminal: DefaultTerminal, view: &Mutex<V>, end: &AtomicBool, stop: &Stop) {
    while !end.load(Ordering::SeqCst) {
        {
            let _drawing = lock(&DRAWING);
            let draw = |frame: &mut Frame<'_>| {
                lock(view).draw(frame);
                if stop.asked() {
                    draw_stopping(frame, stop.stopping());
                }
            };
            if !is_shown() || terminal.draw(draw).is_err() {
                return;
            }
        }
        if let Ok(true) = event::poll(FRAME)
            && let Ok(Event::Key(key)) = event::read()
            && key.kind == KeyEventKind::Press
        {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                || (control && key.code == KeyCode::Char('c'))
            {
                stop.interrupt();
            }
        }
    }
}

/// Shows on the last line that the run is ending, which takes a second or two.
fn draw_stopping(frame: &mut Frame<'_>, text: &str) {
    let [_, last] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(format!(" {text} ")).reversed(), last);
}
