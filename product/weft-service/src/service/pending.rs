//! Answers that come later: what a call began is done in steps, between which the daemon serves others.

use std::cell::OnceCell;
use std::rc::Rc;
use weft_control::error::ControlError;
use weft_control::interface::{GenerationReply, ReloadReply, Reply};

/// A result that comes later. Its clones wait for the same.
#[derive(Debug)]
pub struct Pending<T>(Rc<OnceCell<Result<T, ControlError>>>);

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self(Rc::new(OnceCell::new()))
    }
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Pending<T> {
    /// Sets the result, once.
    pub(super) fn settle(&self, result: Result<T, ControlError>) {
        let _ = self.0.set(result);
    }

    /// The result, if it is there.
    pub fn result(&self) -> Option<&Result<T, ControlError>> {
        self.0.get()
    }
}

/// The steps that a call has begun.
#[derive(Clone, Debug)]
pub enum Later {
    /// The removal of a port.
    Removed(Pending<GenerationReply>),
    /// A reload.
    Reloaded(Pending<ReloadReply>),
}

impl Later {
    /// The answer, if it is there.
    pub fn answer(&self) -> Option<Result<Reply, ControlError>> {
        match self {
            Self::Removed(removed) => Some(removed.result()?.clone().map(Reply::Generation)),
            Self::Reloaded(reloaded) => Some(reloaded.result()?.clone().map(Reply::Reload)),
        }
    }
}

/// The answer of a call.
#[derive(Debug)]
pub enum PendingAnswer {
    /// It is there.
    Now(Reply),
    /// It comes when what the call began is done.
    Later(Later),
}
