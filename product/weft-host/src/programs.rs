//! Installed programs: their paths, and the Debian packages that contain them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The programs that weftline can use, and the Debian package of each.
pub const PACKAGES: &[(&str, &str)] = &[
    ("bpftool", "bpftool"),
    ("bpftrace", "bpftrace"),
    ("chrt", "util-linux"),
    ("clang", "clang"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("memaslap", "libmemcached-tools"),
    ("memcached", "memcached"),
    ("netperf", "netperf"),
    ("nginx", "nginx-light"),
    ("perf", "linux-perf"),
    ("ping", "iputils-ping"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("sleep", "coreutils"),
    ("sockperf", "sockperf"),
    ("ss", "iproute2"),
    ("taskset", "util-linux"),
    ("tc", "iproute2"),
    ("tcpdump", "tcpdump"),
    ("tcpreplay", "tcpreplay"),
    ("trafgen", "netsniff-ng"),
    ("tshark", "tshark"),
    ("wrk", "wrk"),
    ("xdp-loader", "xdp-tools"),
];

/// Directories searched after PATH; a user's PATH often lacks the administrator's programs.
const ALSO: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// The Debian package of `program`, if weftline has its name.
pub fn package_of(program: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| *package)
}

/// The path of `program`: searched in PATH and the administrator's directories, or taken as is if it contains a slash.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ALSO.iter().map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
