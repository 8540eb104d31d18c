//! The store against a service manager of the test.

use super::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, bind, recvmsg};
use std::io::{IoSliceMut, Read};
use std::sync::{Arc, Mutex};

/// A manager that stores descriptors as systemd does.
struct Manager {
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
    stored: Arc<Mutex<Vec<(String, OwnedFd)>>>,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("notify");
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("socket");
        bind(&socket, &SocketAddrUnix::new(&path).expect("address")).expect("bind");
        let stored: Arc<Mutex<Vec<(String, OwnedFd)>>> = Arc::default();
        let of_thread = Arc::clone(&stored);
        std::thread::spawn(move || {
            loop {
                let (text, fd) = receive(&socket);
                let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).map(str::to_owned);
                let mut stored = of_thread.lock().expect("lock");
                match (name, fd) {
                    (Some(name), Some(fd)) if text.contains("FDSTORE=1") && text.contains("FDPOLL=0") => {
                        stored.push((name, fd));
                    }
                    (Some(name), None) if text.contains("FDSTOREREMOVE=1") => {
                        stored.retain(|(of, _)| *of != name);
                    }
                    (None, Some(_)) if text == "BARRIER=1" => {}
                    other => panic!("{text}: {other:?}"),
                }
            }
        });
        Self { path, _folder: folder, stored }
    }

    /// The descriptors as a restarted service receives them.
    fn given(&self) -> Vec<(String, OwnedFd)> {
        let stored = self.stored.lock().expect("lock");
        stored.iter().map(|(name, fd)| (name.clone(), fd.try_clone().expect("duplicate"))).collect()
    }

    fn open(&self) -> (ManagerStore, Kept) {
        self.open_part("")
    }

    fn open_part(&self, part: &str) -> (ManagerStore, Kept) {
        let room = Arc::new(Room::new(Some(100), self.given().len()));
        ManagerStore::open(self.path.as_os_str(), &room, part, self.given()).expect("open")
    }
}

fn receive(socket: &OwnedFd) -> (String, Option<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4096];
    let read = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .expect("a notice")
        .bytes;
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    (String::from_utf8_lossy(&bytes[..read]).into_owned(), fd)
}

#[test]
fn descriptors_and_state_come_back_after_a_restart() {
    let manager = Manager::new();
    let (mut store, kept) = manager.open();
    assert!(kept.is_empty());
    let (mut reader, writer) = io::pipe().expect("pipe");
    store.keep("ring.0", writer.as_fd()).expect("keep");
    store.keep("ring.1", writer.as_fd()).expect("keep");
    for state in ["first", "a longer second state", "3"] {
        store.set_state(state.as_bytes()).expect("state");
    }
    store.forget("ring.1").expect("forget");
    store.settle().expect("settle");
    // The service is killed: its descriptors are closed.
    drop((store, writer));
    let (store, kept) = manager.open();
    assert_eq!(kept.state, b"3");
    assert_eq!(kept.descriptors.keys().collect::<Vec<_>>(), ["ring.0"]);
    rustix::io::write(&kept.descriptors["ring.0"], b"kept").expect("write");
    drop(kept);
    Box::new(store).end().expect("end");
    assert!(manager.given().is_empty());
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("all writers are closed");
    assert_eq!(text, "kept");
}

#[test]
fn parts_do_not_touch_each_other() {
    let manager = Manager::new();
    let (_reader, writer) = io::pipe().expect("pipe");
    for part in ["", "lan", "wan"] {
        let (mut store, kept) = manager.open_part(part);
        assert!(kept.is_empty(), "{part}: {kept:?}");
        store.keep("ring.0", writer.as_fd()).expect("keep");
        store.set_state(part.as_bytes()).expect("state");
    }
    Box::new(manager.open_part("lan").0).end().expect("end");
    let mut left: Vec<String> = manager.given().into_iter().map(|(name, _)| name).collect();
    left.sort();
    assert_eq!(left, ["weft.ring.0", "weft.state", "weft@wan.ring.0", "weft@wan.state"]);
    assert_eq!((manager.open_part("wan").1.state, manager.open_part("").1.state), (b"wan".into(), vec![]));
    assert_eq!(
        (part_of("weft@wan.ring.0"), part_of("weft.state"), part_of("control")),
        (Some("wan"), Some(""), None)
    );
}

#[test]
fn a_state_is_whole_whatever_its_length() {
    let memfd = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
    assert!(read_state(&memfd).is_empty());
    for length in [0, 1, 5000, 3, 100_000, 99_999, 7, 200_000, 0, 4096] {
        let state = vec![length as u8; length];
        write_state(&memfd, &state).expect("write");
        assert_eq!(read_state(&memfd), state);
    }
}

#[test]
fn a_manager_without_room_is_refused() {
    let open =
        |most| ManagerStore::open(OsStr::new("/nowhere"), &Arc::new(Room::new(most, 0)), "", Vec::new());
    assert!(matches!(open(None), Err(StoreError::NoRoom)));
    assert!(matches!(open(Some(0)), Err(StoreError::NoRoom)));
}

#[test]
fn the_parts_share_a_room_and_a_descriptor_beyond_it_is_refused() {
    let manager = Manager::new();
    let room = Arc::new(Room::new(Some(5), 0));
    let open = |part| ManagerStore::open(manager.path.as_os_str(), &room, part, Vec::new()).expect("open").0;
    let (mut lan, mut wan) = (open("lan"), open("wan"));
    let (_reader, writer) = io::pipe().expect("pipe");
    let full = |result: Result<(), StoreError>| match result {
        Err(StoreError::Full { most, left, needed }) => (most, left, needed),
        other => panic!("{other:?}"),
    };
    lan.keep("ring.0", writer.as_fd()).expect("room");
    lan.set_state(b"state").expect("room for the state");
    lan.keep("ring.0", writer.as_fd()).expect("in place of the former");
    wan.keep("ring.0", writer.as_fd()).expect("room");
    room.reserve(1);
    assert_eq!(full(wan.check_room(2)), (5, 1, 2), "one is reserved");
    wan.keep("map.0", writer.as_fd()).expect("it is reserved for those");
    wan.keep("map.1", writer.as_fd()).expect("the last");
    assert_eq!(full(lan.keep("ring.1", writer.as_fd())), (5, 0, 1));
    wan.forget("map.1").expect("forget");
    lan.keep("ring.1", writer.as_fd()).expect("room again");
    lan.settle().expect("settle");
    assert_eq!(manager.given().len(), 5);
    Box::new(lan).end().expect("end");
    wan.check_room(2).expect("the room of the other part is free");
}
