//! A store of named descriptors and a state, which outlives the process that uses it.
//!
//! | store | who keeps | where it serves |
//! |---|---|---|
//! | [`KeeperStore`] | a `weft` process ([`crate::keeper`]) | everywhere but below a manager that ends all processes of a service |
//! | [`ManagerStore`] | systemd, process 1 | services with `FileDescriptorStoreMax=` |
//!
//! A user stores descriptors first and the state that names them last. A crash in between leaves descriptors that no state
//! names, which the next user drops ([`Store::clear`], or by their names).

mod keeper;
mod manager;

pub use crate::keeper::Kept;
pub use keeper::KeeperStore;
pub use manager::{ManagerStore, Room, part_of};

use crate::keeper::KeeperError;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The keeper failed.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The keeper could not be started.
    #[error("cannot start the keeper of descriptors: {0}")]
    Start(io::Error),
    /// The service manager failed.
    #[error("the service manager's store of descriptors: {0}")]
    Manager(io::Error),
    /// The service manager stores none.
    #[error(
        "the service manager stores no descriptors for this service: set FileDescriptorStoreMax= in its unit"
    )]
    NoRoom,
    /// The service manager has no room for more. It would close a descriptor beyond its limit without an answer.
    #[error(
        "{needed} more descriptors are to be kept, and the service manager has room for {left} of {most}: raise \
         FileDescriptorStoreMax= in the service's unit and restart it, or remove ports"
    )]
    Full {
        /// The most that it stores.
        most: usize,
        /// Those that have room.
        left: usize,
        /// Those that need room.
        needed: usize,
    },
}

/// A store.
pub trait Store: fmt::Debug + Send {
    /// Keeps a duplicate of `descriptor` under `name`, in place of an older one.
    ///
    /// # Errors
    /// When the keeping process does not take it.
    fn keep(&mut self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), StoreError>;

    /// Checks that `count` more descriptors can be kept. A keeper has no limit.
    ///
    /// # Errors
    /// When they cannot.
    fn check_room(&self, count: usize) -> Result<(), StoreError> {
        let _ = count;
        Ok(())
    }

    /// Closes the descriptor `name`, if there is one.
    ///
    /// # Errors
    /// When the keeping process cannot be reached.
    fn forget(&mut self, name: &str) -> Result<(), StoreError>;

    /// Keeps `state` in place of the former one. The descriptors of earlier calls are stored when this returns.
    ///
    /// # Errors
    /// When the keeping process cannot be reached.
    fn set_state(&mut self, state: &[u8]) -> Result<(), StoreError>;

    /// Forgets the state and all descriptors.
    ///
    /// # Errors
    /// When the keeping process cannot be reached.
    fn clear(&mut self) -> Result<(), StoreError>;

    /// Forgets everything for good: a keeper ends.
    ///
    /// # Errors
    /// When the keeping process cannot be reached.
    fn end(self: Box<Self>) -> Result<(), StoreError>;
}
