//! How large the segments are that the stack hands to a link to be cut there, and making open connections take a new limit.

use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use super::{Result, change, query};
use crate::netns::NetNs;
use crate::sysctl::{self, SysctlError};

/// The limits of a link's segments, in bytes with their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsoSizes {
    /// `gso_max_size`; of kernels before 6.3 that of IPv4 too.
    pub max: u32,
    /// `gso_ipv4_max_size`; none before Linux 6.3.
    pub ipv4_max: Option<u32>,
}

impl GsoSizes {
    /// These limits, or `size` where that is less.
    #[must_use]
    pub fn at_most(self, size: u32) -> Self {
        Self { max: self.max.min(size), ipv4_max: self.ipv4_max.map(|max| max.min(size)) }
    }
}

/// A message that sets both limits.
pub(super) fn message(sizes: GsoSizes) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::GsoMaxSize(sizes.max));
    message.attributes.extend(sizes.ipv4_max.map(LinkAttribute::GsoIpv4MaxSize));
    message
}

/// The link's limits.
///
/// # Errors
/// When there is no such link.
pub fn gso_sizes(ns: &NetNs, link: &str) -> Result<GsoSizes> {
    let link = query::show(ns, link)?;
    Ok(GsoSizes { max: link.gso_max_size, ipv4_max: link.gso_ipv4_max_size })
}

/// Lets no segment be larger than `size` bytes; a smaller limit stays. Returns the limits that were, for
/// [`set_gso_sizes`] to restore. Sockets that are connected go on with segments of the old limit, which the kernel cuts to
/// single packets before the device sees them (`gso_features_check` in net/core/dev.c), so call [`flush_routes`] at once.
///
/// # Errors
/// When there is no such link, or the kernel refuses the size.
pub fn limit_gso_size(ns: &NetNs, link: &str, size: u32) -> Result<GsoSizes> {
    let before = gso_sizes(ns, link)?;
    let limits = before.at_most(size);
    if limits != before {
        set_gso_sizes(ns, link, limits)?;
    }
    Ok(before)
}

/// Sets both limits. They are set in one request because the kernel lowers that of IPv4 with the other
/// (`netif_set_gso_max_size` in include/linux/netdevice.h) but never raises it.
///
/// # Errors
/// When there is no such link, or the kernel refuses a size (above the device's `tso_max_size`).
pub fn set_gso_sizes(ns: &NetNs, link: &str, sizes: GsoSizes) -> Result<()> {
    change(ns, link, message(sizes), |ns| format!("set link {link} of {ns}: gso_max_size to {}", sizes.max))
}

/// Makes every IPv4 socket of the namespace look its route up again with its next packet. A connected TCP socket then takes
/// over what its device's limits are now (`rt_genid_bump_ipv4`; `__ip_queue_xmit` calls `sk_setup_caps` when
/// `__sk_dst_check` finds the route too old). IPv6 has nothing of this kind: its sockets keep what they have until their route
/// changes.
///
/// # Errors
/// When the kernel has no such setting or rights are missing (CAP_NET_ADMIN).
pub fn flush_routes(ns: &NetNs) -> std::result::Result<(), SysctlError> {
    sysctl::set(ns, "net.ipv4.route.flush", "1")
}
