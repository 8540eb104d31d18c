//! Traces read back by third-party parsers.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;
use std::io::{Error, Write};
use std::process::{Command, Stdio};
use weft_sim::ids::{GroupId, HostId, StreamId};
use weft_sim::trace::csv::COLUMNS;
use weft_sim::trace::{CapturePoint, CsvTrace, Ends, Observer, PacketEvent, PacketEventKind, PcapTrace};
use weft_units::testing::skip;
use weft_units::{Bytes, Nanos, TxQueueId};

const KINDS: [PacketEventKind; 5] = [
    PacketEventKind::Queued,
    PacketEventKind::Fetched,
    PacketEventKind::Sent,
    PacketEventKind::Dropped,
    PacketEventKind::Delivered,
];
const GROUPS: [Ends; 2] = [
    Ends { from: HostId(0), to: HostId(300), mss: 1460 },
    Ends { from: HostId(761), to: HostId(1), mss: 8960 },
];

/// Events of many lengths, flows, kinds and both directions.
fn events() -> Vec<PacketEvent> {
    let event = |i: u64| {
        let kind = KINDS[i as usize % 5];
        let group = (i / 5 % 2) as u32;
        let ends = GROUPS[group as usize];
        let reverse = i.is_multiple_of(7);
        let host = if (kind == PacketEventKind::Delivered) == reverse { ends.from } else { ends.to };
        PacketEvent {
            at: Nanos(i * 1_000_000_007),
            host,
            kind,
            flow: StreamId((i * 12_345) as u32),
            group: Some(GroupId(group)),
            queue: (!i.is_multiple_of(3)).then_some(TxQueueId(i as u32 % 8)),
            number: i * 99_991,
            len: Bytes(54 + i * 37 % 8961),
            marked: i % 4 == 1,
            created: Nanos(i * 1_000_000_000),
            begin: Nanos(i * 1_000_000_007),
            packets: 1,
            last: false,
        }
    };
    (0..1000).map(event).collect()
}

#[test]
fn tables_have_what_happened() {
    let mut trace = CsvTrace::new(Vec::new());
    events().iter().for_each(|event| trace.packet(event));
    let text = String::from_utf8(trace.finish().expect("memory")).expect("text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(COLUMNS.join(",").as_str()));
    assert_eq!(lines.next(), Some("0,300,queued,0,0,,0,54,0"));
    let mut count = 1;
    for (line, event) in lines.zip(&events()[1..]) {
        let fields: Vec<&str> = line.split(',').collect();
        let queue = event.queue.map(|queue| queue.0.to_string()).unwrap_or_default();
        let group = event.group.expect("of a group").0;
        let numbers = [event.at.0, event.host.0.into(), event.flow.0.into(), group.into()];
        let numbers = numbers.map(|number| number.to_string());
        assert_eq!([fields[0], fields[1], fields[3], fields[4]], numbers.each_ref().map(String::as_str));
        assert_eq!((fields[2], fields[5]), (event.kind.name(), queue.as_str()));
        assert_eq!([fields[6], fields[7]].map(str::parse), [Ok(event.number), Ok(event.len.0)]);
        assert_eq!(fields[8] == "1", event.marked);
        count += 1;
    }
    assert_eq!(count, 1000);
}

fn capture(point: CapturePoint, snaplen: u16) -> Vec<u8> {
    let mut trace = PcapTrace::new(Vec::new(), GROUPS.to_vec(), point, snaplen).expect("memory");
    events().iter().for_each(|event| trace.packet(event));
    trace.finish().expect("memory")
}

fn is_captured(event: &PacketEvent) -> bool {
    matches!(event.kind, PacketEventKind::Sent | PacketEventKind::Delivered)
}

fn address(host: u32) -> [u8; 4] {
    let hosts =
        [(0, [192, 0, 2, 1]), (1, [192, 0, 2, 2]), (300, [198, 51, 100, 47]), (761, [203, 0, 113, 254])];
    hosts.iter().find(|(index, _)| *index == host).expect("one of the groups' hosts").1
}

#[test]
fn captures_satisfy_an_independent_parser() {
    let file = capture(CapturePoint::Both, u16::MAX);
    let mut reader = PcapReader::new(&file[..]).expect("a pcap file");
    let mut captured = events().into_iter().filter(is_captured);
    while let Some(packet) = reader.next_packet() {
        let (packet, event) =
            (packet.expect("a packet"), captured.next().expect("not more packets than events"));
        assert_eq!(Nanos::from(packet.timestamp()), event.at);
        assert_eq!((u64::from(packet.orig_len()), packet.data().len() as u64), (event.len.0, event.len.0));
        let parsed = SlicedPacket::from_ethernet(packet.data()).expect("valid headers");
        let Some(NetSlice::Ipv4(ip)) = parsed.net else { panic!("not IPv4") };
        let header = ip.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(u64::from(header.total_len), event.len.0 - 14);
        assert_eq!(header.ecn.value() == 3, event.marked);
        let sent = event.kind == PacketEventKind::Sent;
        assert_eq!(header.time_to_live, if sent { 64 } else { 63 });
        let own = if sent { header.source } else { header.destination };
        assert_eq!(own, address(event.host.0));
        let Some(TransportSlice::Tcp(tcp)) = parsed.transport else { panic!("not TCP") };
        assert_eq!(
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
            Ok(tcp.checksum())
        );
        let ends = GROUPS[event.group.expect("of a group").index()];
        assert_eq!(tcp.sequence_number(), (event.number * u64::from(ends.mss)) as u32);
        let ports = (49_152 + event.flow.0 % 16_384, 49_152 + event.flow.0 / 16_384);
        let (sport, dport) = (u32::from(tcp.source_port()), u32::from(tcp.destination_port()));
        let forward = header.source == address(ends.from.0);
        assert_eq!(if forward { (sport, dport) } else { (dport, sport) }, ports);
        assert!(forward || header.source == address(ends.to.0));
    }
    assert!(captured.next().is_none());
}

#[test]
fn captures_are_cut_and_chosen_by_point() {
    for (point, count) in
        [(CapturePoint::Senders, 200), (CapturePoint::Receivers, 200), (CapturePoint::Both, 400)]
    {
        let file = capture(point, 60);
        let mut reader = PcapReader::new(&file[..]).expect("a pcap file");
        let mut packets = 0;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.expect("a packet");
            assert_eq!(packet.data().len() as u32, packet.orig_len().min(60));
            packets += 1;
        }
        assert_eq!(packets, count);
    }
}

#[test]
fn tshark_finds_nothing_malformed() {
    for snaplen in [54, 96, u16::MAX] {
        let command = Command::new("tshark")
            .args([
                "-r",
                "-",
                "-o",
                "ip.check_checksum:TRUE",
                "-o",
                "tcp.check_checksum:TRUE",
                "-T",
                "fields",
            ])
            .args(["-e", "frame.len", "-e", "_ws.malformed", "-e", "ip.checksum.status"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = command else {
            return skip("tshark_finds_nothing_malformed", "no tshark (Debian package tshark)");
        };
        let mut stdin = child.stdin.take().expect("piped");
        let writer = std::thread::spawn(move || stdin.write_all(&capture(CapturePoint::Both, snaplen)));
        let output = child.wait_with_output().expect("it ran");
        writer.join().expect("no panic").expect("it reads");
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = events().into_iter().filter(is_captured).map(|event| format!("{}\t\t1", event.len.0));
        assert_eq!(text.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

#[test]
fn errors_are_kept_until_the_end() {
    /// A sink that accepts only the first bytes.
    #[derive(Debug)]
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| Error::other("no space"))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut table = CsvTrace::new(Full(10_000));
    let mut file =
        PcapTrace::new(Full(10_000), GROUPS.to_vec(), CapturePoint::Both, 60).expect("room for the header");
    for event in events() {
        table.packet(&event);
        file.packet(&event);
    }
    assert!(table.finish().expect_err("no space").to_string().contains("no space"));
    let error = file.finish().expect_err("no space").to_string();
    assert!(error.contains("no space"), "{error}");

    let sent = events().into_iter().find(|event| event.kind == PacketEventKind::Sent).expect("one");
    let refuse = |event: PacketEvent| {
        let mut trace = PcapTrace::new(Vec::new(), GROUPS.to_vec(), CapturePoint::Both, 60).expect("memory");
        trace.packet(&event);
        trace.finish().expect_err("impossible").to_string()
    };
    assert!(refuse(PacketEvent { group: Some(GroupId(2)), ..sent }).contains("flow group 2"));
    assert!(refuse(PacketEvent { len: Bytes(53), ..sent }).contains("53 bytes"));
    assert!(refuse(PacketEvent { len: Bytes(65_550), ..sent }).contains("65550 bytes"));
    assert!(refuse(PacketEvent { at: Nanos::MAX, ..sent }).contains("32 bits"));
    let far = vec![Ends { from: HostId(0), to: HostId(762), mss: 1 }];
    assert!(
        PcapTrace::new(Vec::new(), far, CapturePoint::Both, 60)
            .expect_err("no address")
            .to_string()
            .contains("762")
    );
}
