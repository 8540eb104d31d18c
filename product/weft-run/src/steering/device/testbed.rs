//! Documentation addresses, to which no host sends: RFC 5737 and RFC 3849.

pub(super) const SOURCE4: &str = "192.0.2.1";
pub(super) const DESTINATION4: &str = "198.51.100.1";
pub(super) const SOURCE6: &str = "2001:db8::1";
pub(super) const DESTINATION6: &str = "2001:db8::2";
