//! Numbers and byte positions of the kernel's ethtool interface: `include/uapi/linux/ethtool.h`.
//!
//! Positions are those of 64-bit machines of either byte order; the test below compares them with the system's header using
//! the C compiler. Multi-byte numbers are in host order unless they are packet fields.

/// `ETHTOOL_GDRVINFO`: `struct ethtool_drvinfo`.
pub(crate) const GDRVINFO: u32 = 0x03;
/// `ETHTOOL_GCOALESCE`: `struct ethtool_coalesce`.
pub(crate) const GCOALESCE: u32 = 0x0e;
/// `ETHTOOL_GRINGPARAM`: `struct ethtool_ringparam`.
pub(crate) const GRINGPARAM: u32 = 0x10;
/// `ETHTOOL_GTSO` and `ETHTOOL_STSO`: `struct ethtool_value`.
pub(crate) const GTSO: u32 = 0x1e;
/// See [`GTSO`].
pub(crate) const STSO: u32 = 0x1f;
/// `ETHTOOL_GGSO` and `ETHTOOL_SGSO`: `struct ethtool_value`.
pub(crate) const GGSO: u32 = 0x23;
/// See [`GGSO`].
pub(crate) const SGSO: u32 = 0x24;
/// `ETHTOOL_GFLAGS` and `ETHTOOL_SFLAGS`: `struct ethtool_value` of `enum ethtool_flags`.
pub(crate) const GFLAGS: u32 = 0x25;
/// See [`GFLAGS`].
pub(crate) const SFLAGS: u32 = 0x26;
/// `ETHTOOL_GRXFH` and `ETHTOOL_SRXFH`: the fields that the receive hash covers.
pub(crate) const GRXFH: u32 = 0x29;
/// See [`GRXFH`].
pub(crate) const SRXFH: u32 = 0x2a;
/// `ETHTOOL_GGRO` and `ETHTOOL_SGRO`: `struct ethtool_value`.
pub(crate) const GGRO: u32 = 0x2b;
/// See [`GGRO`].
pub(crate) const SGRO: u32 = 0x2c;
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

/// `struct ethtool_coalesce`: its size, and the positions of its times in microseconds.
pub(crate) mod coalesce {
    /// `sizeof(struct ethtool_coalesce)`.
    pub(crate) const LEN: usize = 92;
    /// `rx_coalesce_usecs`.
    pub(crate) const RX: usize = 4;
    /// `tx_coalesce_usecs`.
    pub(crate) const TX: usize = 20;
}

/// `struct ethtool_ringparam`: its size, and the positions of the lengths in use.
pub(crate) mod ringparam {
    /// `sizeof(struct ethtool_ringparam)`.
    pub(crate) const LEN: usize = 36;
    /// `rx_pending`.
    pub(crate) const RX: usize = 20;
    /// `tx_pending`.
    pub(crate) const TX: usize = 32;
}

/// `struct ethtool_rxnfc`: its size, and the positions of its fields and of those of its `struct ethtool_rx_flow_spec`.
pub(crate) mod rxnfc {
    /// `sizeof(struct ethtool_rxnfc)`, without the locations that may follow.
    pub(crate) const LEN: usize = 192;
    /// `flow_type`, for commands without `fs`.
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
    /// `rule_cnt`, for commands that count rules.
    pub(crate) const RULE_CNT: usize = 184;
    /// `rss_context`, for commands that name a context: the same position.
    pub(crate) const RSS_CONTEXT: usize = 184;
    /// `rule_locs`.
    pub(crate) const RULE_LOCS: usize = 188;
    /// `sizeof(union ethtool_flow_union)`.
    pub(crate) const UNION_LEN: usize = 52;
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
    /// `ETH_RXFH_INDIR_NO_CHANGE`: keep the table.
    pub(crate) const INDIR_NO_CHANGE: u32 = 0xffff_ffff;
}

/// Writes a number in host order. Positions are constants of this file, within buffers of its lengths.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_ne_bytes());
}

/// Writes a number in host order.
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_ne_bytes());
}

/// Copies `from` to position `at`, truncated to the buffer.
pub(crate) fn put(bytes: &mut [u8], at: usize, from: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + from.len()) {
        place.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Each constant of this file beside its expression in C.
    const CONSTANTS: &[(u64, &str)] = &[
        (super::GDRVINFO as u64, "ETHTOOL_GDRVINFO"),
        (super::GCOALESCE as u64, "ETHTOOL_GCOALESCE"),
        (super::coalesce::LEN as u64, "sizeof(struct ethtool_coalesce)"),
        (super::coalesce::RX as u64, "offsetof(struct ethtool_coalesce, rx_coalesce_usecs)"),
        (super::coalesce::TX as u64, "offsetof(struct ethtool_coalesce, tx_coalesce_usecs)"),
        (super::GRINGPARAM as u64, "ETHTOOL_GRINGPARAM"),
        (super::ringparam::LEN as u64, "sizeof(struct ethtool_ringparam)"),
        (super::ringparam::RX as u64, "offsetof(struct ethtool_ringparam, rx_pending)"),
        (super::ringparam::TX as u64, "offsetof(struct ethtool_ringparam, tx_pending)"),
        (super::GTSO as u64, "ETHTOOL_GTSO"),
        (super::STSO as u64, "ETHTOOL_STSO"),
        (super::GGSO as u64, "ETHTOOL_GGSO"),
        (super::SGSO as u64, "ETHTOOL_SGSO"),
        (super::GGRO as u64, "ETHTOOL_GGRO"),
        (super::SGRO as u64, "ETHTOOL_SGRO"),
        (super::GFLAGS as u64, "ETHTOOL_GFLAGS"),
        (super::SFLAGS as u64, "ETHTOOL_SFLAGS"),
        (super::GRXFH as u64, "ETHTOOL_GRXFH"),
        (super::SRXFH as u64, "ETHTOOL_SRXFH"),
        (super::GRXRINGS as u64, "ETHTOOL_GRXRINGS"),
        (super::GRXCLSRLCNT as u64, "ETHTOOL_GRXCLSRLCNT"),
        (super::GRXCLSRULE as u64, "ETHTOOL_GRXCLSRULE"),
        (super::GRXCLSRLALL as u64, "ETHTOOL_GRXCLSRLALL"),
        (super::SRXCLSRLDEL as u64, "ETHTOOL_SRXCLSRLDEL"),
        (super::SRXCLSRLINS as u64, "ETHTOOL_SRXCLSRLINS"),
        (super::GCHANNELS as u64, "ETHTOOL_GCHANNELS"),
        (super::SCHANNELS as u64, "ETHTOOL_SCHANNELS"),
        (super::GRSSH as u64, "ETHTOOL_GRSSH"),
        (super::SRSSH as u64, "ETHTOOL_SRSSH"),
        (super::FLAG_NTUPLE as u64, "ETH_FLAG_NTUPLE"),
        (super::DRVINFO_LEN as u64, "sizeof(struct ethtool_drvinfo)"),
        (super::CHANNELS_LEN as u64, "sizeof(struct ethtool_channels)"),
        (4, "offsetof(struct ethtool_drvinfo, driver)"),
        (36, "offsetof(struct ethtool_drvinfo, version)"),
        (68, "offsetof(struct ethtool_drvinfo, fw_version)"),
        (100, "offsetof(struct ethtool_drvinfo, bus_info)"),
        (4, "offsetof(struct ethtool_channels, max_rx)"),
        (20, "offsetof(struct ethtool_channels, rx_count)"),
        (32, "offsetof(struct ethtool_channels, combined_count)"),
        (4, "offsetof(struct ethtool_value, data)"),
        (super::rxnfc::LEN as u64, "sizeof(struct ethtool_rxnfc)"),
        (super::rxnfc::FLOW_TYPE as u64, "offsetof(struct ethtool_rxnfc, flow_type)"),
        (super::rxnfc::DATA as u64, "offsetof(struct ethtool_rxnfc, data)"),
        (super::rxnfc::FS_FLOW_TYPE as u64, "offsetof(struct ethtool_rxnfc, fs.flow_type)"),
        (super::rxnfc::VALUE as u64, "offsetof(struct ethtool_rxnfc, fs.h_u)"),
        (super::rxnfc::VALUE_EXT as u64, "offsetof(struct ethtool_rxnfc, fs.h_ext)"),
        (super::rxnfc::MASK as u64, "offsetof(struct ethtool_rxnfc, fs.m_u)"),
        (super::rxnfc::MASK_EXT as u64, "offsetof(struct ethtool_rxnfc, fs.m_ext)"),
        (super::rxnfc::COOKIE as u64, "offsetof(struct ethtool_rxnfc, fs.ring_cookie)"),
        (super::rxnfc::LOCATION as u64, "offsetof(struct ethtool_rxnfc, fs.location)"),
        (super::rxnfc::RULE_CNT as u64, "offsetof(struct ethtool_rxnfc, rule_cnt)"),
        (super::rxnfc::RSS_CONTEXT as u64, "offsetof(struct ethtool_rxnfc, rss_context)"),
        (super::rxnfc::RULE_LOCS as u64, "offsetof(struct ethtool_rxnfc, rule_locs)"),
        (super::rxnfc::UNION_LEN as u64, "sizeof(union ethtool_flow_union)"),
        (super::rxfh::CONTEXT as u64, "offsetof(struct ethtool_rxfh, rss_context)"),
        (super::rxfh::INDIR_SIZE as u64, "offsetof(struct ethtool_rxfh, indir_size)"),
        (super::rxfh::KEY_SIZE as u64, "offsetof(struct ethtool_rxfh, key_size)"),
        (super::rxfh::HFUNC as u64, "offsetof(struct ethtool_rxfh, hfunc)"),
        // input_xfrm in newer headers, the first reserved byte in older ones.
        (super::rxfh::INPUT_XFRM as u64, "offsetof(struct ethtool_rxfh, hfunc) + 1"),
        (super::rxfh::CONFIG as u64, "offsetof(struct ethtool_rxfh, rss_config)"),
        (super::rxfh::CONTEXT_ALLOC as u64, "ETH_RXFH_CONTEXT_ALLOC"),
        (super::rxfh::INDIR_NO_CHANGE as u64, "ETH_RXFH_INDIR_NO_CHANGE"),
    ];

    #[test]
    fn the_system_header_has_these_numbers() {
        let checks: String = CONSTANTS
            .iter()
            .map(|(number, expression)| {
                format!("_Static_assert({expression} == {number}ULL, \"{expression}\");\n")
            })
            .collect();
        let headers = "#include <stddef.h>\n#include <sys/types.h>\n#include <linux/ethtool.h>\n";
        let file = std::env::temp_dir().join(crate::testing::unique("layout.c"));
        std::fs::write(&file, format!("{headers}{checks}")).expect("written");
        let output =
            Command::new("cc").args(["-fsyntax-only", "-Wall"]).arg(&file).output().expect("cc runs");
        std::fs::remove_file(&file).expect("removed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
