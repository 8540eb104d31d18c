//! Functions in a call chain that show a softirq's work and its side.
//!
//! Names are compared after the compiler's suffixes were removed; those that only older or newer kernels have do no harm.

use weft_report::profile::Side;

/// The entries of a softirq, and of a thread that does a softirq's work.
const SOFTIRQ: [&str; 6] = [
    "handle_softirqs",
    "__do_softirq",
    "napi_threaded_poll",
    "napi_threaded_poll_loop",
    "run_backlog_napi",
    PROCESSOR_THREAD,
];
/// The entry of the threads on each processor (kernel/smpboot.c).
const PROCESSOR_THREAD: &str = "smpboot_thread_fn";
/// Those of a NAPI thread.
const NAPI_THREAD: [&str; 2] = ["napi_threaded_poll", "napi_threaded_poll_loop"];
/// The beginnings of names of the network's softirqs and of TCP's timers.
const NETWORK: [&str; 11] = [
    "net_rx_action",
    "net_tx_action",
    "__napi_poll",
    "napi_",
    "process_backlog",
    "tcp_",
    "__tcp_",
    "ip_",
    "__netif_receive_skb",
    "dev_gro_receive",
    "veth_",
];
/// The beginnings of names of functions that only the sender of data runs.
const SENDER: [&str; 17] = [
    "tcp_ack",
    "tcp_clean_rtx_queue",
    "tcp_write_xmit",
    "tcp_tsq_",
    "tcp_tasklet_func",
    "tcp_push_pending_frames",
    "__tcp_push_pending_frames",
    "tcp_data_snd_check",
    "tcp_check_space",
    "tcp_new_space",
    "tcp_retransmit_",
    "__tcp_retransmit_",
    "tcp_xmit_",
    "tcp_write_timer",
    "tcp_sendmsg",
    "sk_stream_write_space",
    "net_tx_action",
];
/// The beginnings of names of functions that only the receiver of data runs.
const RECEIVER: [&str; 14] = [
    "tcp_data_queue",
    "tcp_queue_rcv",
    "tcp_try_coalesce",
    "tcp_try_rmem_schedule",
    "__tcp_ack_snd_check",
    "tcp_send_ack",
    "__tcp_send_ack",
    "tcp_delack_",
    "tcp_event_data_recv",
    "tcp_recvmsg",
    "tcp_rcv_space_adjust",
    "tcp_grow_window",
    "tcp_cleanup_rbuf",
    "sock_def_readable",
];
/// Functions of the sender's that begin like `tcp_ack` and are the receiver's.
const RECEIVER_EXACT: [&str; 2] = ["tcp_ack_snd_check", "__tcp_ack_snd_check"];
/// Entries of hardware interrupts.
const INTERRUPT: [&str; 3] = ["asm_sysvec_", "asm_common_interrupt", "common_interrupt"];

/// The position of the innermost softirq's entry.
pub(super) fn softirq(names: &[&str]) -> Option<usize> {
    names.iter().position(|name| SOFTIRQ.contains(name))
}

/// Whether a softirq's functions are the network's.
pub(super) fn is_network(inside: &[&str]) -> bool {
    inside.iter().any(|name| NETWORK.iter().any(|mark| name.starts_with(mark)))
}

/// Whether a NAPI thread runs.
pub(super) fn is_napi_thread(names: &[&str]) -> bool {
    names.iter().any(|name| NAPI_THREAD.contains(name))
}

/// Whether a thread runs that the kernel has on each processor, as ksoftirqd.
pub(super) fn is_processor_thread(names: &[&str]) -> bool {
    names.contains(&PROCESSOR_THREAD)
}

/// Whether the function is the entry of a hardware interrupt.
pub(super) fn is_interrupt(name: &str) -> bool {
    INTERRUPT.iter().any(|mark| name.starts_with(mark))
}

/// The side that alone has one of the functions; the innermost decides.
pub(super) fn side(names: &[&str]) -> Option<Side> {
    let begins = |name: &str, marks: &[&str]| marks.iter().any(|mark| name.starts_with(mark));
    let of = |name: &&str| {
        if RECEIVER_EXACT.contains(name) || begins(name, &RECEIVER) {
            Some(Side::Receiver)
        } else if begins(name, &SENDER) {
            Some(Side::Sender)
        } else {
            None
        }
    };
    names.iter().find_map(of)
}
