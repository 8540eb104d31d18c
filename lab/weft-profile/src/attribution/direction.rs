//! The direction of a call chain in the network stack.
//!
//! TCP's own functions decide first, the innermost of them: an acknowledgement is the work of what sent the data. Then the functions
//! of one direction decide, the innermost again, so that a forwarded packet is received and then transmitted. What is left of the
//! stack has no direction. Sockets without a network, and netlink, are not the network stack.
//!
//! Names are compared by their beginnings, after the compiler's suffixes were removed.

use weft_report::profile::Side;
use weft_report::profile::attached::Direction;

use super::marks;

/// Protocols of sockets whose packets reach no device.
const ELSEWHERE: [&str; 4] = ["unix_", "netlink_", "__netlink_", "rtnetlink_"];
/// Functions that only packets on their way out meet, and system calls that send.
const TRANSMIT: [&str; 27] = [
    "__dev_queue_xmit",
    "dev_queue_xmit",
    "dev_hard_start_xmit",
    "__dev_direct_xmit",
    "sch_direct_xmit",
    "__qdisc_run",
    "ip_queue_xmit",
    "__ip_queue_xmit",
    "ip_output",
    "ip_finish_output",
    "__ip_finish_output",
    "ip_local_out",
    "__ip_local_out",
    "ip_append_data",
    "__ip_append_data",
    "ip_make_skb",
    "ip6_xmit",
    "ip6_output",
    "ip6_finish_output",
    "udp_sendmsg",
    "udpv6_sendmsg",
    "inet_sendmsg",
    "inet6_sendmsg",
    "packet_snd",
    "sock_sendmsg",
    "sock_write_iter",
    "splice_to_socket",
];
/// System calls that send, in their several names.
const SEND: [&str; 6] =
    ["__sys_send", "___sys_send", "____sys_send", "__x64_sys_send", "__arm64_sys_send", "__sock_sendmsg"];
/// Functions that only packets on their way in meet.
const RECEIVE: [&str; 30] = [
    "net_rx_action",
    "__napi_poll",
    "napi_",
    "process_backlog",
    "netif_receive_skb",
    "__netif_receive_skb",
    "dev_gro_receive",
    "gro_receive",
    "inet_gro_receive",
    "ip_rcv",
    "ip_sublist_rcv",
    "ip_local_deliver",
    "ip_protocol_deliver",
    "ipv6_rcv",
    "ip6_input",
    "ip6_protocol_deliver",
    "tcp_v4_rcv",
    "tcp_v6_rcv",
    "tcp_v4_do_rcv",
    "tcp_v6_do_rcv",
    "tcp_rcv_",
    "udp_rcv",
    "__udp4_lib_rcv",
    "__udp6_lib_rcv",
    "udp_queue_rcv",
    "udp_recvmsg",
    "udpv6_recvmsg",
    "inet_recvmsg",
    "inet6_recvmsg",
    "packet_rcv",
];
/// System calls that receive.
const RECV: [&str; 7] = [
    "sock_recvmsg",
    "sock_read_iter",
    "__sys_recv",
    "___sys_recv",
    "____sys_recv",
    "__x64_sys_recv",
    "__arm64_sys_recv",
];
/// Other functions of the network stack.
const STACK: [&str; 20] = [
    "tcp_",
    "__tcp_",
    "udp_",
    "__udp",
    "inet_",
    "__inet_",
    "inet6_",
    "sock_",
    "__sock_",
    "__sys_socket",
    "__sys_connect",
    "__sys_accept",
    "ip_",
    "ip6_",
    "skb_",
    "netif_",
    "veth_",
    "tun_",
    "tap_",
    "macvtap_",
];

/// The direction of a chain, whose innermost function comes first; `None` if it is not in the network stack.
pub(super) fn of(names: &[&str]) -> Option<Direction> {
    let begins = |name: &str, marks: &[&str]| marks.iter().any(|mark| name.starts_with(mark));
    if names.iter().any(|name| begins(name, &ELSEWHERE)) {
        return None;
    }
    let general = |name: &&str| {
        if begins(name, &TRANSMIT) || begins(name, &SEND) {
            Some(Direction::Transmit)
        } else if begins(name, &RECEIVE) || begins(name, &RECV) {
            Some(Direction::Receive)
        } else {
            None
        }
    };
    let of_tcp = marks::side(names).map(|side| match side {
        Side::Sender => Direction::Transmit,
        Side::Receiver => Direction::Receive,
    });
    let in_stack = || names.iter().any(|name| begins(name, &STACK)).then_some(Direction::NotToldApart);
    of_tcp.or_else(|| names.iter().find_map(general)).or_else(in_stack)
}
