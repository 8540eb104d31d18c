//! A synthetic trace whose breakdown is known, and the rules one by one.

use super::*;
use weft_host::perf_event::Sample;

/// Functions of the synthetic kernel; an address is the index times 16.
const FUNCTIONS: [&str; 26] = [
    "none",
    "_copy_to_iter",
    "tcp_recvmsg_locked",
    "__sys_recvfrom",
    "entry_SYSCALL_64",
    "_copy_from_iter",
    "tcp_sendmsg_locked",
    "__sys_sendto",
    "tcp_ack",
    "tcp_rcv_established",
    "ip_rcv",
    "net_rx_action",
    "handle_softirqs",
    "tcp_data_queue",
    "veth_xmit",
    "tcp_write_xmit",
    "_raw_spin_unlock_irqrestore",
    "sock_def_readable",
    "brand_new_function",
    "memset",
    "kmem_cache_alloc_noprof",
    "default_idle",
    "run_timer_base",
    "__local_bh_enable_ip",
    "napi_threaded_poll",
    "dev_gro_receive",
];
const SENDER: u32 = 10;
const RECEIVER: u32 = 20;
const NAPI: u32 = 21;
const STRANGER: u32 = 30;
const TOOL: u32 = 40;

fn address(name: &str) -> u64 {
    16 * FUNCTIONS.iter().position(|f| *f == name).unwrap_or_else(|| panic!("{name}")) as u64
}

fn function(address: u64) -> Option<&'static str> {
    FUNCTIONS.get((address / 16) as usize).copied().filter(|_| address != 0)
}

fn sample(pid: u32, mode: Mode, chain: &[&str]) -> Sample {
    let chain = chain.iter().map(|name| address(name)).collect();
    Sample { pid, cpu: 0, mode, period: 1_000_000, chain }
}

fn setting() -> Setting {
    Setting {
        processes: Processes::Known { sender: [SENDER].into(), receiver: [RECEIVER, NAPI].into() },
        tool: TOOL,
        traffic: Traffic::Bulk,
        clock: Clock::CpuClock,
        unit_s: 1e-9,
        sender_packets: 0.25,
    }
}

/// The milliseconds of `count` samples of each chain.
fn attribute(chains: &[(u32, Mode, &[&str], u32)], setting: &Setting) -> Attribution {
    let mut trace = Trace::default();
    for (pid, mode, chain, count) in chains {
        (0..*count).for_each(|_| trace.add(&sample(*pid, *mode, chain)));
    }
    Attribution::of(&trace, function, &Categories::shipped().expect("table"), setting)
}

fn ms(seconds: f64) -> u32 {
    (seconds * 1e3).round() as u32
}

const RECV: &[&str] = &["_copy_to_iter", "tcp_recvmsg_locked", "__sys_recvfrom", "entry_SYSCALL_64"];
const SEND: &[&str] = &["_copy_from_iter", "tcp_sendmsg_locked", "__sys_sendto", "entry_SYSCALL_64"];
/// The sender's system call, inside of which the softirq delivers to the receiver.
const DELIVER: &[&str] = &[
    "tcp_data_queue",
    "tcp_rcv_established",
    "ip_rcv",
    "net_rx_action",
    "handle_softirqs",
    "__local_bh_enable_ip",
    "veth_xmit",
    "tcp_write_xmit",
    "tcp_sendmsg_locked",
];
const ACK: &[&str] =
    &["tcp_ack", "tcp_rcv_established", "ip_rcv", "net_rx_action", "handle_softirqs", "_copy_to_iter"];
const EITHER: &[&str] = &["ip_rcv", "net_rx_action", "handle_softirqs", "default_idle"];

#[test]
fn a_trace_with_a_known_breakdown_is_attributed_exactly() {
    use Mode::{Kernel, User};
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        (RECEIVER, Kernel, RECV, 500),
        (RECEIVER, User, &[], 30),
        (SENDER, Kernel, SEND, 200),
        (SENDER, User, &[], 10),
        (SENDER, Kernel, DELIVER, 70),
        (RECEIVER, Kernel, ACK, 40),
        (0, Kernel, EITHER, 80),
        (0, Kernel, &["default_idle"], 900),
        (STRANGER, Kernel, SEND, 60),
        (TOOL, User, &[], 7),
        (SENDER, Kernel, &["_raw_spin_unlock_irqrestore", "tcp_write_xmit", "tcp_sendmsg_locked"], 25),
        (SENDER, Kernel, &["_raw_spin_unlock_irqrestore", "sock_def_readable", "tcp_data_queue"], 15),
        (RECEIVER, Kernel, &["memset", "kmem_cache_alloc_noprof"], 12),
        (RECEIVER, Kernel, &["brand_new_function", "tcp_recvmsg_locked"], 9),
        (RECEIVER, Kernel, &["brand_new_function"], 3),
    ];
    let all = attribute(chains, &setting());
    let (sender, receiver) = (&all.sender, &all.receiver);
    assert_eq!((ms(sender.user_s), ms(receiver.user_s)), (10, 30));
    // Its calls; its acknowledgements and a quarter of the path that either side has.
    assert_eq!((ms(sender.system_s), ms(sender.softirq_s)), (200 + 25 + 15, 40 + 20));
    assert_eq!((ms(receiver.system_s), ms(receiver.softirq_s)), (500 + 12 + 9 + 3, 70 + 60));
    assert_eq!((ms(all.foreign_s), ms(all.tool_s), ms(all.idle_s)), (60, 7, 900));
    let of = |time: &SideTime, category| ms(time.categories_s.get(&category).copied().unwrap_or(0.0));
    let expected = [
        (Category::DataCopy, 200, 500),
        (Category::Tcpip, 40 + 20, 70 + 60 + 9),
        (Category::IrqOff, 25, 0),
        (Category::Sched, 15, 0),
        (Category::Mem, 0, 12),
        (Category::Unmapped, 0, 3),
    ];
    for (category, s, r) in expected {
        assert_eq!((of(sender, category), of(receiver, category)), (s, r), "{}", category.name());
    }
    let whole: f64 = [sender, receiver].map(|t| t.categories_s.values().sum::<f64>()).iter().sum();
    assert_eq!(
        ms(whole),
        ms(sender.kernel_s() + receiver.kernel_s()),
        "every kernel sample has one category"
    );
    assert_eq!(all.missing.keys().collect::<Vec<_>>(), ["brand_new_function"]);
    assert_eq!(ms(all.missing["brand_new_function"]), 12);
    assert!((all.leaf_unmapped() - 12.0 / (240.0 + 60.0 + 524.0 + 130.0)).abs() < 1e-9);
    let stacks: f64 = all.stacks.values().sum();
    assert_eq!(ms(stacks), ms(whole));
    let (side, category, frames) = all.stacks.keys().next().expect("a stack");
    assert_eq!((*side, *category), (Side::Sender, Category::DataCopy));
    assert_eq!(frames.first().map(String::as_str), Some("entry_SYSCALL_64"), "from the outermost");
}

#[test]
fn without_skid_a_function_keeps_its_own_category() {
    let chains: &[(u32, Mode, &[&str], u32)] =
        &[(SENDER, Mode::Kernel, &["_raw_spin_unlock_irqrestore", "tcp_write_xmit"], 5)];
    let all = attribute(chains, &Setting { clock: Clock::Cycles, ..setting() });
    assert_eq!(all.sender.categories_s.keys().collect::<Vec<_>>(), [&Category::Lock]);
}

#[test]
fn a_device_s_thread_works_for_the_device_s_side() {
    let chains: &[(u32, Mode, &[&str], u32)] =
        &[(NAPI, Mode::Kernel, &["dev_gro_receive", "napi_threaded_poll"], 6)];
    let all = attribute(chains, &setting());
    assert_eq!((ms(all.receiver.softirq_s), ms(all.sender.softirq_s)), (6, 0));
}

#[test]
fn requests_are_divided_and_timers_are_the_process_s() {
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        (0, Mode::Kernel, ACK, 8),
        (SENDER, Mode::Kernel, &["run_timer_base", "handle_softirqs", "tcp_sendmsg_locked"], 4),
    ];
    let all = attribute(chains, &Setting { traffic: Traffic::Requests, sender_packets: 0.5, ..setting() });
    assert_eq!((ms(all.sender.softirq_s), ms(all.receiver.softirq_s)), (4 + 4, 4));
}

#[test]
fn without_known_processes_marks_decide() {
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        (STRANGER, Mode::Kernel, RECV, 5),
        (STRANGER, Mode::Kernel, SEND, 3),
        (STRANGER, Mode::User, &[], 2),
    ];
    let all = attribute(chains, &Setting { processes: Processes::Unknown, ..setting() });
    assert_eq!((ms(all.receiver.system_s), ms(all.sender.system_s), ms(all.foreign_s)), (5, 3, 2));
}
