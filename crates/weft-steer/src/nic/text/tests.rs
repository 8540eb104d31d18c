//! Models as texts: what is read, what is refused and where.
