//! Numbers and byte positions of the kernel's ethtool interface: `include/uapi/linux/ethtool.h`.
//!
//! Positions are those of a 64-bit little- or big-endian machine; `tests/ethtool_layout.rs` holds them against the system's
//! header with the C compiler. Multi-byte numbers are in the machine's order unless a field is one of a packet.

/// `ETHTOOL_GDRVINFO`: `struct ethtool_drvinfo`.
pub(crate) const GDRVINFO: u32 = 0x03;
/// `ETHTOOL_GFLAGS` and `ETHTOOL_SFLAGS`: `struct ethtool_value` of `enum ethtool_flags`.
pub(crate) const GFLAGS: u32 = 0x25;
/// See [`GFLAGS`].
pub(crate) const SFLAGS: u32 = 0x26;
/// `ETHTOOL_GRXFH` and `ETHTOOL_SRXFH`: the fields that the receive hash covers.
pub(crate) const GRXFH: u32 = 0x29;
/// See [`GRXFH`].
pub(crate) const SRXFH: u32 = 0x2a;
/// `ETHTOOL_GRXRINGS`: the number of receive queues.
pub(crate) const GRXRINGS: u32 = 0x2d;
/// `ETHTOOL_GRXCLSRLCNT`: number of rules, and the table's size.
pub(crate) const GRXCLSRLCNT: u32 = 0x2e;
/// `ETHTOOL_GRXCLSRULE`: one rule.
pub(crate) const GRXCLSRULE: u32 = 0x2f;
/// `ETHTOOL_GRXCLSRLALL`: the locations of all rules.
pub(crate) const GRXCLSRLALL: u32 = 0x30;
/// `ETHTOOL_SRXCLSRLDEL`: delete a rule.
pub(crate) const SRXCLSRLDEL: u32 = 0x31;
/// `ETHTOOL_SRXCLSRLINS`: insert a rule.
pub(crate) const SRXCLSRLINS: u32 = 0x32;
/// `ETHTOOL_GCHANNELS` and `ETHTOOL_SCHANNELS`: `struct ethtool_channels`.
pub(crate) const GCHANNELS: u32 = 0x3c;
/// See [`GCHANNELS`].
pub(crate) const SCHANNELS: u32 = 0x3d;
/// `ETHTOOL_GRSSH` and `ETHTOOL_SRSSH`: `struct ethtool_rxfh`.
pub(crate) const GRSSH: u32 = 0x46;
/// See [`GRSSH`].
pub(crate) const SRSSH: u32 = 0x47;

/// `ETH_FLAG_NTUPLE`, of GFLAGS.
pub(crate) const FLAG_NTUPLE: u32 = 1 << 27;

/// `sizeof(struct ethtool_drvinfo)`.
pub(crate) const DRVINFO_LEN: usize = 196;
/// `sizeof(struct ethtool_channels)`.
pub(crate) const CHANNELS_LEN: usize = 36;

/// `struct ethtool_rxnfc`: its size, and where its fields and those of its `struct ethtool_rx_flow_spec` are.
pub(crate) mod rxnfc {
    /// `sizeof(struct ethtool_rxnfc)`, without the locations that may follow.
    pub(crate) const LEN: usize = 192;
    /// `flow_type`, of the commands that have no `fs`.
    pub(crate) const FLOW_TYPE: usize = 4;
    /// `data`.
    pub(crate) const DATA: usize = 8;
    /// `fs.flow_type`.
    pub(crate) const FS_FLOW_TYPE: usize = 16;
    /// `fs.h_u`, the values.
    pub(crate) const VALUE: usize = 20;
    /// `fs.h_ext`, more values.
    pub(crate) const VALUE_EXT: usize = 72;
    /// `fs.m_u`, the masks.
    pub(crate) const MASK: usize = 92;
    /// `fs.m_ext`, more masks.
    pub(crate) const MASK_EXT: usize = 144;
    /// `fs.ring_cookie`.
    pub(crate) const COOKIE: usize = 168;
    /// `fs.location`.
    pub(crate) const LOCATION: usize = 176;
    /// `rule_cnt`, of the commands that count rules.
    pub(crate) const RULE_CNT: usize = 184;
    /// `rss_context`, of those that name one: the same place.
    pub(crate) const RSS_CONTEXT: usize = 184;
    /// `rule_locs`.
    pub(crate) const RULE_LOCS: usize = 188;
    /// `sizeof(union ethtool_flow_union)`.
    pub(crate) const UNION_LEN: usize = 52;
    /// `sizeof(struct ethtool_flow_ext)`.
    pub(crate) const EXT_LEN: usize = 20;
}

/// `struct ethtool_rxfh`.
pub(crate) mod rxfh {
    /// `rss_context`.
    pub(crate) const CONTEXT: usize = 4;
    /// `indir_size`, in entries.
    pub(crate) const INDIR_SIZE: usize = 8;
    /// `key_size`, in bytes.
    pub(crate) const KEY_SIZE: usize = 12;
    /// `hfunc`.
    pub(crate) const HFUNC: usize = 16;
    /// `input_xfrm`, since Linux 6.8; reserved and zero before.
    pub(crate) const INPUT_XFRM: usize = 17;
    /// `rss_config`: the entries (u32), then the key.
    pub(crate) const CONFIG: usize = 24;
    /// `ETH_RXFH_CONTEXT_ALLOC`: make a context.
    pub(crate) const CONTEXT_ALLOC: u32 = 0xffff_ffff;
    /// `ETH_RXFH_INDIR_NO_CHANGE`: leave the table as it is.
    pub(crate) const INDIR_NO_CHANGE: u32 = 0xffff_ffff;
}

/// Writes a number in the machine's order. Positions are constants of this file, within buffers of its lengths.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_ne_bytes());
}

/// Writes a number in the machine's order.
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_ne_bytes());
}

/// Copies `from` to position `at`; what does not fit is left out.
pub(crate) fn put(bytes: &mut [u8], at: usize, from: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + from.len()) {
        place.copy_from_slice(from);
    }
}
