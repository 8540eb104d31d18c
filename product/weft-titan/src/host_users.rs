//! The users of this host, as the compiler of policies takes them.
//!
//! This crate is the lowest that has both the host and the compiler, so all others take them from here.

use weft_policy::Users;

/// The users of `/etc/passwd`.
pub fn host_users() -> Users {
    Users::from_passwd(&weft_host::users::passwd())
}
