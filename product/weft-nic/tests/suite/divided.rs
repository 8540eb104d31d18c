//! Datagrams of one five-tuple whose tested fields differ: a flow for each value, and one order where their class is the same.

use crate::common::bench::{
    Bench, Until, config, conserved, in_order, set_mark, set_priority, set_traffic_class,
};
use core::time::Duration;
use std::net::UdpSocket;
use weft_nic::testbed::RECEIVER;
use weft_units::Nanos;

const EF: u8 = 46 << 2;

/// Sends datagrams of `PAYLOAD` bytes with the numbers from `first` on.
fn send(socket: &UdpSocket, numbers: core::ops::Range<u32>) {
    for number in numbers {
        let mut packet = [0; 1000];
        packet[..4].copy_from_slice(&number.to_ne_bytes());
        socket.send_to(&packet, (RECEIVER, 6000)).expect("send");
    }
}

/// A call on one socket, with voice above bulk: the bulk class has a backlog all the time, and each packet of voice is followed by
/// one of bulk.
fn voice_beside_bulk(role: &str, test: &str, set: impl Fn(&UdpSocket, bool)) {
    let text = format!("class voice = {test}\nroot = priority {{ voice, limit 500kbps of fair of default }}");
    let bench = Bench::start(role, &text, &config(20), 2000, |_| ());
    let sink = bench.receiver(false, 6000);
    let socket = bench.sender(false);
    set(&socket, false);
    send(&socket, 0..40);
    for number in 40..60 {
        set(&socket, true);
        send(&socket, number..number + 1);
        set(&socket, false);
        send(&socket, number + 20..number + 21);
    }
    let mut order = Vec::new();
    let mut packet = [0; 1000];
    for _ in 0..80 {
        sink.recv(&mut packet).expect("a datagram");
        order.push(u32::from_ne_bytes(*packet.first_chunk().expect("a number")));
    }
    let (voice, bulk): (Vec<u32>, Vec<u32>) = order.iter().partition(|number| (40..60).contains(*number));
    assert!(voice.is_sorted() && bulk.is_sorted(), "{test}: {order:?}");
    let totals = bench.nic.totals().expect("totals");
    assert_eq!(bench.of(&totals, "voice").sent.packets.get(), 20, "{test}: {order:?}");
    assert_eq!(totals.sum(|class| class.moving).packets.get(), 0, "{test}: none is refused");
    // Half a second of bulk is sent before all of it has gone.
    let last = order.iter().rposition(|number| (40..60).contains(number)).expect("voice");
    assert!(last < 60, "{test}: voice waits behind bulk: {order:?}");
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
}

#[test]
fn packets_of_one_five_tuple_go_by_a_class_each() {
    if !weft_host::testing::privileged("packets_of_one_five_tuple_go_by_a_class_each") {
        return;
    }
    voice_beside_bulk("dvd", "dscp ef", |socket, voice| {
        set_traffic_class(socket, if voice { EF } else { 0 });
    });
    voice_beside_bulk("dvm", "mark 0x10/0xf0", |socket, voice| {
        set_mark(socket, if voice { 0x13 } else { 3 })
    });
    voice_beside_bulk("dvp", "priority 6", |socket, voice| set_priority(socket, if voice { 6 } else { 0 }));
}

/// RFC 2597, section 3: the drop precedences of one class are not reordered. A row tests the DSCP of another class, and the flow
/// began with a packet of that.
#[test]
fn packets_of_one_five_tuple_and_class_keep_their_order() {
    if !weft_host::testing::privileged("packets_of_one_five_tuple_and_class_keep_their_order") {
        return;
    }
    for first in [EF, 34 << 2] {
        let text = "class voice = dscp ef\nroot = priority { voice, fair of default }";
        let bench = Bench::start("dvo", text, &config(10), 2000, |_| ());
        let sink = bench.receiver(false, 6000);
        let socket = bench.sender(false);
        set_traffic_class(&socket, first);
        send(&socket, 0..1);
        // Other flows of the class, so that rings take turns.
        let others: Vec<UdpSocket> = (0..5).map(|_| bench.sender(false)).collect();
        others.iter().for_each(|other| send(other, 0..20));
        for number in 1..100 {
            // AF41, AF42 and AF43.
            set_traffic_class(&socket, [34, 36, 38][number as usize % 3] << 2);
            send(&socket, number..number + 1);
        }
        assert_eq!(in_order(&sink, Until::Arrived(200)), 200);
        let totals = bench.nic.totals().expect("totals");
        let voice = u64::from(first == EF);
        assert_eq!(bench.of(&totals, "voice").sent.packets.get(), voice, "{totals:#?}");
        conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
    }
}

/// A field that no row tests divides nothing, and neither the bits of a mark that none tests.
#[test]
fn fields_that_no_row_tests_divide_no_flow() {
    if !weft_host::testing::privileged("fields_that_no_row_tests_divide_no_flow") {
        return;
    }
    let text = "class a = mark 0x10/0xf0\nroot = priority { fair of a, fair of default }";
    let bench = Bench::start("dvn", text, &config(10), 2000, |_| ());
    let sink = bench.receiver(false, 6000);
    let socket = bench.sender(false);
    for number in 0..60 {
        set_traffic_class(&socket, (number as u8 % 3) << 3);
        set_priority(&socket, number as i32 % 5);
        set_mark(&socket, number % 7);
        send(&socket, number..number + 1);
    }
    assert_eq!(in_order(&sink, Until::Arrived(60)), 60);
    let totals = bench.settle(Duration::from_secs(5));
    assert_eq!((bench.nic.flows_by_class()[1], totals.records), (1, 1), "one flow, and one record of it");
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
}
