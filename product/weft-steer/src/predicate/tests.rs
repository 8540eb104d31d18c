//! Tests of predicates as texts, and random predicates.

use super::*;
use proptest::prelude::*;
use weft_packet::header_match::Field;

/// Number of bits that random predicates test.
pub(super) const BITS: usize = 9;

/// Returns the field and the bit of an index.
pub(super) fn field_bit(index: usize) -> (Field, u128) {
    let fields = [Field::DstPort, Field::SrcIp, Field::Vlan];
    (fields[index / 3], 1 << (index % 3))
}

/// Random header matches over those bits.
pub(crate) fn some_headers() -> impl Strategy<Value = HeaderMatch> {
    proptest::collection::vec(0u8..4, BITS).prop_map(|tests| {
        let mut headers = HeaderMatch::ALL;
        for (index, test) in tests.into_iter().enumerate().filter(|(_, test)| *test < 2) {
            let (field, bit) = field_bit(index);
            let (value, mask) = headers.get(field);
            headers = headers.with(field, value | (bit * u128::from(test)), mask | bit);
        }
        headers
    })
}

/// Random predicates as texts represent them: unions and conjunctions are empty or have several elements.
pub(crate) fn some_predicate() -> impl Strategy<Value = Predicate> {
    let leaf = prop_oneof![9 => some_headers().prop_map(Predicate::Is), 1 => Just(Predicate::Any(vec![]))];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let several = || proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            several().prop_map(Predicate::All),
            several().prop_map(Predicate::Any),
            inner.clone().prop_map(|one| Predicate::Not(Box::new(one))),
        ]
    })
}

/// Random header matches that resemble real filters.
fn some_filter() -> impl Strategy<Value = HeaderMatch> {
    let tests = proptest::collection::vec((0usize..10, any::<u128>(), any::<u128>(), any::<bool>()), 0..5);
    (tests, 0u8..3).prop_map(|(tests, family)| {
        let mut headers = HeaderMatch::ALL;
        for (field, value, mask, whole) in tests {
            let field = Field::ALL[field];
            headers = headers.with(field, value, if whole { u128::MAX } else { mask });
        }
        match family {
            0 => headers.exact(Field::EtherType, 0x0800),
            1 => headers.exact(Field::EtherType, 0x86dd),
            _ => headers,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(predicate in some_predicate()) {
        let text = predicate.to_string();
        prop_assert_eq!(read_predicate(&text), Ok(predicate), "{}", text);
    }

    #[test]
    fn every_header_match_reads_back(headers in some_filter()) {
        let text = headers.to_string();
        prop_assert_eq!(read_predicate(&text), Ok(Predicate::Is(headers)), "{}", text);
    }

    #[test]
    fn a_range_holds_its_addresses(first in any::<u32>(), last in any::<u32>(), probe in any::<u32>()) {
        let (first, last) = (first.min(last), first.max(last));
        let address = |bits: u32| core::net::Ipv4Addr::from(bits);
        let text = format!("src-ip {}..{}", address(first), address(last));
        let predicate = read_predicate(&text).expect("a range");
        for probe in [probe, first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
            let packet = HeaderMatch::ALL.prefix(Field::SrcIp, weft_packet::Prefix::host(address(probe).into()));
            prop_assert_eq!(predicate.passes(&packet), (first..=last).contains(&probe), "{} {}", text, probe);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ a-z0-9()./&:\"#-]{0,40}") {
        if let Err(error) = read_predicate(&text) {
            prop_assert!(error.span.end <= text.len() && !error.what.is_empty() && !error.hint.is_empty());
        }
    }
}

fn read(text: &str) -> Predicate {
    read_predicate(text).expect(text)
}

#[test]
fn forms_that_mean_the_same() {
    for (one, other) in [
        ("tcp", "ip-proto 6"),
        ("ip-proto udp", "ip-proto 17"),
        ("ipv4", "ether-type 0x0800"),
        ("vlan 5", "vlan 5/0xfff"),
        ("vlan 5", "vlan 0x5&0xfff"),
        ("src-ip 10.0.0.0/8", "src-ip 10.0.0.0&255.0.0.0"),
        ("src-ip 10.0.0.0/8", "ether-type 0x800 src-ip 0xa000000/0xff000000"),
        ("src-ip fd00::1", "ipv6 src-ip 0xfd000000000000000000000000000001"),
        ("dst-mac 02:00:00:00:00:0A", "dst-mac 0x02000000000a"),
        ("dst-port 80 # the web", "(((dst-port 80)))"),
        ("dst-port 1024..65535 or tcp", "(dst-port 1024..65535) or tcp"),
        ("dst-port 7..7", "dst-port 7"),
        ("udp and tcp or sctp", "(udp and tcp) or sctp"),
        ("not tcp dst-port 5", "(not tcp) and dst-port 5"),
        ("any", "src-ip 0x0 or any and not none or any"),
    ] {
        let (one, other) = (read(one), read(other));
        for packet in [1, 6, 17].into_iter().flat_map(|protocol| {
            [5, 7, 80, 2000]
                .map(|port| HeaderMatch::ALL.exact(Field::IpProtocol, protocol).exact(Field::DstPort, port))
        }) {
            assert_eq!(one.of(&packet).is_empty(), other.of(&packet).is_empty(), "{one} | {other}");
        }
        let differ = Predicate::Any(vec![
            Predicate::All(vec![one.clone(), Predicate::Not(Box::new(other.clone()))]),
            Predicate::All(vec![other.clone(), Predicate::Not(Box::new(one.clone()))]),
        ]);
        assert_eq!(differ.of(&HeaderMatch::ALL), [], "{one} | {other}");
    }
}

#[test]
fn the_example_of_the_documentation() {
    let predicate = read("src-ip 10.0.0.0/8 and dst-port 1000..2000 and not tcp-flags 0x2/0x2");
    let packet = |src: u128, port: u128, flags: u128| {
        HeaderMatch::ALL
            .exact(Field::EtherType, 0x0800)
            .exact(Field::SrcIp, src)
            .exact(Field::DstPort, port)
            .exact(Field::TcpFlags, flags)
    };
    for (src, port, flags, passes) in [
        (0x0a01_0203, 1000, 0x10, true),
        (0x0a01_0203, 2000, 0x10, true),
        (0x0a01_0203, 2001, 0x10, false),
        (0x0b01_0203, 1000, 0x10, false),
        (0x0a01_0203, 1000, 0x12, false),
    ] {
        assert_eq!(predicate.passes(&packet(src, port, flags)), passes, "{src:#x} {port} {flags:#x}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, at, says) in [
        ("", 0, "ends where a test should be"),
        ("tcp and", 7, "ends where a test should be"),
        ("dst-prt 5", 0, "did you mean `dst-port`?"),
        ("tcp )", 4, "`)` is not a test"),
        ("(tcp", 4, "put `)` here"),
        ("dst-port", 8, "dst-port has no value"),
        ("dst-port http", 9, "dst-port takes a number"),
        ("dst-port 70000", 9, "does not fit into the 16 bits of dst-port"),
        ("dst-port 9..5", 9, "an empty range"),
        ("dst-port 0x3/0x1", 9, "write 0x1&0x1"),
        ("dst-port 0/0", 9, "tests nothing"),
        ("vlan 4096", 5, "not a VLAN identifier"),
        ("src-ip 10.0.0.1/8", 7, "the network is 10.0.0.0/8"),
        ("src-ip 10.0.0.1..fd00::1", 7, "from one address family to the other"),
        ("dst-port 1 dst-port 2", 0, "no packet passes both"),
        ("src-ip 10.0.0.1 ipv6", 0, "no packet passes both"),
        ("dst-port \"5\"", 9, "dst-port has no value"),
    ] {
        let error = read_predicate(text).expect_err(text);
        assert_eq!(error.span.start, at, "{text}: {error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
    let deep = "not ".repeat(100) + "tcp";
    assert!(read_predicate(&deep).expect_err("deep").what.contains("64 levels"));
}
