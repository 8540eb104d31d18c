//! Kernel settings (`sysctl`), including those of network namespaces.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::error::OsError;
use crate::netns::{NetNs, NetNsError};

/// An error of reading or changing a setting.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The kernel refused to read or change the setting.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// This kernel lacks the setting.
    #[error("the setting {key} is not in this kernel (release {})", release())]
    NotInThisKernel {
        /// Its name.
        key: String,
    },
    /// The name is invalid.
    #[error("{0:?} is not the name of a setting such as net.ipv4.ip_forward")]
    BadKey(String),
}

/// The result of reading or changing a setting.
pub type Result<T> = std::result::Result<T, SysctlError>;

/// Reads the setting in the namespace, without the trailing newline.
pub fn get(ns: &NetNs, key: &str) -> Result<String> {
    let path = path(key)?;
    let read = ns.run(|| fs::read_to_string(&path))?;
    let text = read.map_err(|e| failed(&format!("read setting {key} of {ns}"), key, e))?;
    Ok(text.trim_end().to_string())
}

/// Changes the setting in the namespace.
pub fn set(ns: &NetNs, key: &str, value: &str) -> Result<()> {
    let path = path(key)?;
    ns.run(|| {
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut f| io::Write::write_all(&mut f, value.as_bytes()))
    })?
    .map_err(|e| failed(&format!("set {key} of {ns} to {value:?}"), key, e))
}

/// Disables IPv6 in `ns`, whose router and neighbour discovery would be packets that no application sent. A refusal is ignored: a
/// kernel without IPv6 sends none.
pub fn disable_ipv6(ns: &NetNs) {
    for of in ["all", "default"] {
        let _ = set(ns, &format!("net.ipv6.conf.{of}.disable_ipv6"), "1");
    }
}

/// The file of a setting. Dots separate the parts. If the name contains a slash, slashes separate them instead, and a link's
/// name may contain a dot (`net/ipv4/conf/eth0.7/rp_filter`).
fn path(key: &str) -> Result<PathBuf> {
    let relative = if key.contains('/') { key.to_string() } else { key.replace('.', "/") };
    let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
    if relative.split('/').any(bad) {
        return Err(SysctlError::BadKey(key.to_string()));
    }
    Ok(PathBuf::from("/proc/sys").join(relative))
}

fn failed(action: &str, key: &str, error: io::Error) -> SysctlError {
    if error.kind() == io::ErrorKind::NotFound {
        return SysctlError::NotInThisKernel { key: key.to_string() };
    }
    OsError::new(action, error).needs("CAP_NET_ADMIN").into()
}

/// The kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn names_become_files() {
        let file = |key| path(key).expect("path").to_string_lossy().into_owned();
        assert_eq!(file("net.ipv4.tcp_tso_rtt_log"), "/proc/sys/net/ipv4/tcp_tso_rtt_log");
        assert_eq!(file("net/ipv4/conf/eth0.7/rp_filter"), "/proc/sys/net/ipv4/conf/eth0.7/rp_filter");
        for key in ["", "net..ipv4", "../etc/passwd", "net/../../x", "/etc/passwd"] {
            assert!(matches!(path(key), Err(SysctlError::BadKey(_))), "{key:?}");
        }
    }

    #[test]
    fn a_setting_of_a_namespace_is_its_own() {
        if !testing::privileged("a_setting_of_a_namespace_is_its_own") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        let key = "net.ipv4.ip_default_ttl";
        let before = get(&b, key).expect("get");
        set(&a, key, "33").expect("set");
        assert_eq!((get(&a, key).expect("a"), get(&b, key).expect("b")), ("33".to_string(), before));
        let absent = get(&a, "net.ipv4.weft_none").expect_err("absent");
        assert!(matches!(absent, SysctlError::NotInThisKernel { .. }));
        assert!(absent.to_string().starts_with("the setting net.ipv4.weft_none is not in this kernel"));
        let refused = set(&a, key, "many").expect_err("refused").to_string();
        assert_eq!(refused, "set net.ipv4.ip_default_ttl of (unnamed) to \"many\": Invalid argument");
    }
}
