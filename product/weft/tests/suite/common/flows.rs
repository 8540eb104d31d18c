//! TCP connections of a test that are watched one by one, and the longest pause of all together.

use crate::common::until;
use crate::common::world::{FAR, World};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_host::testing::PATIENCE;

const PORT: u16 = 5201;

/// Connections that send without a pause. Dropping them ends them.
pub(crate) struct Flows {
    arrived: Arc<Vec<AtomicU64>>,
    failed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flows {
    /// Opens `count` connections from the port to the other end of the uplink.
    pub(crate) fn start(world: &World, count: usize) -> Self {
        let at = SocketAddr::new(FAR, PORT);
        let listener = world.far.run(|| TcpListener::bind(at)).expect("enter").expect("bind");
        let arrived: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let (failed, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut threads = Vec::new();
        // All before the first sends: a handshake would wait behind what the others send.
        let connect = |_| {
            let stream = world.app.run(|| TcpStream::connect_timeout(&at, PATIENCE));
            (stream.expect("enter").expect("connect"), listener.accept().expect("accept").0)
        };
        let connections: Vec<(TcpStream, TcpStream)> = (0..count).map(connect).collect();
        for (flow, (mut stream, mut accepted)) in connections.into_iter().enumerate() {
            stream.set_write_timeout(Some(Duration::from_millis(200))).expect("timeout");
            accepted.set_read_timeout(Some(Duration::from_millis(200))).expect("timeout");
            let (failed_at, stopped) = (Arc::clone(&failed), Arc::clone(&stop));
            threads.push(std::thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let sent = stream.write(&[7; 1 << 14]);
                    count_failure(sent.map(|_| ()), &failed_at);
                }
            }));
            let (counts, failed, stop) = (Arc::clone(&arrived), Arc::clone(&failed), Arc::clone(&stop));
            threads.push(std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while !stop.load(Ordering::Relaxed) {
                    match accepted.read(&mut buffer) {
                        Ok(n) => _ = counts[flow].fetch_add(n as u64, Ordering::Relaxed),
                        Err(error) => count_failure(Err(error), &failed),
                    }
                }
            }));
        }
        Self { arrived, failed, stop, threads }
    }

    /// The bytes that have arrived.
    pub(crate) fn total(&self) -> u64 {
        self.arrived.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// The longest time without an arrival while `act` runs, and until then all connections have gone on once more.
    #[track_caller]
    pub(crate) fn pause_during(&self, act: impl FnOnce()) -> Duration {
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let (mut total, mut since, mut longest) = (self.total(), Instant::now(), Duration::ZERO);
                while !end.load(Ordering::Relaxed) {
                    let now = self.total();
                    if now != total {
                        longest = longest.max(since.elapsed());
                        (total, since) = (now, Instant::now());
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
                longest
            });
            act();
            self.assert_all_go_on();
            end.store(true, Ordering::Relaxed);
            watch.join().expect("watch")
        })
    }

    /// Asserts that every connection still carries bytes.
    #[track_caller]
    pub(crate) fn assert_all_go_on(&self) {
        let before: Vec<u64> = self.arrived.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
        let still = |at: &usize| self.arrived[*at].load(Ordering::Relaxed) == before[*at];
        let mut left: Vec<usize> = (0..before.len()).collect();
        let all = until(PATIENCE, || {
            left.retain(still);
            left.is_empty()
        });
        assert!(all, "{} of {} connections stand still", left.len(), before.len());
        assert_eq!(self.failed.load(Ordering::Relaxed), 0, "connections were reset");
    }
}

fn count_failure(result: std::io::Result<()>, failed: &AtomicU64) {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    match result {
        Err(error) if !matches!(error.kind(), Interrupted | TimedOut | WouldBlock) => {
            failed.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
        _ => {}
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
