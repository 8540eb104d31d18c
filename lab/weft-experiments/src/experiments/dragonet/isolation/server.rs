//! The server: memcached in the namespace behind the NIC.

use super::IsolationError;
use super::client::KEYS;
use super::protocol::{Answer, Command, answer, request};
use super::testbed::{SERVER, SERVER_PORT};
use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitStatus;
use weft_host::process::{Output, ProcessError};
use weft_host::{OsError, Process, Spawn, clock, programs};
use weft_nic::testbed::Testbed;
use weft_units::Nanos;

/// The server's program.
const MEMCACHED: &str = "memcached";
/// Time limit for the server to answer.
const SERVER_PATIENCE: Nanos = Nanos::from_secs(5);
/// Time limit of an answer while the keys are set.
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);

/// Checks that the server is installed.
///
/// # Errors
/// Fails with the name of the package.
pub fn require_server() -> Result<PathBuf, IsolationError> {
    server_in(programs::find)
}

fn server_in(find: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, IsolationError> {
    let package = programs::package_of(MEMCACHED);
    let missing = || ProcessError::NotInstalled { program: MEMCACHED.to_owned(), package };
    Ok(find(MEMCACHED).ok_or_else(missing)?)
}

/// Starts memcached in the receiver, waits until it answers, and sets the keys, all without passing the NIC.
pub(super) fn start(testbed: &Testbed, value: usize) -> Result<Process, IsolationError> {
    let port = SERVER_PORT.to_string();
    let mut server = Spawn::new(MEMCACHED)
        // One thread: several would all wake up for each datagram of the one socket.
        .args(["-l", &SERVER.to_string(), "-U", &port, "-p", "0", "-t", "1", "-u", "nobody"])
        .netns(&testbed.receiver)
        .stderr(Output::Capture)
        .start()?;
    let socket = testbed
        .receiver
        .run(|| {
            let socket = UdpSocket::bind(SocketAddr::new(SERVER, 0))?;
            socket.connect(SocketAddr::new(SERVER, SERVER_PORT))?;
            socket.set_read_timeout(Some(ANSWER_PATIENCE))?;
            Ok(socket)
        })
        .map_err(weft_host::link::LinkError::from)?
        .map_err(|e: std::io::Error| OsError::new("open a socket beside the server", e))?;
    let until = clock::now() + SERVER_PATIENCE;
    let (mut out, mut buffer) = (Vec::new(), [0; 2048]);
    let mut number = 0;
    while number < KEYS {
        if let Some(status) = server.try_wait()? {
            return Err(ended(&mut server, status));
        }
        if clock::now() > until {
            let patience = SERVER_PATIENCE.as_secs_f64();
            return Err(IsolationError::Server(format!("does not answer within {patience} s")));
        }
        request(&mut out, number as u16, Command::Set, number, value);
        let sent = socket.send(&out).and_then(|_| socket.recv(&mut buffer));
        match sent.map(|length| answer(&buffer[..length])) {
            Ok(Some((id, Answer::Stored))) if u32::from(id) == number => number += 1,
            // The server does not listen yet.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
            Ok(_) => {}
        }
    }
    Ok(server)
}

/// Returns the error of a server that has ended by itself, with its last message.
pub(super) fn ended(server: &mut Process, status: ExitStatus) -> IsolationError {
    let said = server.stderr().text();
    let said = said.lines().last().unwrap_or("no message");
    IsolationError::Server(format!("ended by itself ({status}): {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_memcached_the_package_is_named() {
        let error = server_in(|_| None).expect_err("not found").to_string();
        assert_eq!(
            error,
            "the program memcached is not installed; install it with: apt-get install memcached"
        );
        assert!(server_in(|name| Some(PathBuf::from(format!("/opt/{name}")))).is_ok());
    }
}
