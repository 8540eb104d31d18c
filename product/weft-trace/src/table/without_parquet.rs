//! The Parquet writer in builds without Parquet: it cannot be made.

use super::{CellValue, TableWriteError, TypedColumn};
use core::convert::Infallible;
use core::marker::PhantomData;

/// A writer that cannot be made.
#[derive(Debug)]
pub(super) struct Parquet<W>(Infallible, PhantomData<W>);

impl<W> Parquet<W> {
    pub(super) fn new(_: W, _: &str, _: &[TypedColumn]) -> Result<Self, TableWriteError> {
        Err(TableWriteError::NoParquet)
    }

    pub(super) fn row(&mut self, _: &[CellValue<'_>]) -> Result<(), TableWriteError> {
        match self.0 {}
    }

    pub(super) fn finish(self) -> Result<W, TableWriteError> {
        match self.0 {}
    }
}
