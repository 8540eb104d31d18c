//! Discrete-event models that drive the same engine as the real data path.
