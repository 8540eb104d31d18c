//! Lowered programs in the kernel: its verifier accepts them, and a run leaves the same words in a map's value.

use super::{State, block, operands, operations, random_cases, sample_cases, state};
use libbpf_rs::libbpf_sys;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use weft_rank::ebpf::{BLOCK_BYTES, Block, BlockSource, INSTRUCTION_BYTES, lower};
use weft_rank::generate::Case;
use weft_rank::{Inputs, Program};
use weft_units::testing::skip;

/// A descriptor, or the error of the call that should have returned it.
fn descriptor(answer: i32) -> io::Result<OwnedFd> {
    if answer < 0 {
        return Err(io::Error::from_raw_os_error(-answer));
    }
    // SAFETY: a call has just returned this new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(answer) })
}

/// An array with one block as its only value.
fn map() -> io::Result<OwnedFd> {
    // SAFETY: the name is live for the call, and there are no options.
    let answer = unsafe {
        libbpf_sys::bpf_map_create(
            libbpf_sys::BPF_MAP_TYPE_ARRAY,
            c"weft_rank".as_ptr(),
            4,
            BLOCK_BYTES as u32,
            1,
            std::ptr::null(),
        )
    };
    descriptor(answer)
}

/// Loads a program of the type that runs on request only, `BPF_PROG_TYPE_SYSCALL`.
fn load(program: &Program, map: &OwnedFd) -> io::Result<OwnedFd> {
    let mut bytes = lower(program, BlockSource::Map(map.as_raw_fd()));
    let count = bytes.len() / INSTRUCTION_BYTES;
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        prog_flags: libbpf_sys::BPF_F_SLEEPABLE,
        ..Default::default()
    };
    // SAFETY: name, licence and instructions are live for the call; `count` instructions of eight bytes are in `bytes`, whose
    // alignment the kernel does not need, since it copies them.
    let answer = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SYSCALL,
            c"weft_rank".as_ptr(),
            c"GPL".as_ptr(),
            bytes.as_mut_ptr().cast(),
            count as libbpf_sys::size_t,
            &raw mut options,
        )
    };
    descriptor(answer)
}

/// Runs a program once.
fn test_run(program: &OwnedFd) -> io::Result<u32> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: the options are live for the call and name no buffers.
    let answer = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(options.retval) }
}

fn write(map: &OwnedFd, block: &Block) -> io::Result<()> {
    let key = 0_u32;
    // SAFETY: key and value have the map's sizes and are live for the call.
    let answer = unsafe {
        libbpf_sys::bpf_map_update_elem(
            map.as_raw_fd(),
            (&raw const key).cast(),
            block.bytes().as_ptr().cast(),
            0,
        )
    };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}

fn read(map: &OwnedFd) -> io::Result<Block> {
    let (key, mut bytes) = (0_u32, vec![0; BLOCK_BYTES]);
    // SAFETY: key and value have the map's sizes and are live for the call.
    let answer = unsafe {
        libbpf_sys::bpf_map_lookup_elem(map.as_raw_fd(), (&raw const key).cast(), bytes.as_mut_ptr().cast())
    };
    if answer < 0 {
        return Err(io::Error::from_raw_os_error(-answer));
    }
    Block::from_bytes(bytes).ok_or_else(|| io::Error::other("a block of another size"))
}

/// The kernel's executor, or nothing where this process may not use it.
struct Kernel(OwnedFd);

impl Kernel {
    fn new(test: &str) -> Option<Self> {
        let refused = |error: io::Error| skip(test, format!("bpf(2): {error}"));
        map().map(Self).map_err(refused).ok()
    }

    fn run(
        &self,
        program: &OwnedFd,
        inputs: &Inputs,
        parameters: &[u64],
        node: &[u64],
        child: &[u64],
    ) -> State {
        write(&self.0, &block(inputs, parameters, node, child)).expect("the map takes a block");
        assert_eq!(test_run(program).expect("a run"), 0);
        state(&read(&self.0).expect("a block"), node, child)
    }

    #[track_caller]
    fn load(&self, program: &Program) -> OwnedFd {
        load(program, &self.0).unwrap_or_else(|error| panic!("the kernel refuses {program:?}: {error}"))
    }

    #[track_caller]
    fn agrees(&self, case: &Case) {
        let program = self.load(&case.program);
        let found = self.run(&program, &case.inputs, &case.parameters, &case.node, &case.child);
        assert_eq!(found, case.interpret(), "{:?}", case.program);
    }
}

#[test]
fn the_kernel_agrees_on_operations_at_their_edges() {
    let Some(kernel) = Kernel::new("the_kernel_agrees_on_operations_at_their_edges") else { return };
    for (program, count) in operations() {
        let loaded = kernel.load(&program);
        for parameters in operands(count) {
            let found = kernel.run(&loaded, &Inputs::default(), &parameters, &[], &[7]);
            let mut child = vec![7];
            let effects = program.run(&Inputs::default(), &parameters, &mut [], &mut child);
            assert_eq!(found, (effects, vec![], child), "{parameters:#x?}: {program:?}");
        }
    }
}

#[test]
fn the_kernel_agrees_on_random_programs() {
    let Some(kernel) = Kernel::new("the_kernel_agrees_on_random_programs") else { return };
    random_cases(1_000).for_each(|case| kernel.agrees(&case));
}

#[test]
fn the_kernel_agrees_on_samples() {
    let Some(kernel) = Kernel::new("the_kernel_agrees_on_samples") else { return };
    sample_cases(20).for_each(|case| kernel.agrees(&case));
}
