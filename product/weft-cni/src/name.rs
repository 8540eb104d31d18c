//! Names of ports: a function of network and attachment, so that DEL and GC need no stored state.
//!
//! The daemon's names are unique and at most 15 bytes, as a network device's. Containers all call theirs `eth0`. So a port
//! is named `w`, six letters for the network and eight for the attachment, and its device is renamed in the container.

use crate::environment::Attachment;

/// The letters of a name: base 32, five bits each.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Letters for the network: 30 bits. GC removes the ports of one network only, so networks must differ.
const NETWORK_LETTERS: u32 = 6;
/// Letters for the attachment: 40 bits.
const ATTACHMENT_LETTERS: u32 = 8;

/// The length of every name.
pub const LENGTH: usize = 1 + (NETWORK_LETTERS + ATTACHMENT_LETTERS) as usize;

/// FNV-1a of 64 bits, and the last step of MurmurHash3 (fmix64), since the upper bits of FNV-1a hardly depend on the last
/// bytes. Stable over versions and machines, unlike the standard library's.
fn hash(parts: &[&str]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    // A zero ends each part; none contains one.
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, step);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

fn letters(hash: u64, count: u32) -> String {
    (1..=count).map(|n| char::from(LETTERS[(hash >> (64 - 5 * n) & 31) as usize])).collect()
}

/// The beginning of the names of a network's ports.
pub fn prefix(network: &str) -> String {
    format!("w{}", letters(hash(&[network]), NETWORK_LETTERS))
}

/// The name of an attachment's port.
pub fn port(network: &str, attachment: &Attachment) -> String {
    let of = hash(&[network, &attachment.container, &attachment.interface]);
    prefix(network) + &letters(of, ATTACHMENT_LETTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(network: &str, container: &str, interface: &str) -> String {
        port(network, &Attachment { container: container.to_owned(), interface: interface.to_owned() })
    }

    #[test]
    fn a_name_is_a_function_of_network_and_attachment() {
        assert_eq!(name("dbnet", "a", "eth0"), name("dbnet", "a", "eth0"));
        let others =
            [("dbnet", "a", "eth1"), ("dbnet", "b", "eth0"), ("web", "a", "eth0"), ("dbnet", "ae", "th0")];
        for (network, container, interface) in others {
            assert_ne!(name(network, container, interface), name("dbnet", "a", "eth0"));
        }
        assert!(name("dbnet", "a", "eth0").starts_with(&prefix("dbnet")));
        assert!(!name("web", "a", "eth0").starts_with(&prefix("dbnet")));
    }

    #[test]
    fn names_stay_as_versions_change() {
        // A container that an older version connected must be disconnected by this one.
        assert_eq!(name("dbnet", "0123456789abcdef", "eth0").len(), 15);
        assert_eq!(prefix("dbnet"), "wgr2fk5");
    }

    #[test]
    fn many_attachments_have_many_names() {
        let names: std::collections::BTreeSet<_> =
            (0..20_000).map(|n| name("n", &n.to_string(), "eth0")).collect();
        assert_eq!(names.len(), 20_000);
    }
}
