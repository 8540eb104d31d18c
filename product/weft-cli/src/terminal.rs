//! State of the terminal during a live view, and its restoration.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal shows a live view, and must be restored.
pub static SHOWN: AtomicBool = AtomicBool::new(false);
/// Held while a frame is drawn, so that nothing is drawn after the terminal was restored.
pub static DRAWING: Mutex<()> = Mutex::new(());

/// Whether a live view is possible: standard output and standard input are a terminal that can move its cursor.
pub fn possible() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
}

/// Whether a live view is shown, which messages would disturb.
pub fn is_shown() -> bool {
    SHOWN.load(Ordering::SeqCst)
}

/// Restores the terminal if a live view is shown.
pub fn restore() {
    // A thread that panicked while drawing has released the lock; its frame is irrelevant.
    let _drawing = DRAWING.try_lock();
    if SHOWN.swap(false, Ordering::SeqCst) {
        let _ = ratatui::try_restore();
    }
}

/// Makes panics restore the terminal before they print.
pub fn install_panic_hook() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        before(info);
    }));
}
