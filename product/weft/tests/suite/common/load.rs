//! Bulk TCP connections of a test, and the end of the run that carries them.

use crate::common::world::{FAR, World};
use crate::common::{Running, Said, assert_conserved, json};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;
use weft_host::testing::wait_for;

pub(crate) const SOON: Duration = weft_host::testing::PATIENCE;

/// Bulk connections, and the bytes that arrived by TCP port.
pub(crate) struct Load<'a> {
    world: &'a World,
    stop: AtomicBool,
    arrived: Vec<(u16, AtomicU64)>,
}

/// Ends the load also when the test fails, which would otherwise wait for its threads for ever.
pub(crate) struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a> Load<'a> {
    /// A load of connections to `ports`, none of them open yet.
    pub(crate) fn new(world: &'a World, ports: &[u16]) -> Self {
        let arrived = ports.iter().map(|port| (*port, AtomicU64::new(0))).collect();
        Self { world, stop: AtomicBool::new(false), arrived }
    }

    /// Whether the load is to end.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Ends the load when the returned value is dropped.
    pub(crate) fn stop_at_end(&self) -> StopAtEnd<'_> {
        StopAtEnd(&self.stop)
    }

    /// The bytes that have arrived, in the order of the ports.
    pub(crate) fn arrived(&self) -> Vec<u64> {
        self.arrived.iter().map(|(_, bytes)| bytes.load(Ordering::Relaxed)).collect()
    }

    /// Waits until each of `ports` has carried `bytes` bytes more.
    #[track_caller]
    pub(crate) fn wait_for_more(&self, ports: &[u16], bytes: u64) {
        let carried = || ports.iter().map(|port| self.port(*port).load(Ordering::Relaxed));
        let wanted: Vec<u64> = carried().map(|before| before + bytes).collect();
        wait_for(format_args!("{bytes} bytes at each of {ports:?}"), || {
            carried().zip(&wanted).all(|(now, wanted)| now >= *wanted)
        });
    }

    fn port(&self, port: u16) -> &AtomicU64 {
        &self.arrived.iter().find(|(of, _)| *of == port).expect("a port of the load").1
    }

    /// Sends on `count` CUBIC connections to `port` until `stop` or the load's end.
    pub(crate) fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        (port, count): (u16, usize),
        stop: &'s AtomicBool,
    ) {
        let at = SocketAddr::new(FAR, port);
        let listener = self.world.far.run(|| TcpListener::bind(at)).expect("enter").expect("bind");
        for _ in 0..count {
            let stream = self.world.app.run(|| TcpStream::connect_timeout(&at, SOON));
            let mut stream = stream.expect("enter").expect("connect");
            set_tcp_congestion(&stream, "cubic").expect("cubic");
            stream.set_write_timeout(Some(Duration::from_millis(200))).expect("timeout");
            let (mut accepted, _) = listener.accept().expect("accept");
            accepted.set_read_timeout(Some(SOON)).expect("timeout");
            let stopped = move || self.stop.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
            scope.spawn(move || {
                while !stopped() {
                    let _ = stream.write(&[7; 1 << 16]);
                }
            });
            scope.spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(n) = accepted.read(&mut buffer)
                    && n > 0
                {
                    self.port(port).fetch_add(n as u64, Ordering::Relaxed);
                }
            });
        }
    }
}

/// Ends a run and returns its output and its document; its accounting must be exact.
pub(crate) fn end(running: Running, counters: &Path) -> (Said, serde_json::Value) {
    running.signal(Signal::TERM);
    let said = running.wait(SOON);
    assert_eq!(said.code, 143, "{said:?}");
    let document = json(counters);
    for stage in document["conservation"]["stages"].as_array().expect("stages") {
        assert_conserved(stage);
    }
    assert_conserved(&document["conservation"]);
    (said, document)
}
