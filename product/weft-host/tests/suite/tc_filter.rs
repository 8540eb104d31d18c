//! Filters of weftline and of others share a clsact, and are deleted independently.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::Command;

use libbpf_rs::libbpf_sys::{self, bpf_insn};
use weft_host::link::{self, VethOptions};
use weft_host::tc_filter::{self, BpfFilter, ETH_P_ALL, FilterError, free_priority};
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

fn veth(a: &NetNs, b: &NetNs) {
    link::create_veth((a, "va"), (b, "vb"), &VethOptions::default()).expect("veth");
}

fn ours(program: &OwnedFd, priority: u16) -> BpfFilter<'_> {
    BpfFilter {
        program: program.as_fd(),
        name: "weft-titan",
        priority,
        handle: 0x77,
        direct_action: true,
        queue_by_hash: None,
    }
}

#[test]
fn a_filter_is_echoed_as_it_was_added() {
    if !testing::privileged("a_filter_is_echoed_as_it_was_added") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    veth(&a, &b);
    let program = program();
    assert!(!tc_filter::has_clsact(&a, "va").expect("look"));
    let absent = tc_filter::add_bpf_egress(&a, "va", &ours(&program, 5)).expect_err("no clsact");
    assert_eq!(
        absent.to_string(),
        "link va of (unnamed) has no clsact qdisc; add it with: tc qdisc add dev va clsact"
    );
    tc_filter::add_clsact(&a, "va").expect("clsact");
    assert!(
        tc_filter::has_clsact(&a, "va").expect("look") && !tc_filter::has_clsact(&a, "lo").expect("look")
    );
    assert!(tc_filter::add_clsact(&a, "va").is_err(), "there is one already");

    tc_filter::add_bpf_egress(&a, "va", &ours(&program, 5)).expect("add");
    let mut plain = ours(&program, 6);
    plain.direct_action = false;
    tc_filter::add_bpf_egress(&a, "va", &plain).expect("add");
    let filters = tc_filter::egress_filters(&a, "va").expect("filters");
    assert_eq!(filters.len(), 2, "{filters:?}");
    for (filter, (priority, direct)) in filters.iter().zip([(5, true), (6, false)]) {
        assert_eq!((filter.kind.as_str(), filter.priority, filter.protocol), ("bpf", priority, ETH_P_ALL));
        assert_eq!((filter.handle, filter.chain), (0x77, 0));
        let at = filter.program.as_ref().expect("a program");
        assert_eq!((at.name.as_str(), at.direct_action, at.has_actions), ("weft-titan", direct, false));
        assert!(at.id > 0 && at.tag != [0; 8], "{at:?}");
    }
    assert!(tc_filter::ingress_filters(&a, "va").expect("ingress").is_empty());
    let taken = tc_filter::add_bpf_egress(&a, "va", &BpfFilter { handle: 0x78, ..ours(&program, 5) });
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
    veth(&a, &b);
    let run = |arguments: &str| {
        let status = a.run(|| Command::new(&tc).args(arguments.split(' ')).status()).expect("run");
        assert!(status.expect("tc").success(), "{arguments}");
    };
    tc_filter::add_clsact(&a, "va").expect("clsact");
    run("filter add dev va egress protocol ip pref 3 u32 match ip dst 10.0.0.0/8 classid 1:1");
    run("filter add dev va ingress protocol ip pref 9 u32 match ip dst 10.0.0.0/8 classid 1:1");
    let program = program();
    let others = tc_filter::egress_filters(&a, "va").expect("filters");
    assert!(others.iter().all(|f| f.kind == "u32" && f.priority == 3 && f.protocol == 0x0800), "{others:?}");
    let priority = free_priority(&others).expect("free");
    assert_eq!(priority, 2);
    tc_filter::add_bpf_egress(&a, "va", &ours(&program, priority)).expect("add");
    let state = tc_filter::egress_filters(&a, "va").expect("filters");
    assert_eq!(state[0].priority, 2, "{state:?}");
    let busy = tc_filter::delete_clsact(&a, "va").expect_err("in use");
    assert!(matches!(busy, FilterError::InUse { .. }), "{busy}");

    for (priority, handle) in [(2, 0x78), (3, 0x77), (2, 0), (0, 0x77)] {
        let none = tc_filter::delete_egress(&a, "va", priority, handle).expect_err("none");
        assert!(matches!(none, FilterError::NoSuchFilter { .. }), "{none}");
    }
    assert_eq!(tc_filter::egress_filters(&a, "va").expect("filters"), state, "nothing was deleted");
    tc_filter::delete_egress(&a, "va", 2, 0x77).expect("delete");
    assert_eq!(tc_filter::egress_filters(&a, "va").expect("filters"), others);
    assert!(matches!(tc_filter::delete_clsact(&a, "va"), Err(FilterError::InUse { .. })));
    run("filter del dev va egress pref 3");
    assert!(matches!(tc_filter::delete_clsact(&a, "va"), Err(FilterError::InUse { egress: 0, .. })));
    run("filter del dev va ingress pref 9");
    tc_filter::delete_clsact(&a, "va").expect("empty");
    assert!(!tc_filter::has_clsact(&a, "va").expect("look"));
    assert!(matches!(tc_filter::delete_clsact(&a, "va"), Err(FilterError::NoHook { .. })));
}

/// If the kernel has act_skbedit, the filter must have its action; otherwise the error must name the module.
#[test]
fn queues_by_hash_or_the_reason_why_not() {
    if !testing::privileged("queues_by_hash_or_the_reason_why_not") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    veth(&a, &b);
    tc_filter::add_clsact(&a, "va").expect("clsact");
    let program = program();
    let filter = BpfFilter { direct_action: false, queue_by_hash: Some(0..=3), ..ours(&program, 1) };
    match tc_filter::add_bpf_egress(&a, "va", &filter) {
        Ok(()) => {
            let filters = tc_filter::egress_filters(&a, "va").expect("filters");
            let at = filters[0].program.as_ref().expect("program");
            assert!(at.has_actions && !at.direct_action, "{filters:?}");
        }
        Err(error) => {
            assert_eq!(
                error.to_string(),
                "this kernel cannot choose queues in a filter: act_skbedit (CONFIG_NET_ACT_SKBEDIT) is neither built in \
                 nor loadable; use a kernel that has it"
            );
            assert!(tc_filter::egress_filters(&a, "va").expect("filters").is_empty(), "nothing stays behind");
        }
    }
}
