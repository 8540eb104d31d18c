//! The part of `weft doctor` that is about the daemon: what runs it, its configuration, its socket, the plugin for containers.

use crate::config::{ConfigError, Folders, UplinkConfig};
use std::path::{Path, PathBuf};
use weft_control::Client;
use weft_host::doctor::{Facility, State};

/// The folder that exists while systemd is the service manager: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";
/// The folder that exists while OpenRC is the service manager.
const OPENRC: &str = "/run/openrc";
/// The folders in which container runtimes look for plugins: Debian's, the specification's, Fedora's.
const PLUGINS: [&str; 3] = ["/usr/lib/cni/weft", "/opt/cni/bin/weft", "/usr/libexec/cni/weft"];

/// Surveys this host for the daemon at the default socket. Changes nothing and never fails.
pub fn survey() -> Vec<Facility> {
    vec![manager(Path::new(SYSTEMD), Path::new(OPENRC)), configuration(), socket(), plugin(&PLUGINS)]
}

fn manager(systemd: &Path, openrc: &Path) -> Facility {
    let state = match (systemd.is_dir(), openrc.is_dir()) {
        (true, _) => State::Present("systemd".to_owned()),
        (false, true) => State::Limited("OpenRC, which has no watchdog and hands over no socket".to_owned()),
        (false, false) => State::Missing("neither systemd nor OpenRC runs".to_owned()),
    };
    Facility {
        id: "daemon.manager",
        title: "service manager",
        state,
        brings: "a daemon that starts with the host and is started again when it fails",
        remedy: "run `weft daemon` in the foreground, or as the first process of a container",
    }
}

fn configuration() -> Facility {
    let folders = Folders::of(None);
    let state = match folders.load() {
        Ok(config) => {
            let of = |uplink: &UplinkConfig| {
                format!("uplink {}, policy {}", uplink.device, uplink.policy.display())
            };
            State::Present(config.uplinks.iter().map(of).collect::<Vec<_>>().join("; "))
        }
        Err(missing @ ConfigError::Missing { .. }) => State::Missing(missing.to_string()),
        // The first line has the place; `weft daemon --check` shows the others.
        Err(other) => State::Limited(other.to_string().lines().next().unwrap_or_default().to_owned()),
    };
    Facility {
        id: "daemon.config",
        title: "configuration of the daemon",
        state,
        brings: "`weft daemon` without options",
        remedy: "see `weft daemon --help`; `weft daemon --check` reads the configuration and changes nothing",
    }
}

fn socket() -> Facility {
    let status = Client::connect(Path::new(weft_control::SOCKET)).and_then(|mut client| client.status());
    let state = match status {
        Ok(status) => State::Present(format!(
            "{}, generation {}, {} ports",
            weft_control::SOCKET,
            status.generation,
            status.each().into_iter().map(|uplink| uplink.ports.len()).sum::<usize>()
        )),
        Err(error) => State::Missing(error.to_string()),
    };
    Facility {
        id: "daemon.socket",
        title: "control socket of the daemon",
        state,
        brings: "`weft status`, `weft top`, `weft policy load`, `weft port`, containers",
        remedy: "systemctl start weft, or run `weft daemon`",
    }
}

fn plugin(paths: &[&str]) -> Facility {
    let found: Vec<PathBuf> = paths.iter().map(PathBuf::from).filter(|path| path.is_file()).collect();
    let state = match found.first() {
        Some(path) => State::Present(path.display().to_string()),
        None => State::Missing(format!("there is none of {}", paths.join(", "))),
    };
    Facility {
        id: "daemon.plugin",
        title: "CNI plugin",
        state,
        brings: "ports for containers of podman, containerd and CRI-O",
        remedy: "install the package weftline, or build weft-cni and copy it to /opt/cni/bin/weft",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_managers_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = folder.path().join("none");
        let there = |systemd: &Path, openrc: &Path| manager(systemd, openrc).state;
        assert!(matches!(there(folder.path(), &none), State::Present(_)));
        assert!(matches!(there(&none, folder.path()), State::Limited(_)));
        assert!(matches!(there(&none, &none), State::Missing(_)));
    }

    #[test]
    fn a_plugin_is_found_where_runtimes_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("weft");
        let text = path.to_str().expect("UTF-8");
        assert!(matches!(plugin(&[text]).state, State::Missing(why) if why.contains(text)));
        std::fs::write(&path, "").expect("written");
        assert_eq!(plugin(&["/none", text]).state, State::Present(text.to_owned()));
    }

    #[test]
    fn each_facility_says_what_to_do() {
        for facility in survey() {
            assert!(!facility.brings.is_empty() && !facility.remedy.is_empty(), "{facility:?}");
        }
    }
}
