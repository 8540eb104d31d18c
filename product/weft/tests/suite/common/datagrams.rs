//! Numbered datagrams through the port: which of them arrive, and how often.

use crate::common::until;
use crate::common::world::{FAR, World};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_host::testing::PATIENCE;

const PORT: u16 = 5300;
/// The number of the datagrams before the others.
const FIRST: u64 = u64::MAX;
/// The room of the receiver's socket: what arrives while a busy machine does not run the receiver must not count as lost on the way.
const ROOM: usize = 16 << 20;

/// A sender and a receiver.
pub(crate) struct Datagrams {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<(Vec<u64>, UdpSocket)>,
    /// `/proc/net/udp` of the receiver's namespace.
    sockets: File,
}

impl Datagrams {
    /// Starts to send datagrams of `bytes` bytes from the port to the other end of the uplink, one each `period`. The sender waits
    /// while its socket has as many packets in the NIC as it may.
    pub(crate) fn start(world: &World, bytes: usize, period: Duration) -> Self {
        let bind = || (UdpSocket::bind((FAR, PORT)), File::open("/proc/thread-self/net/udp"));
        let (receiver, sockets) = world.far.run(bind).expect("enter");
        let (receiver, sockets) = (receiver.expect("bind"), sockets.expect("the namespace's sockets"));
        set_socket_recv_buffer_size_force(&receiver, ROOM).expect("room");
        receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("timeout");
        let sender = world.app.run(|| UdpSocket::bind("0.0.0.0:0")).expect("enter").expect("bind");
        sender.connect((FAR, PORT)).expect("connect");
        // Without a neighbour's address the stack drops most of what is sent at once.
        let found = || {
            sender.send(&FIRST.to_be_bytes()).expect("send");
            receiver.recv(&mut [0; 8]).is_ok()
        };
        assert!(until(PATIENCE, found), "no datagram arrives");
        let stop = Arc::<AtomicBool>::default();
        let total = Arc::new(AtomicU64::new(u64::MAX));
        let (stopped, total_sent) = (Arc::clone(&stop), Arc::clone(&total));
        let sender = std::thread::spawn(move || {
            let (mut sent, mut datagram) = (0_u64, vec![0; bytes.max(8)]);
            while !stopped.load(Ordering::Relaxed) {
                datagram[..8].copy_from_slice(&sent.to_be_bytes());
                sender.send(&datagram).expect("send");
                sent += 1;
                std::thread::sleep(period);
            }
            total_sent.store(sent, Ordering::Release);
            sent
        });
        let ended = Arc::clone(&stop);
        let receiver = std::thread::spawn(move || (receive(&receiver, (&ended, &total)), receiver));
        Self { stop, sender, receiver, sockets }
    }

    /// Ends the sender, and asserts that each datagram has arrived, once. Returns their number.
    #[track_caller]
    pub(crate) fn assert_each_arrived_once(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().expect("sender");
        let (mut arrived, _open) = self.receiver.join().expect("receiver");
        arrived.sort_unstable();
        let twice: Vec<u64> = arrived.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect();
        arrived.dedup();
        assert_eq!(no_room(self.sockets), 0, "datagrams came, and the receiver's socket had no room");
        let missing: Vec<u64> = (0..sent).filter(|number| arrived.binary_search(number).is_err()).collect();
        assert!(
            missing.is_empty() && twice.is_empty(),
            "of {sent}: {missing:?} are missing, {twice:?} came twice"
        );
        sent
    }
}

/// The datagrams that the receiver's socket dropped since it had no room: the last column of its line.
fn no_room(mut sockets: File) -> u64 {
    let mut text = String::new();
    sockets.rewind().expect("the beginning");
    sockets.read_to_string(&mut text).expect("the sockets");
    let port = format!(":{PORT:04X}");
    let line =
        text.lines().find(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port)));
    let drops = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    drops.unwrap_or_else(|| panic!("no socket at port {PORT}: {text}"))
}

/// The numbers that arrive until the sender has ended and nothing follows. `sent` is the number of datagrams once it is known.
fn receive(socket: &UdpSocket, (stop, sent): (&AtomicBool, &AtomicU64)) -> Vec<u64> {
    let (mut numbers, mut buffer, mut ended) = (Vec::new(), [0; 8], None);
    loop {
        // The rest of a datagram is not used.
        if socket.recv(&mut buffer).is_ok() {
            numbers.extend(Some(u64::from_be_bytes(buffer)).filter(|number| *number != FIRST));
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            let since: Instant = *ended.get_or_insert_with(Instant::now);
            if sent.load(Ordering::Acquire) <= numbers.len() as u64 || since.elapsed() > PATIENCE {
                return numbers;
            }
        }
    }
}
