//! Many workers with one policy, in virtual time: limits, shares and conservation, beside one engine for all.

mod limits;
mod loops;
mod random;
mod scenes;
mod shares;
mod wire;
