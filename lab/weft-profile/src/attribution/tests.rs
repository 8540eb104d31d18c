//! A synthetic trace whose breakdown is known, and the rules one by one.

use super::*;
use weft_host::perf_event::Sample;

/// Functions of the synthetic kernel; an address is the index times 16.
const FUNCTIONS: [&str; 41] = [
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
    "asm_sysvec_apic_timer_interrupt",
    "udp_sendmsg",
    "ip_finish_output",
    "unix_stream_sendmsg",
    "ext4_file_write_iter",
    "new_driver_poll",
    "run_ksoftirqd",
    "smpboot_thread_fn",
    "kthread",
    "schedule",
    "sysvec_apic_timer_interrupt",
    "tcp_delack_timer",
    "call_timer_fn",
    "vfs_read",
    "__napi_poll",
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
    Sample { pid, thread: pid, cpu: 0, mode, period: 1_000_000, chain }
}

fn setting() -> TraceConditions {
    TraceConditions {
        processes: Processes::Known { sender: [SENDER].into(), receiver: [RECEIVER, NAPI].into() },
        tool: TOOL,
        traffic: TrafficKind::Bulk,
        clock: Clock::CpuClock,
        unit_s: 1e-9,
        sender_packets: 0.25,
    }
}

/// The milliseconds of `count` samples of each chain.
fn attribute(chains: &[(u32, Mode, &[&str], u32)], setting: &TraceConditions) -> Attribution {
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

/// A softirq that delivers data and acknowledgements, a NAPI thread, functions that switch interrupts on, and functions without a rule:
/// the clock moves time between the functions' own categories and "interrupts off", and nothing else.
#[test]
fn a_known_breakdown_holds_by_both_clocks() {
    use Mode::Kernel;
    const UNLOCK: &str = "_raw_spin_unlock_irqrestore";
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        // One softirq on the idle task's time, with both sides' packets.
        (0, Kernel, DELIVER, 50),
        (0, Kernel, ACK, 30),
        (0, Kernel, EITHER, 40),
        // A softirq's leaf that switches interrupts on, with and without a pair.
        (0, Kernel, &[UNLOCK, "sock_def_readable", "tcp_data_queue", "net_rx_action", "handle_softirqs"], 6),
        (0, Kernel, &[UNLOCK, "tcp_ack", "net_rx_action", "handle_softirqs"], 7),
        (NAPI, Kernel, &["dev_gro_receive", "__napi_poll", "napi_threaded_poll"], 20),
        (NAPI, Kernel, &[UNLOCK, "new_driver_poll", "__napi_poll", "napi_threaded_poll"], 8),
        (NAPI, Kernel, &["new_driver_poll", "__napi_poll", "napi_threaded_poll"], 9),
        (SENDER, Kernel, &["__local_bh_enable_ip", "tcp_write_xmit"], 11),
        (SENDER, Kernel, &["brand_new_function", "new_driver_poll"], 4),
    ];
    let of = |time: &SideTime, category| ms(time.categories_s.get(&category).copied().unwrap_or(0.0));
    for (clock, late, own) in [(Clock::CpuClock, 1, 0), (Clock::Cycles, 0, 1)] {
        let all = attribute(chains, &TraceConditions { clock, ..setting() });
        let (sender, receiver) = (&all.sender, &all.receiver);
        // A quarter of the path of either side is the sender's.
        for (category, s, r) in [
            (Category::Tcpip, 30 + 10, 50 + 30),
            (Category::Netdev, 0, 20 + 9),
            (Category::Sched, 0, 6),
            (Category::Lock, 7 * own, 8 * own),
            (Category::Etc, 11 * own, 0),
            (Category::IrqOff, (7 + 11) * late, 8 * late),
            (Category::Unmapped, 4, 0),
        ] {
            let found = (of(sender, category), of(receiver, category));
            assert_eq!(found, (s, r), "{} by {}", category.name(), clock.name());
        }
        assert_eq!((ms(sender.softirq_s), ms(receiver.softirq_s)), (30 + 10 + 7, 50 + 30 + 6 + 20 + 8 + 9));
        assert_eq!((ms(sender.system_s), ms(receiver.system_s), ms(all.foreign_s)), (11 + 4, 0, 0));
        let whole: f64 = [sender, receiver].map(|t| t.categories_s.values().sum::<f64>()).iter().sum();
        assert_eq!(ms(whole), 185, "every sample once");
        assert_eq!(all.missing.keys().collect::<Vec<_>>(), ["brand_new_function", "new_driver_poll"]);
    }
}

#[test]
fn without_skid_a_function_keeps_its_own_category() {
    let chains: &[(u32, Mode, &[&str], u32)] =
        &[(SENDER, Mode::Kernel, &["_raw_spin_unlock_irqrestore", "tcp_write_xmit"], 5)];
    let all = attribute(chains, &TraceConditions { clock: Clock::Cycles, ..setting() });
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
    let all = attribute(
        chains,
        &TraceConditions { traffic: TrafficKind::Requests, sender_packets: 0.5, ..setting() },
    );
    assert_eq!((ms(all.sender.softirq_s), ms(all.receiver.softirq_s)), (4 + 4, 4));
}

/// TCP's timers in ksoftirqd, whose clock interrupts are set anew with no function of TCP's on the stack, counted as other
/// processes: a fifth of the samples of a quiet machine at `noopt`.
#[test]
fn softirqs_of_nobody_known_are_not_another_process() {
    const THREAD: u32 = 15;
    let thread = ["handle_softirqs", "run_ksoftirqd", "smpboot_thread_fn", "kthread"];
    let with = |inner: &[&'static str]| [inner, &thread[..]].concat();
    let (timer, tcp) = (with(&["_raw_spin_unlock_irqrestore"]), with(&["tcp_delack_timer", "call_timer_fn"]));
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        (THREAD, Mode::Kernel, &timer, 9),
        (THREAD, Mode::Kernel, &tcp, 4),
        (THREAD, Mode::Kernel, &["schedule", "smpboot_thread_fn", "kthread"], 2),
        (0, Mode::Kernel, &["sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt"], 1),
        (STRANGER, Mode::Kernel, &["vfs_read"], 3),
    ];
    let all = attribute(chains, &setting());
    assert_eq!((ms(all.interrupts_s), ms(all.foreign_s), ms(all.idle_s)), (9 + 2 + 1, 3, 0));
    assert_eq!((ms(all.receiver.softirq_s), ms(all.sender.softirq_s)), (4, 0));
}

#[test]
fn without_known_processes_marks_decide() {
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        (STRANGER, Mode::Kernel, RECV, 5),
        (STRANGER, Mode::Kernel, SEND, 3),
        (STRANGER, Mode::User, &[], 2),
    ];
    let all = attribute(chains, &TraceConditions { processes: Processes::Unknown, ..setting() });
    assert_eq!((ms(all.receiver.system_s), ms(all.sender.system_s), ms(all.foreign_s)), (5, 3, 2));
}

/// The account of a server and that of a client, in a trace of a whole host.
const SERVER: u32 = 1;
const CLIENT: u32 = 2;

fn host_time(chains: &[(u32, Mode, &[&str], u32)], wanted: impl Fn(u32) -> bool) -> host::HostTime {
    let mut trace = Trace::default();
    for (account, mode, chain, count) in chains {
        (0..*count).for_each(|_| trace.add_to(*account, &sample(STRANGER, *mode, chain)));
    }
    let table = Categories::shipped().expect("table");
    let sampling = host::Sampling { table: &table, clock: Clock::CpuClock, unit_s: 1e-9 };
    let mut all = host::HostTime::default();
    all.add(&trace, function, sampling, wanted);
    all
}

#[test]
fn a_host_s_time_is_attributed_exactly() {
    use Mode::{Kernel, User};
    use host::IDLE;
    use weft_report::profile::attached::Direction::{NotToldApart, Receive, Transmit};
    let chains: &[(u32, Mode, &[&str], u32)] = &[
        (SERVER, Kernel, RECV, 50),
        (SERVER, User, &[], 5),
        (SERVER, Kernel, &["ext4_file_write_iter", "entry_SYSCALL_64"], 9),
        (SERVER, Kernel, &["_copy_from_iter", "unix_stream_sendmsg", "__sys_sendto"], 3),
        (CLIENT, Kernel, SEND, 20),
        (CLIENT, Kernel, &["ip_finish_output", "udp_sendmsg", "__sys_sendto"], 4),
        (CLIENT, Kernel, DELIVER, 7),
        (CLIENT, Kernel, &["run_timer_base", "handle_softirqs", "tcp_sendmsg_locked"], 2),
        (CLIENT, Kernel, &["veth_xmit"], 1),
        (IDLE, Kernel, ACK, 6),
        (IDLE, Kernel, EITHER, 8),
        (IDLE, Kernel, &["default_idle", "asm_sysvec_apic_timer_interrupt"], 900),
        (IDLE, Kernel, &["asm_sysvec_apic_timer_interrupt", "default_idle"], 10),
        (CLIENT, Kernel, &["dev_gro_receive", "__napi_poll", "napi_threaded_poll"], 13),
    ];
    let all = host_time(chains, |_| true);
    let of = |account: u32, direction| ms(all.accounts[&account].direction_s(direction));
    let each = |account| [Transmit, Receive, NotToldApart].map(|direction| of(account, direction));
    assert_eq!(each(SERVER), [0, 50, 0], "a socket without a network and a file are no network");
    // What delivers within the client's system call is a softirq; a device's thread has its own account.
    assert_eq!(each(CLIENT), [20 + 4, 13, 1]);
    let softirqs = [Transmit, Receive].map(|direction| ms(all.softirqs.direction_s(direction)));
    assert_eq!(softirqs, [6, 7 + 8], "an acknowledgement is the work of what was sent");
    assert_eq!((ms(all.accounts[&SERVER].user_s), ms(all.accounts[&SERVER].kernel_s)), (5, 50 + 9 + 3));
    assert_eq!(ms(all.accounts[&IDLE].total_s()), 10, "interrupts of idle processors");
    let softirq = 7 + 2 + 6 + 8 + 13;
    assert_eq!((ms(all.user_s), ms(all.softirq_s)), (5, softirq));
    assert_eq!(ms(all.system_s), 50 + 9 + 3 + 20 + 4 + 1 + 10);
    assert_eq!(ms(all.stacks.values().sum()), 50 + 24 + 13 + 1 + 6 + 15);
}

#[test]
fn stacks_are_the_subject_s() {
    let chains: &[(u32, Mode, &[&str], u32)] =
        &[(SERVER, Mode::Kernel, RECV, 5), (CLIENT, Mode::Kernel, SEND, 3), (CLIENT, Mode::Kernel, ACK, 2)];
    let all = host_time(chains, |account| account == SERVER);
    assert_eq!(ms(all.stacks.values().sum()), 5);
    assert_eq!(all.network(|account| account == CLIENT).values().flat_map(BTreeMap::values).count(), 1);
    let mut twice = all.clone();
    twice.merge(all);
    assert_eq!((ms(twice.accounts[&SERVER].total_s()), ms(twice.softirqs.total_s())), (10, 4));
}
