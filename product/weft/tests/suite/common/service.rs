//! A daemon of the test's own between three namespaces.

use crate::common::world::{POLICY, World};
use crate::common::{Running, Said, file, until, weft};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The longest start or end of a daemon.
pub(crate) use weft_host::testing::PATIENCE;

/// A world with a configuration, and the daemon's socket.
pub(crate) struct Service {
    pub(crate) world: World,
    pub(crate) config: String,
    pub(crate) socket: PathBuf,
}

/// A port of the configuration, in the applications' namespace.
pub(crate) fn port(world: &World, name: &str) -> String {
    format!(
        "[[ports]]\nname = \"{name}\"\nnetns = \"{}\"\naddresses = [\"10.97.0.1/24\"]\n",
        world.app.name()
    )
}

impl Service {
    /// A configuration with the port `weft0`.
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// A configuration with the port `weft0` and `more` keys.
    pub(crate) fn with(more: &str) -> Self {
        let service = Self::bare(more);
        let text = std::fs::read_to_string(&service.config).expect("the configuration");
        std::fs::write(&service.config, text + &port(&service.world, "weft0")).expect("write");
        service
    }

    /// A configuration without ports, with `more` keys.
    pub(crate) fn bare(more: &str) -> Self {
        let world = World::new();
        // Other users reach the socket through it.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.folder.path(), open).expect("mode");
        let socket = world.folder.path().join("io.weft");
        file(&world.folder, "p.weft", POLICY);
        let text = format!(
            "uplink = \"up0\"\nuplink-netns = \"{}\"\npolicy = \"p.weft\"\ngroup = \"nogroup\"\nsocket = \"{}\"\n{more}",
            world.host.name(),
            socket.display()
        );
        let config = file(&world.folder, "weft.toml", text);
        Self { world, config, socket }
    }

    /// The command that starts the daemon.
    pub(crate) fn command(&self) -> Command {
        let mut command = weft();
        command.args(["daemon", "--config", &self.config]);
        command
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) fn start(&self) -> Running {
        let running = Running(self.command().spawn().expect("start weft"));
        assert!(until(PATIENCE, || self.client(&["status"]).code == 0), "the daemon does not answer");
        running
    }

    /// Starts the daemon with its messages in a file, and waits until it answers.
    pub(crate) fn start_with_log(&self) -> Running {
        let log = std::fs::File::create(self.log_path()).expect("a log");
        let running = Running(self.command().stderr(log).spawn().expect("start weft"));
        assert!(until(PATIENCE, || self.client(&["status"]).code == 0), "the daemon does not answer");
        running
    }

    fn log_path(&self) -> PathBuf {
        self.world.folder.path().join("log")
    }

    /// Waits until the daemon of [`start_with_log`](Self::start_with_log) has said `words`.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, words: &str) {
        let log = || std::fs::read_to_string(self.log_path()).expect("the log");
        assert!(until(PATIENCE, || log().contains(words)), "no {words:?}: {}", log());
    }

    /// Runs a client command.
    pub(crate) fn client(&self, args: &[&str]) -> Said {
        let socket = self.socket.to_str().expect("UTF-8");
        weft().args(args).args(["--socket", socket]).output().expect("run weft").into()
    }

    /// Runs a client command that must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let said = self.client(args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        said.out
    }

    /// Runs a client command that must fail, and returns its only line.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let said = self.client(args);
        assert_eq!(
            (said.code, said.out.as_str(), said.err.lines().count()),
            (1, "", 1),
            "{args:?}: {}",
            said.err
        );
        said.err
    }

    /// The document of `weft status`.
    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.done(&["status", "--json", "-"])).expect("JSON")
    }

    /// Ends the daemon as its manager does, and asserts that nothing remains.
    pub(crate) fn stop(&self, running: Running) -> Said {
        running.signal(Signal::TERM);
        let said = running.wait(PATIENCE);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(!self.socket.exists(), "the socket remains");
        self.world.assert_clean();
        said
    }
}
