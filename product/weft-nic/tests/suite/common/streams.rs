//! TCP connections that send continuously.

use core::net::SocketAddr;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weft_nic::testbed::{RECEIVER, SENDER, Testbed};
use weft_units::{FlowKey, Protocol};

const PORT: u16 = 5000;

/// One connection.
#[derive(Debug)]
struct Stream {
    key: FlowKey,
    received: Arc<AtomicU64>,
    threads: [JoinHandle<()>; 2],
}

/// Connections from the sender to the receiver, which send from the start.
#[derive(Debug)]
pub(crate) struct Streams {
    stop: Arc<AtomicBool>,
    streams: Vec<Stream>,
    keys: Vec<FlowKey>,
}

fn send(mut stream: TcpStream, stop: &AtomicBool) {
    stream.set_write_timeout(Some(Duration::from_millis(100))).expect("timeout");
    while !stop.load(Ordering::Relaxed) {
        let _ = stream.write(&[7; 60_000]);
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn receive(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    stream.set_read_timeout(Some(Duration::from_secs(3))).expect("timeout");
    while let Ok(n) = stream.read(&mut buffer)
        && n > 0
    {
        received.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Both ends of a connection that has not sent anything yet.
#[derive(Debug)]
pub(crate) struct Idle {
    key: FlowKey,
    out: TcpStream,
    end: TcpStream,
}

/// The listening socket.
#[derive(Debug)]
pub(crate) struct Acceptor<'a> {
    bed: &'a Testbed,
    listener: TcpListener,
}

impl<'a> Acceptor<'a> {
    pub(crate) fn open(bed: &'a Testbed) -> Self {
        let address = SocketAddr::new(RECEIVER, PORT);
        let listener = bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
        Self { bed, listener }
    }

    pub(crate) fn connect(&self) -> Idle {
        let address = SocketAddr::new(RECEIVER, PORT);
        let out = self.bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
        let (end, from) = self.listener.accept().expect("accepted");
        let (protocol, sport) = (Protocol::TCP, from.port());
        Idle { key: FlowKey { src: SENDER, dst: RECEIVER, sport, dport: PORT, protocol }, out, end }
    }
}

impl Streams {
    pub(crate) fn open(bed: &Testbed, count: usize) -> Self {
        let acceptor = Acceptor::open(bed);
        Self::start((0..count).map(|_| acceptor.connect()).collect())
    }

    pub(crate) fn start(idle: Vec<Idle>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |Idle { key, out, end }| {
            let received = Arc::new(AtomicU64::new(0));
            let sender = std::thread::spawn({
                let stop = Arc::clone(&stop);
                move || send(out, &stop)
            });
            let receiver = std::thread::spawn({
                let received = Arc::clone(&received);
                move || receive(end, &received)
            });
            Stream { key, received, threads: [sender, receiver] }
        };
        let streams: Vec<Stream> = idle.into_iter().map(start).collect();
        let keys = streams.iter().map(|s| s.key).collect();
        Self { stop, streams, keys }
    }

    pub(crate) fn keys(&self) -> &[FlowKey] {
        &self.keys
    }

    /// The bytes received so far, by connection.
    pub(crate) fn received(&self) -> Vec<u64> {
        self.streams.iter().map(|stream| stream.received.load(Ordering::Relaxed)).collect()
    }

    /// Stops sending and waits for the end. Returns the bytes received, by connection.
    pub(crate) fn close(&mut self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let end = |stream: Stream| {
            stream.threads.into_iter().for_each(|t| t.join().expect("no panic"));
            stream.received.load(Ordering::Relaxed)
        };
        self.streams.drain(..).map(end).collect()
    }
}
