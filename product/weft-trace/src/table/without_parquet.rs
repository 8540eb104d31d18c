//! The Parquet writer in builds without Parquet: it cannot be made.

use super::{Cell, Column, TableError};
use core::convert::Infallible;
use core::marker::PhantomData;

/// A writer that cannot be made.
#[derive(Debug)]
pub(super) struct Parquet<W>(Infallible, PhantomData<W>);

impl<W> Parquet<W> {
    pub(super) fn new(_: W, _: &str, _: &[Column]) -> Result<Self, TableError> {
        Err(TableError::NoParquet)
    }

    pub(super) fn row(&mut self, _: &[Cell<'_>]) -> Result<(), TableError> {
        match self.0 {}
    }

    pub(super) fn finish(self) -> Result<W, TableError> {
        match self.0 {}
    }
}
