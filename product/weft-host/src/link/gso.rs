//! Limits on the segments that the stack passes to a link for segmentation, and their use by open connections.

use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use super::{Result, change, query};
use crate::netns::NetNs;
use crate::sysctl::{self, SysctlError};

/// The limits of a link's segments, in bytes including headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsoSizes {
    /// `gso_max_size`; on kernels before 6.3 also for IPv4.
    pub max: u32,
    /// `gso_ipv4_max_size`; `None` before Linux 6.3.
    pub ipv4_max: Option<u32>,
}

impl GsoSizes {
    /// These limits, capped at `size`.
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
/// If the link does not exist.
pub fn gso_sizes(ns: &NetNs, link: &str) -> Result<GsoSizes> {
    let link = query::show(ns, link)?;
    Ok(GsoSizes { max: link.gso_max_size, ipv4_max: link.gso_ipv4_max_size })
}

/// Caps the segment size at `size` bytes; a smaller limit is kept. Returns the previous limits, for [`set_gso_sizes`] to
/// restore. Connected sockets continue with segments of the old limit, which the kernel cuts to single packets before the
/// device receives them (`gso_features_check` in net/core/dev.c); therefore call [`flush_routes`] at once.
///
/// # Errors
/// If the link does not exist, or the kernel refuses the size.
pub fn limit_gso_size(ns: &NetNs, link: &str, size: u32) -> Result<GsoSizes> {
    let before = gso_sizes(ns, link)?;
    let limits = before.at_most(size);
    if limits != before {
        set_gso_sizes(ns, link, limits)?;
    }
    Ok(before)
}

/// Sets both limits in one request, because the kernel lowers that of IPv4 with the other
/// (`netif_set_gso_max_size` in include/linux/netdevice.h) but never raises it.
///
/// # Errors
/// If the link does not exist, or the kernel refuses a size (above the device's `tso_max_size`).
pub fn set_gso_sizes(ns: &NetNs, link: &str, sizes: GsoSizes) -> Result<()> {
    change(ns, link, message(sizes), |ns| format!("set link {link} of {ns}: gso_max_size to {}", sizes.max))
}

/// Makes every IPv4 socket of the namespace look up its route again with its next packet. A connected TCP socket then adopts
/// the current limits of its device (`rt_genid_bump_ipv4`; `__ip_queue_xmit` calls `sk_setup_caps` when `__sk_dst_check` finds
/// the route obsolete). IPv6 has no such mechanism: its sockets keep the old limits until their route changes.
///
/// # Errors
/// If the kernel lacks the setting or CAP_NET_ADMIN is missing.
pub fn flush_routes(ns: &NetNs) -> std::result::Result<(), SysctlError> {
    sysctl::set(ns, "net.ipv4.route.flush", "1")
}
