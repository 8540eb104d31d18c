//! Filters of weftline and of others share a clsact, and are deleted independently.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::Command;

use libbpf_rs::libbpf_sys::{self, bpf_insn};
use weft_host::link::{self, VethOptions};
use weft_host::tc::{
    ETH_P_ALL, Filter, FilterAction, FilterRule, Handle, TcDevice, TcError, TcObject, free_priority,
};
use weft_host::{NetNs, programs, testing};

/// Loads `mov r0, -1; exit` as a program of the type that filters require.
fn program() -> OwnedFd {
    let instruction = |code, imm| {
        let mut instruction = bpf_insn { code, imm, ..bpf_insn::default() };
        instruction.set_dst_reg(0);
        instruction
    };
    // BPF_ALU64 | BPF_MOV | BPF_K, and BPF_JMP | BPF_EXIT.
    let instructions = [instruction(0xb7, -1), instruction(0x95, 0)];
    // SAFETY: name, license and instructions are live for the call and of the lengths given; no options.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"weft_test".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the call has just returned this new descriptor, which nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn veth(a: &NetNs, b: &NetNs) -> TcDevice {
    link::create_veth((a, "va"), (b, "vb"), &VethOptions::default()).expect("veth");
    TcDevice::open(a, "va").expect("device")
}

fn ours(program: &OwnedFd, priority: u16) -> Filter<'_> {
    let rule = FilterRule::Bpf { program: program.as_fd(), name: "weft-titan", direct_action: true };
    Filter::new(Handle::EGRESS, priority, 0x77, rule)
}

/// The filter with the program's result as a match.
fn plain(program: &OwnedFd, priority: u16) -> Filter<'_> {
    let rule = FilterRule::Bpf { program: program.as_fd(), name: "weft-titan", direct_action: false };
    Filter { rule, ..ours(program, priority) }
}

#[test]
fn a_filter_is_echoed_as_it_was_added() {
    if !testing::privileged("a_filter_is_echoed_as_it_was_added") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    let mut device = veth(&a, &b);
    let program = program();
    assert!(!device.has_clsact().expect("look"));
    let absent = device.claim_filter(&ours(&program, 5)).expect_err("no clsact");
    assert_eq!(
        absent.to_string(),
        "link va of (unnamed) has no clsact qdisc; add it with: tc qdisc add dev va clsact"
    );
    device.add(&TcObject::clsact()).expect("clsact");
    assert!(
        device.has_clsact().expect("look")
            && !TcDevice::open(&a, "lo").expect("lo").has_clsact().expect("look")
    );
    assert!(device.add(&TcObject::clsact()).is_err(), "there is one already");

    device.claim_filter(&ours(&program, 5)).expect("add");
    device.claim_filter(&plain(&program, 6)).expect("add");
    let filters = device.filters(Handle::EGRESS).expect("filters");
    assert_eq!(filters.len(), 2, "{filters:?}");
    for (filter, (priority, direct)) in filters.iter().zip([(5, true), (6, false)]) {
        assert_eq!((filter.kind.as_str(), filter.priority, filter.protocol), ("bpf", priority, ETH_P_ALL));
        assert_eq!((filter.handle, filter.chain), (0x77, 0));
        let at = filter.program.as_ref().expect("a program");
        assert_eq!((at.name.as_str(), at.direct_action, at.has_actions), ("weft-titan", direct, false));
        assert!(at.id > 0 && at.tag != [0; 8], "{at:?}");
    }
    assert!(device.filters(Handle::INGRESS).expect("ingress").is_empty());
    let taken = device.claim_filter(&Filter { handle: 0x78, ..ours(&program, 5) });
    assert_eq!(
        taken.expect_err("taken").to_string(),
        "link va of (unnamed) has a filter of priority 5 at its egress already; choose another priority"
    );
}

#[test]
fn filters_of_others_are_left_alone() {
    if !testing::privileged("filters_of_others_are_left_alone") {
        return;
    }
    if !testing::has_program("filters_of_others_are_left_alone", "tc") {
        return;
    }
    let tc = programs::find("tc").expect("it is there");
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    let mut device = veth(&a, &b);
    let run = |arguments: &str| {
        let status = a.run(|| Command::new(&tc).args(arguments.split(' ')).status()).expect("run");
        assert!(status.expect("tc").success(), "{arguments}");
    };
    device.add(&TcObject::clsact()).expect("clsact");
    run("filter add dev va egress protocol ip pref 3 u32 match ip dst 10.0.0.0/8 classid 1:1");
    run("filter add dev va ingress protocol ip pref 9 u32 match ip dst 10.0.0.0/8 classid 1:1");
    let program = program();
    let others = device.filters(Handle::EGRESS).expect("filters");
    assert!(others.iter().all(|f| f.kind == "u32" && f.priority == 3 && f.protocol == 0x0800), "{others:?}");
    let priority = free_priority(&others).expect("free");
    assert_eq!(priority, 2);
    device.claim_filter(&ours(&program, priority)).expect("add");
    let state = device.filters(Handle::EGRESS).expect("filters");
    assert_eq!(state[0].priority, 2, "{state:?}");
    let busy = device.delete_clsact().expect_err("in use");
    assert!(matches!(busy, TcError::InUse { .. }), "{busy}");

    for (priority, handle) in [(2, 0x78), (3, 0x77), (2, 0), (0, 0x77)] {
        let none = device.delete_filter(Handle::EGRESS, priority, handle).expect_err("none");
        assert!(matches!(none, TcError::NoSuchFilter { .. }), "{none}");
    }
    assert_eq!(device.filters(Handle::EGRESS).expect("filters"), state, "nothing was deleted");
    device.delete_filter(Handle::EGRESS, 2, 0x77).expect("delete");
    assert_eq!(device.filters(Handle::EGRESS).expect("filters"), others);
    assert!(matches!(device.delete_clsact(), Err(TcError::InUse { .. })));
    run("filter del dev va egress pref 3");
    assert!(matches!(device.delete_clsact(), Err(TcError::InUse { egress: 0, .. })));
    run("filter del dev va ingress pref 9");
    device.delete_clsact().expect("empty");
    assert!(!device.has_clsact().expect("look"));
    assert!(matches!(device.delete_clsact(), Err(TcError::NoHook { .. })));
}

/// If the kernel has act_skbedit, the filter must have its action; otherwise the error must name the module.
#[test]
fn queues_by_hash_or_the_reason_why_not() {
    if !testing::privileged("queues_by_hash_or_the_reason_why_not") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    let mut device = veth(&a, &b);
    device.add(&TcObject::clsact()).expect("clsact");
    let program = program();
    let action = Some(FilterAction::QueueByHash(0..=3));
    let filter = Filter { action, ..plain(&program, 1) };
    match device.claim_filter(&filter) {
        Ok(()) => {
            let filters = device.filters(Handle::EGRESS).expect("filters");
            let at = filters[0].program.as_ref().expect("program");
            assert!(at.has_actions && !at.direct_action, "{filters:?}");
        }
        Err(error) => {
            let reason = "the kernel has no action skbedit; load act_skbedit or use a kernel that has it \
                          (CONFIG_NET_ACT_SKBEDIT)";
            assert!(error.to_string().ends_with(reason), "{error}");
            assert!(device.filters(Handle::EGRESS).expect("filters").is_empty(), "nothing stays behind");
        }
    }
}
