//! Tests of the plans of changed policies.
