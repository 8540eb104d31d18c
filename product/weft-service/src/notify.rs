//! Notices to the service manager (sd_notify(3)), if there is one.
//!
//! Without `NOTIFY_SOCKET`, as in a container or under OpenRC, every notice is nothing. A notice that cannot be sent is
//! lost: the manager's time limits are the remedy, and the daemon works without it.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use weft_host::clock;
use weft_units::Instant;

/// The service manager.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The manager that the environment names.
    pub fn from_environment() -> Self {
        Self::from(|name| std::env::var_os(name), std::process::id())
    }

    /// The manager that `variable` names to the process `pid`.
    fn from(variable: impl Fn(&str) -> Option<OsString>, pid: u32) -> Self {
        let socket = variable("NOTIFY_SOCKET").and_then(|path| {
            let address = match path.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
                _ => SocketAddr::from_pathname(&path),
            };
            Some((UnixDatagram::unbound().ok()?, address.ok()?))
        });
        if let Some((socket, _)) = &socket {
            let _ = socket.set_nonblocking(true);
        }
        let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|watched| watched == u64::from(pid));
        let micros = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0);
        Self { socket, watchdog: micros.map(Duration::from_micros) }
    }

    /// The same manager, whose watchdog is not served.
    pub fn without_watchdog(self) -> Self {
        Self { watchdog: None, ..self }
    }

    /// The time after which the manager takes the daemon for hung, if it watches.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The start is complete.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// The configuration is being read again.
    pub fn reloading(&self) {
        let micros = (clock::now() - Instant::ZERO).0 / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The daemon ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// The daemon works.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The state, in a line.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// `text` without line breaks, which would begin another assignment.
fn one_line(text: &str) -> String {
    weft_text::printable(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manager at a socket, and what it receives.
    fn manager(watchdog: &str, watched: Option<&str>) -> (tempfile::TempDir, UnixDatagram, Manager) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("socket");
        socket.set_nonblocking(true).expect("set");
        let variable = |name: &str| match name {
            "NOTIFY_SOCKET" => Some(path.clone().into_os_string()),
            "WATCHDOG_USEC" => Some(watchdog.into()),
            "WATCHDOG_PID" => watched.map(OsString::from),
            _ => None,
        };
        let manager = Manager::from(variable, 42);
        (folder, socket, manager)
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).expect("a notice");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn notices_are_those_of_sd_notify() {
        let (_folder, socket, manager) = manager("2000000", None);
        assert_eq!(manager.watchdog(), Some(Duration::from_secs(2)));
        manager.ready("a\nb");
        assert_eq!(received(&socket), "READY=1\nSTATUS=a\\u{a}b");
        manager.reloading();
        let text = received(&socket);
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|n| n.parse::<u64>().ok());
        let now = (clock::now() - Instant::ZERO).0 / 1000;
        assert!(micros.is_some_and(|micros| micros <= now && now - micros < 10_000_000), "{text}");
        manager.stopping();
        manager.alive();
        assert_eq!(
            (received(&socket), received(&socket)),
            ("STOPPING=1".to_owned(), "WATCHDOG=1".to_owned())
        );
    }

    #[test]
    fn another_process_is_watched_or_none() {
        assert_eq!(manager("2000000", Some("42")).2.watchdog(), Some(Duration::from_secs(2)));
        assert_eq!(manager("2000000", Some("43")).2.watchdog(), None);
        assert_eq!(manager("x", None).2.watchdog(), None);
        let none = Manager::from(|_| None, 42);
        none.ready("nobody listens");
        assert!(none.socket.is_none());
    }

    #[test]
    fn an_abstract_socket_is_found() {
        let name = format!("weft-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("address");
        let socket = UnixDatagram::bind_addr(&address).expect("socket");
        let variable = |key: &str| (key == "NOTIFY_SOCKET").then(|| OsString::from(format!("@{name}")));
        Manager::from(variable, 1).alive();
        assert_eq!(received(&socket), "WATCHDOG=1");
    }
}
