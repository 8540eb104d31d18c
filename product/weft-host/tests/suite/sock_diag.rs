//! Real sockets in a namespace, as the kernel lists them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use weft_host::sock_diag::{Closed, Closings, SockDiag, Socket, State};
use weft_host::{NetNs, testing};
use weft_units::{FlowKey, Protocol};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const ANY6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// The inode in `socket:[INODE]`, the name of a socket in /proc.
fn inode_of(socket: &impl AsRawFd) -> u32 {
    let fd = socket.as_raw_fd();
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("a descriptor");
    let text = link.to_str().expect("text").trim_start_matches("socket:[").trim_end_matches(']');
    text.parse().expect("an inode")
}

fn by_inode(sockets: &[Socket], inode: u32) -> &Socket {
    let found: Vec<_> = sockets.iter().filter(|socket| socket.inode == inode).collect();
    assert_eq!(found.len(), 1, "{inode} in {sockets:?}");
    found[0]
}

struct Pair {
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

fn connect(at: IpAddr) -> Pair {
    let listener = TcpListener::bind((at, 0)).expect("listen");
    let to = match at.is_unspecified() {
        // An IPv6 socket that also receives IPv4.
        true => V4,
        false => at,
    };
    let port = listener.local_addr().expect("address").port();
    let client = TcpStream::connect((to, port)).expect("connect");
    let (server, _) = listener.accept().expect("accept");
    Pair { listener, client, server }
}

#[test]
fn tcp_sockets_are_listed_with_addresses_state_and_owner() {
    if !testing::privileged("tcp_sockets_are_listed_with_addresses_state_and_owner") {
        return;
    }
    let ns = NetNs::anonymous().expect("namespace");
    let mut diag = SockDiag::open(&ns).expect("open");
    assert_eq!(diag.list().expect("list"), [], "nothing yet");
    for at in [V4, V6, ANY6] {
        let pair = ns.run(|| connect(at)).expect("run");
        let sockets = diag.list().expect("list");
        let listening = by_inode(&sockets, inode_of(&pair.listener));
        let bound = pair.listener.local_addr().expect("address");
        assert_eq!((listening.local, listening.remote, listening.state), (bound, None, State::Listen));
        // Bound to an IPv6 address, it receives no IPv4 (inet6_bind).
        assert_eq!((listening.received_flow(), listening.v6_only), (None, at == V6));
        for stream in [&pair.client, &pair.server] {
            let socket = by_inode(&sockets, inode_of(stream));
            let (local, remote) =
                (stream.local_addr().expect("address"), stream.peer_addr().expect("address"));
            assert_eq!((socket.protocol, socket.state), (Protocol::TCP, State::Established));
            assert_eq!((socket.local, socket.remote), (local, Some(remote)));
            let flow = FlowKey {
                src: remote.ip().to_canonical(),
                dst: local.ip().to_canonical(),
                sport: remote.port(),
                dport: local.port(),
                protocol: Protocol::TCP,
            };
            assert_eq!(socket.received_flow(), Some(flow));
            assert_eq!(flow.src.is_ipv4(), at != V6, "what travels is IPv4, whatever the socket is");
            assert_eq!((socket.uid, socket.link), (0, None));
            assert!(socket.cookie != 0 && socket.mark == Some(0), "{socket:?}");
        }
    }
    let other = NetNs::anonymous().expect("namespace");
    assert_eq!(SockDiag::open(&other).expect("open").list().expect("list"), [], "of another namespace");
}

#[test]
fn udp_sockets_are_listed_with_and_without_a_remote_address() {
    if !testing::privileged("udp_sockets_are_listed_with_and_without_a_remote_address") {
        return;
    }
    let ns = NetNs::anonymous().expect("namespace");
    for at in [V4, V6] {
        let (free, bound) = ns
            .run(|| {
                let free = UdpSocket::bind((at, 0)).expect("bind");
                let bound = UdpSocket::bind((at, 0)).expect("bind");
                bound.connect(free.local_addr().expect("address")).expect("connect");
                (free, bound)
            })
            .expect("run");
        let sockets = SockDiag::open(&ns).expect("open").list().expect("list");
        assert_eq!(sockets.len(), 2, "{sockets:?}");
        let here = free.local_addr().expect("address");
        let socket = by_inode(&sockets, inode_of(&free));
        assert_eq!((socket.protocol, socket.local, socket.remote), (Protocol::UDP, here, None));
        assert_eq!((socket.state, socket.received_flow()), (State::Close, None));
        let socket = by_inode(&sockets, inode_of(&bound));
        assert_eq!((socket.state, socket.remote), (State::Established, Some(here)));
        let flow = socket.received_flow().expect("a flow");
        assert_eq!(SocketAddr::new(flow.src, flow.sport), here);
    }
}

/// The cgroup of this process in the unified hierarchy: its path's inode.
fn own_cgroup() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].iter().find_map(|root| {
        let root = std::path::Path::new(root);
        root.join("cgroup.procs")
            .exists()
            .then(|| std::fs::metadata(root.join(path)).ok())?
            .map(|meta| meta.ino())
    })
}

#[test]
fn a_socket_names_the_cgroup_that_it_was_made_in() {
    let name = "a_socket_names_the_cgroup_that_it_was_made_in";
    if !testing::privileged(name) {
        return;
    }
    let Some(expected) = own_cgroup() else {
        testing::skip(name, "this process is in no cgroup of version 2 that is mounted");
        return;
    };
    let ns = NetNs::anonymous().expect("namespace");
    let socket = ns.run(|| UdpSocket::bind((V4, 0)).expect("bind")).expect("run");
    let sockets = SockDiag::open(&ns).expect("open").list().expect("list");
    assert_eq!(by_inode(&sockets, inode_of(&socket)).cgroup, Some(expected));
}

/// Reads until this many notices have arrived.
fn wait_for(closings: &mut Closings, count: usize) -> Closed {
    let mut all = Closed::default();
    testing::wait_for(format_args!("{count} notices"), || {
        let more = closings.read().expect("read");
        all.sockets.extend(more.sockets);
        all.missed |= more.missed;
        all.sockets.len() >= count
    });
    all
}

#[test]
fn sockets_that_go_are_told_of() {
    if !testing::privileged("sockets_that_go_are_told_of") {
        return;
    }
    let ns = NetNs::anonymous().expect("namespace");
    let pair = ns.run(|| connect(V6)).expect("run");
    let udp = ns.run(|| UdpSocket::bind((V4, 0)).expect("bind")).expect("run");
    let sockets = SockDiag::open(&ns).expect("open").list().expect("list");
    let mut closings = Closings::open(&ns).expect("open");
    assert_eq!(closings.read().expect("read"), Closed::default());
    let udp_before = by_inode(&sockets, inode_of(&udp)).clone();
    let listener_before = by_inode(&sockets, inode_of(&pair.listener)).clone();
    drop(udp);
    let closed = wait_for(&mut closings, 1);
    let told: Vec<_> = closed.sockets.iter().map(|s| (s.protocol, s.cookie)).collect();
    assert_eq!((told, closed.missed), (vec![(Protocol::UDP, udp_before.cookie)], false));
    drop(pair.listener);
    let closed = wait_for(&mut closings, 1);
    assert_eq!(closed.sockets.len(), 1);
    let gone = &closed.sockets[0];
    assert_eq!((gone.protocol, gone.cookie), (Protocol::TCP, listener_before.cookie));
    assert_eq!(gone.local.ip(), V6);
    drop((pair.client, pair.server));
}

#[test]
fn a_connection_counts_its_bytes_at_both_ends() {
    use std::io::{Read, Write};
    if !testing::privileged("a_connection_counts_its_bytes_at_both_ends") {
        return;
    }
    const SENT: u64 = 100_000;
    let ns = NetNs::anonymous().expect("namespace");
    weft_host::link::set_up(&ns, "lo").expect("up");
    let mut diag = SockDiag::open(&ns).expect("open");
    for at in [V4, V6] {
        let Pair { listener: _listener, mut client, mut server } = ns.run(|| connect(at)).expect("run");
        let counts = |diag: &mut SockDiag, inode: u32| {
            let sockets = diag.tcp().expect("list");
            sockets.iter().find(|(socket, _)| socket.inode == inode).and_then(|(_, counts)| *counts)
        };
        let (near, far) = (inode_of(&client), inode_of(&server));
        let before = counts(&mut diag, near).expect("the kernel counts");
        assert_eq!(before.since(&before), weft_host::sock_diag::TcpCounts::default());
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; SENT as usize];
            server.read_exact(&mut bytes).expect("read");
            server
        });
        client.write_all(&vec![7; SENT as usize]).expect("write");
        let _server = reader.join().expect("reader");
        let far = counts(&mut diag, far).expect("counts");
        assert_eq!((far.received, far.sent), (SENT, 0), "{far:?}");
        let near = counts(&mut diag, near).expect("counts").since(&before);
        assert!(near.sent == SENT && near.acked <= SENT && near.segments_out > 0, "{near:?}");
    }
}
