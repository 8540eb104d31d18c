//! Traffic through a veth pair: bytes delivered, and the order check's counts.

use super::*;
use crate::experiments::titan::order::{Hook, OrderCheck};
use crate::testbed::pair::{Pair, RECEIVER, RECEIVER_LINK, SENDER_LINK};
use weft_host::testing::privileged;

#[test]
fn settings_that_cannot_be_are_refused() {
    for wrong in [
        Mix { threads: 0, ..Mix::default() },
        Mix { connections: 0, udp_flows: 0, ..Mix::default() },
        Mix { first_port: 65_535, ..Mix::default() },
        Mix { busy: Nanos::ZERO, ..Mix::default() },
    ] {
        assert!(matches!(wrong.check(), Err(TrafficError::Invalid(_))), "{wrong:?}");
    }
    Mix::default().check().expect("fits");
}

fn check(name: &str, mix: &Mix) {
    if !privileged(name) {
        return;
    }
    let pair = Pair::create();
    let egress = OrderCheck::attach(&pair.sender, SENDER_LINK, Hook::Egress).expect("egress");
    let ingress = OrderCheck::attach(&pair.receiver, RECEIVER_LINK, Hook::Ingress).expect("ingress");
    let stop = AtomicBool::new(false);
    let duration = Duration::from_secs(2);
    let report = run(mix, &pair.sender, &pair.receiver, RECEIVER, duration, &stop).expect("traffic");
    let (sent, came) = (egress.counts(), ingress.counts());
    println!("{name}: {report:?}\n egress {sent:?}\n ingress {came:?}\n late {:?}", ingress.late());
    assert_eq!(report.connections, u64::from(mix.connections));
    assert!(report.all_delivered(), "{report:?}");
    assert!(report.sent.get() > 0 && report.returned.get() > 0 && report.core_changes > 0);
    assert!(report.datagrams_delivered <= report.datagrams && report.datagrams.get() > 0);
    // The sockets number without gaps, TCP with its super-packets and UDP alike, in the order of sending.
    assert_eq!((sent.late.get(), sent.at_once.get(), sent.gaps, sent.beyond.get()), (0, 0, 0, 0));
    assert!(sent.packets.get() > 1000, "{sent:?}");
    assert_eq!(sent.flows, u64::from(mix.connections + mix.udp_flows));
    // A veth may drop, and may reorder packets of two cores; it makes no packets.
    assert!(came.packets <= sent.packets && came.flows <= sent.flows, "{sent:?} {came:?}");
    assert!(came.late.get() <= came.gaps, "{came:?}");
}

#[test]
fn every_byte_of_a_mix_is_delivered_and_every_packet_numbered() {
    check("every_byte_of_a_mix_is_delivered_and_every_packet_numbered", &Mix::default());
}

#[test]
fn small_messages_are_delivered_too() {
    let mix =
        Mix { sizes: MessageSizes::Small, connections: 40, udp_flows: 10, threads: 3, ..Mix::default() };
    check("small_messages_are_delivered_too", &mix);
}
