//! Small requests: TCP ping-pong of 64 bytes, 1000 a second, by a client that sleeps between them.
//!
//! The next request is sent only after the answer to the previous one. A request that is late does not hasten the next:
//! times are those of single requests on an otherwise idle connection.

use super::case::REQUEST_PORT;
use super::processors::REQUEST_THREAD;
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use weft_host::{NetNs, OsError, clock};
use weft_units::{Instant, Nanos};

use super::error::CostError;

/// Bytes of a request and of its answer.
const BYTES: usize = 64;
/// Time between two requests.
const INTERVAL: Nanos = Nanos::from_millis(1);
/// Time limit for the connection, and for one answer: TCP's first retransmissions are within it.
const PATIENCE: Duration = Duration::from_secs(5);

/// An answered request.
#[derive(Clone, Copy, Debug)]
struct Answered {
    sent: Instant,
    round_trip: Nanos,
}

/// A client and its server, until they are stopped.
#[derive(Debug)]
pub(super) struct Requests {
    stop: Arc<AtomicBool>,
    client: Option<JoinHandle<Vec<Answered>>>,
    server: Option<JoinHandle<()>>,
}

impl Requests {
    /// Connects from `sender` to `address` in `receiver`, and begins. `priority` is the priority of the client's packets
    /// (SO_PRIORITY), which is a qdisc's class.
    pub(super) fn start(
        (sender, receiver): (&NetNs, &NetNs),
        address: IpAddr,
        priority: u32,
    ) -> Result<Self, CostError> {
        let failed = |step: &str, e: io::Error| OsError::new(format!("small requests: {step}"), e);
        let server = SocketAddr::new(address, REQUEST_PORT);
        let listener = receiver.run(|| TcpListener::bind(server))?.map_err(|e| failed("listen", e))?;
        let client = sender
            .run(|| TcpStream::connect_timeout(&server, PATIENCE))?
            .map_err(|e| failed("connect", e))?;
        let (answering, _) = listener.accept().map_err(|e| failed("accept", e))?;
        for stream in [&client, &answering] {
            prepare(stream).map_err(|e| failed("set socket options", e))?;
        }
        setsockopt(&client, sockopt::Priority, &i32::try_from(priority).unwrap_or(0))
            .map_err(|e| failed("set the priority", e.into()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let spawn = |part: &str| std::thread::Builder::new().name(format!("{REQUEST_THREAD}-{part}"));
        let server = spawn("srv").spawn(move || serve(answering)).map_err(|e| failed("start a thread", e))?;
        let mut requests = Self { stop, client: None, server: Some(server) };
        let client = spawn("cli").spawn(move || ask(client, &stopped));
        requests.client = Some(client.map_err(|e| failed("start a thread", e))?);
        Ok(requests)
    }

    /// Stops, and returns the round trips of requests sent in a span, in seconds.
    pub(super) fn finish(mut self, from: Instant, to: Instant) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let all = self.client.take().and_then(|client| client.join().ok()).unwrap_or_default();
        let within = all.iter().filter(|one| (from..to).contains(&one.sent));
        within.map(|one| one.round_trip.as_secs_f64()).collect()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The client's socket closes with its thread, which ends the server's.
        let _ = self.client.take().map(JoinHandle::join);
        let _ = self.server.take().map(JoinHandle::join);
    }
}

/// Sets the options of both sockets: every request is sent at once, and no congestion control paces it.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(setsockopt(stream, sockopt::TcpCongestion, &OsString::from("cubic"))?)
}

fn ask(mut stream: TcpStream, stop: &AtomicBool) -> Vec<Answered> {
    let mut all = Vec::new();
    let mut next = clock::now();
    let mut answer = [0; BYTES];
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(next.saturating_since(clock::now()).into());
        let sent = clock::now();
        let asked = stream.write_all(&[1; BYTES]).and_then(|()| stream.read_exact(&mut answer));
        if asked.is_err() {
            break;
        }
        let now = clock::now();
        all.push(Answered { sent, round_trip: now.saturating_since(sent) });
        next = (next + INTERVAL).max(now);
    }
    all
}

fn serve(mut stream: TcpStream) {
    let mut request = [0; BYTES];
    while stream.read_exact(&mut request).and_then(|()| stream.write_all(&request)).is_ok() {}
}
