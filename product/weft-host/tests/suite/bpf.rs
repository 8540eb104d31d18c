//! Maps, programs and links that outlive their object: reused, found by id, pinned, attached inside the kernel, iterated.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_host::bpf::{
    BpfError, MapFd, Object, ObjectOptions, ProgramFd, SharedLayout, SharedValue, TracingLink, program_info,
    program_maps,
};
use weft_host::link::{self, VethOptions};
use weft_host::sysctl::{self, SysctlError};
use weft_host::tc::{self, Filter, FilterAction, FilterRule, Handle, TcDevice, TcError, TcObject};
use weft_host::{Mac, NetNs, testing};

const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 2));

#[repr(C)]
struct Page {
    packets: AtomicU64,
    calls: AtomicU64,
}

// SAFETY: two atomics, `struct page` of shared.bpf.c.
unsafe impl SharedLayout for Page {}

fn packets(page: &SharedValue<Page>) -> u64 {
    page.packets.load(Ordering::Relaxed)
}

/// Compiles the programs of `tests/suite/bpf/shared.bpf.c`. Returns `None` and reports a skip if that is not possible.
fn image(test: &str) -> Option<Vec<u8>> {
    if !testing::privileged(test) {
        return None;
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]);
    command.args([
        "-D__TARGET_ARCH_x86",
        "-I/usr/include/x86_64-linux-gnu",
        "-I/usr/include/aarch64-linux-gnu",
    ]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/bpf/shared.bpf.c")).args(["-o", "-"]);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(output.stdout)
        }
        Err(error) => {
            testing::skip(test, format!("{clang}: {error}"));
            None
        }
    }
}

/// The tracing programs; the last one traces a function that does not exist.
const TRACING: &[&str] = &["weft_queue", "weft_send", "weft_dump", "weft_nowhere"];

fn options(rodata: &[u8]) -> ObjectOptions<'_> {
    ObjectOptions { name: "shared", rodata: Some(rodata), skip: TRACING, ..Default::default() }
}

/// Loads also the tracing programs that are not in `skip`. Returns `None` and reports a skip if the host forbids such programs even to root.
fn with_tracing(test: &str, image: &[u8], skip: &[&str]) -> Option<Object> {
    match Object::load_with(image, &ObjectOptions { skip, ..options(&1_u64.to_ne_bytes()) }) {
        Ok(object) => Some(object),
        Err(error @ BpfError::Libbpf { .. }) if error.to_string().contains("Operation not permitted") => {
            testing::skip(test, format!("tracing programs: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A bpf file system for one test, removed with the value.
struct Pins(PathBuf);

impl Pins {
    fn new() -> Pins {
        let path = std::env::temp_dir().join(testing::unique("pins"));
        std::fs::create_dir(&path).expect("folder");
        rustix::mount::mount("bpf", &path, "bpf", rustix::mount::MountFlags::empty(), None).expect("mount");
        Pins(path)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The two ends of a veth with eight queues, with a UDP socket on one. IPv6 is off: some time after a link is up, the kernel
/// would report its multicast groups from kernel sockets, 90 bytes that no test sent.
fn wire() -> (NetNs, NetNs, UdpSocket) {
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    for ns in [&a, &b] {
        match sysctl::set(ns, "net.ipv6.conf.default.disable_ipv6", "1") {
            Ok(()) | Err(SysctlError::NotInThisKernel { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let options = VethOptions { queues: Some(8), ..VethOptions::default() };
    link::create_veth((&a, "va"), (&b, "vb"), &options).expect("veth");
    link::add_address(&a, "va", IpAddr::V4(Ipv4Addr::new(10, 97, 0, 1)), 24).expect("address");
    link::add_neighbor(&a, "va", TO, Mac::local(1)).expect("neighbour");
    link::set_up(&a, "va").expect("up");
    link::set_up(&b, "vb").expect("up");
    link::wait_running(&a, "va", std::time::Duration::from_secs(10)).expect("running");
    TcDevice::open(&a, "va").and_then(|mut device| device.add(&TcObject::clsact())).expect("clsact");
    let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    (a, b, socket)
}

fn filter(program: &ProgramFd, priority: u16, direct_action: bool) -> Filter<'_> {
    let rule = FilterRule::Bpf { program: program.as_fd(), name: "weft-test", direct_action };
    Filter::new(Handle::EGRESS, priority, 1, rule)
}

fn attach(ns: &NetNs, program: &ProgramFd) {
    let filter = filter(program, 1, true);
    TcDevice::open(ns, "va").and_then(|mut device| device.claim_filter(&filter)).expect("attach");
}

#[test]
fn a_map_found_at_a_filter_is_used_by_another_object() {
    let Some(image) = image("a_map_found_at_a_filter_is_used_by_another_object") else { return };
    let (a, _b, socket) = wire();
    let first = Object::load_with(&image, &options(&10_u64.to_ne_bytes())).expect("load");
    attach(&a, &first.program_fd("weft_mark").expect("program"));
    drop(first);
    assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok());

    // The objects that another process can see: the filter, its program, the program's maps.
    let at = tc::filters(&a, "va", Handle::EGRESS).expect("filters").remove(0).program.expect("program");
    let maps = program_maps(at.id).expect("maps");
    let id_of = |name: &str| maps.iter().find(|(_, n)| n == name).unwrap_or_else(|| panic!("{maps:?}")).0;
    let map = MapFd::by_id(id_of("weft_page")).expect("map");
    assert_eq!((map.name().as_str(), map.key_size(), map.value_size()), ("weft_page", 4, 16));
    let page: SharedValue<Page> = map.shared().expect("shared");
    // The kernel sends a few more packets through a new link, so all counts are lower bounds.
    let before = packets(&page);
    assert!(before >= 10 && before.is_multiple_of(10), "{before}");

    let reuse = [("weft_page", &map)];
    let second = Object::load_with(&image, &ObjectOptions { reuse: &reuse, ..options(&1_u64.to_ne_bytes()) })
        .expect("load again");
    let mark = second.program_fd("weft_mark").expect("program");
    let its = program_maps(mark.id()).expect("maps");
    assert!(its.contains(&(map.id(), "weft_page".to_string())), "{its:?}");
    assert!(!its.contains(&(id_of("weft_sock"), "weft_sock".to_string())), "a map that was not to be reused");
    TcDevice::open(&a, "va")
        .and_then(|mut device| device.delete_filter(Handle::EGRESS, 1, 1))
        .expect("delete");
    attach(&a, &mark);
    let before = packets(&page);
    assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok());
    let after = packets(&page);
    assert!((before + 1..before + 10).contains(&after), "the second program counts by one: {before} {after}");

    let info = program_info(mark.id()).expect("info");
    assert_eq!((info.name.as_str(), info.recursion_misses), ("weft_mark", 0));
    assert!(program_info(u32::MAX).is_err() && MapFd::by_id(u32::MAX).is_err());
}

#[test]
fn a_map_of_another_layout_is_refused() {
    let Some(image) = image("a_map_of_another_layout_is_refused") else { return };
    let first = Object::load_with(&image, &options(&1_u64.to_ne_bytes())).expect("load");
    let sock = first.map_fd("weft_sock").expect("map");
    let load = |reuse: &[(&str, &MapFd)], skip: &[&str]| {
        Object::load_with(&image, &ObjectOptions { reuse, skip, ..options(&[]) }).expect_err("refused")
    };
    let error = load(&[("weft_page", &sock)], TRACING);
    assert_eq!(
        error.to_string(),
        "eBPF: map `weft_page` has type 24, the program was built for 2; it belongs to another version of weft; detach \
         that version first"
    );
    assert!(matches!(load(&[("none", &sock)], &[]), BpfError::Absent { what: "map", .. }));
    assert!(matches!(load(&[], &["none"]), BpfError::Absent { what: "program", .. }));
    // Unless it is skipped, the program that traces a missing function is refused.
    let error = load(&[], &["weft_queue", "weft_send", "weft_dump"]);
    assert!(error.to_string().starts_with("eBPF: load program `shared`: "), "{error}");
}

#[test]
fn only_a_per_cpu_array_has_values_per_cpu() {
    let Some(image) = image("only_a_per_cpu_array_has_values_per_cpu") else { return };
    let object = Object::load_with(&image, &options(&1_u64.to_ne_bytes())).expect("load");
    let error = object.per_cpu("weft_page", 0).expect_err("one value");
    assert!(matches!(error, BpfError::Libbpf { .. }) && error.to_string().contains("weft_page"), "{error}");
    assert!(matches!(object.per_cpu("weft_absent", 0), Err(BpfError::Absent { .. })));
}

#[test]
fn what_is_pinned_outlives_its_object() {
    let Some(image) = image("what_is_pinned_outlives_its_object") else { return };
    let pins = Pins::new();
    let path = |name: &str| pins.0.join(name);
    let (a, _b, socket) = wire();
    let object = Object::load_with(&image, &options(&1_u64.to_ne_bytes())).expect("load");
    let map = object.map_fd("weft_page").expect("map");
    map.pin(&path("page")).expect("pin map");
    assert!(map.pin(&path("page")).expect_err("twice").to_string().contains("pin map at `"));
    object.program_fd("weft_mark").expect("program").pin(&path("mark")).expect("pin program");
    drop((object, map));

    let mark = ProgramFd::pinned(&path("mark")).expect("program");
    assert_eq!(program_info(mark.id()).expect("info").name, "weft_mark");
    let map = MapFd::pinned(&path("page")).expect("map");
    let page: SharedValue<Page> = map.shared().expect("shared");
    let reached = packets(&page);
    attach(&a, &mark);
    assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok());
    assert!(packets(&page) > reached, "the pinned program writes to the pinned map");
    map.update(&0_u32.to_ne_bytes(), &[7; 16]).expect("write");
    assert_eq!(map.lookup(&0_u32.to_ne_bytes()).expect("read").expect("there")[8..], [7; 8]);

    let other = |error: BpfError| matches!(error, BpfError::OtherKind { .. });
    assert!(other(MapFd::pinned(&path("mark")).expect_err("a program is no map")));
    assert!(other(ProgramFd::pinned(&path("page")).expect_err("a map is no program")));
    assert!(other(TracingLink::pinned(&path("page")).expect_err("a map is no link")));
    let none = MapFd::pinned(&path("none")).expect_err("none").to_string();
    assert!(none.starts_with("eBPF: open the object pinned at `") && none.contains("No such file"), "{none}");
}

#[test]
fn a_pinned_tracepoint_keeps_its_program() {
    pinned_link(
        "a_pinned_tracepoint_keeps_its_program",
        "weft_queue",
        &["weft_send", "weft_dump", "weft_nowhere"],
    );
}

#[test]
fn a_pinned_function_entry_keeps_its_program() {
    pinned_link(
        "a_pinned_function_entry_keeps_its_program",
        "weft_send",
        &["weft_queue", "weft_dump", "weft_nowhere"],
    );
}

fn pinned_link(test: &str, program: &str, skip: &[&str]) {
    let Some(image) = image(test) else { return };
    let pins = Pins::new();
    let path = |name: &str| pins.0.join(name);
    let (_a, _b, socket) = wire();
    let Some(object) = with_tracing(test, &image, skip) else { return };
    object.map_fd("weft_page").expect("map").pin(&path("page")).expect("pin map");
    let link = object.attach_tracing(program).expect("attach");
    link.pin(&path("link")).expect("pin link");
    let id = link.program_id().expect("id");
    drop((object, link));

    let page: SharedValue<Page> = MapFd::pinned(&path("page")).expect("map").shared().expect("shared");
    let calls = || page.calls.load(Ordering::Relaxed);
    let before = calls();
    assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok());
    assert!(calls() > before, "the pinned link still runs its program");
    assert_eq!(TracingLink::pinned(&path("link")).expect("link").program_id().expect("id"), id);
    assert_eq!(program_info(id).expect("info").name, program);
    assert!(MapFd::pinned(&path("link")).is_err() && ProgramFd::pinned(&path("link")).is_err());

    std::fs::remove_file(path("link")).expect("unpin");
    testing::wait_for("the program is gone", || program_info(id).is_err());
    let before = calls();
    assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok());
    assert_eq!(calls(), before, "the link went with its file");
}

/// The filter's action chooses the queue, and the next filter still sees the packet.
#[test]
fn queues_are_taken_by_hash_and_later_filters_run() {
    let test = "queues_are_taken_by_hash_and_later_filters_run";
    let Some(image) = image(test) else { return };
    let (a, _b, _) = wire();
    let object = Object::load_with(&image, &options(&1_u64.to_ne_bytes())).expect("load");
    let (mark, look) = (object.program_fd("weft_mark"), object.program_fd("weft_look"));
    let (mark, look) = (mark.expect("program"), look.expect("program"));
    let action = Some(FilterAction::QueueByHash(2..=5));
    let choose = Filter { action, ..filter(&mark, 1, false) };
    match TcDevice::open(&a, "va").and_then(|mut device| device.claim_filter(&choose)) {
        Ok(()) => {}
        Err(error @ TcError::NoKind { .. }) => return testing::skip(test, error),
        Err(error) => panic!("{error}"),
    }
    let behind = filter(&look, 2, true);
    TcDevice::open(&a, "va").and_then(|mut device| device.claim_filter(&behind)).expect("attach");
    let page: SharedValue<Page> = object.shared("weft_page").expect("shared");
    // The probability that 64 flows miss one of four queues is less than one in ten million.
    for _ in 0..64 {
        let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
        assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok());
    }
    let queues = page.calls.load(Ordering::Relaxed);
    assert_eq!(queues, 0b11_1100, "{queues:#b}");
}

#[test]
fn an_iterator_reads_what_sockets_store() {
    let Some(image) = image("an_iterator_reads_what_sockets_store") else { return };
    let (a, _b, socket) = wire();
    let object = with_tracing(
        "an_iterator_reads_what_sockets_store",
        &image,
        &["weft_queue", "weft_nowhere", "weft_send"],
    );
    let Some(object) = object else { return };
    attach(&a, &object.program_fd("weft_mark").expect("program"));
    let map = object.map_fd("weft_sock").expect("map");
    let bytes_of = || -> Vec<u64> {
        let bytes = object.iterate("weft_dump", &map).expect("iterate");
        bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(chunk.try_into().expect("eight"))).collect()
    };
    assert_eq!(bytes_of(), Vec::<u64>::new(), "nothing has been sent");
    let second = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    (0..3).for_each(|_| assert!(socket.send_to(&[0; 100], (TO, 9)).is_ok()));
    assert!(second.send_to(&[0; 500], (TO, 9)).is_ok());
    let mut after = bytes_of();
    after.sort_unstable();
    // Ethernet 14, IPv4 20, UDP 8.
    assert_eq!(after, [3 * 142, 542]);
    assert!(object.iterate("weft_mark", &map).is_err(), "no iterator");
    assert!(matches!(object.iterate("none", &map), Err(BpfError::Absent { .. })));
    let page = object.map_fd("weft_page").expect("map");
    assert!(object.iterate("weft_dump", &page).is_err(), "a map of another type");
}
