//! Records, statistics, tables, plots and documents. Runs nothing.
