//! Tables as objects of Python: values, bytes of a column, and Arrow's capsules.

use crate::arrow::{Schema, Stream};
use crate::failure::Failure;
use crate::table::{self, Cell, Column, Values};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};
use std::sync::Arc;
use weft_text::hint;

/// A table of columns that never changes. pyarrow, polars, pandas and DuckDB take it by `__arrow_c_stream__`.
#[pyclass(frozen, module = "weftline")]
pub(crate) struct Table {
    table: Arc<table::Table>,
}

impl Table {
    pub(crate) fn new(table: table::Table) -> Self {
        Self { table: Arc::new(table) }
    }

    fn find(&self, name: &str) -> Result<&Column, Failure> {
        let columns = &self.table.columns;
        columns.iter().find(|column| column.name == name).ok_or_else(|| {
            let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            Failure::plain(
                format_args!("the table has no column {}", weft_text::quoted(name)),
                &hint(name, &known, &[]),
            )
        })
    }
}

#[pymethods]
impl Table {
    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.table.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.table.rows
    }

    fn __len__(&self) -> usize {
        self.table.rows
    }

    fn __repr__(&self) -> String {
        format!("<weftline.Table of {} rows and {} columns>", self.table.rows, self.table.columns.len())
    }

    /// The values of a column as a list; None where one is missing.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let column = self.find(name)?;
        (0..self.table.rows).map(|row| cell(py, &column.get(row))).collect()
    }

    /// All columns as a dictionary of lists.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for column in &self.table.columns {
            columns.set_item(&column.name, self.column(py, &column.name)?)?;
        }
        Ok(columns)
    }

    /// The values of a column of whole numbers, without missing ones, as bytes of 64-bit numbers.
    fn integers<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let column = self.find(name)?;
        match &column.values {
            Values::Integers(values) if column.missing == 0 => {
                PyBytes::new_with(py, size_of_val(values.as_slice()), |out| {
                    for (place, value) in out.chunks_exact_mut(size_of::<i64>()).zip(values) {
                        place.copy_from_slice(&value.to_ne_bytes());
                    }
                    Ok(())
                })
            }
            _ => {
                Err(Failure::plain(format_args!("`{name}` is no column of whole numbers, or lacks some"), "")
                    .into())
            }
        }
    }

    /// The table as a stream of Arrow's C interface. A requested schema is not followed, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        PyCapsule::new_with_value(py, Stream::of(&self.table), c"arrow_array_stream")
    }

    /// The type of the table by Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, Schema::of(&self.table), c"arrow_schema")
    }
}

fn cell<'py>(py: Python<'py>, cell: &Cell<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match cell {
        Cell::Missing => py.None().into_bound(py),
        Cell::Integer(number) => number.into_pyobject(py)?.into_any(),
        Cell::Float(number) => number.into_pyobject(py)?.into_any(),
        Cell::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Cell::Text(text) => (*text).into_pyobject(py)?.into_any(),
    })
}
