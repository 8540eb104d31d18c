//! The crate's tests of its public interface, in one program.

mod behaviour;
mod change;
mod corpus;
mod many;
mod natives;
mod queues;
mod reference;
mod slow;
mod weight_updates;
mod workers;
