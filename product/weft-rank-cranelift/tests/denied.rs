//! A process that may not have executable memory: a typed error, and the interpreter in its place. A process of its own, because the
//! refusal cannot be taken back.

use std::sync::Arc;
use weft_rank::{Execute, Inputs, Part, samples};
use weft_rank_cranelift::{CompileError, compile, compile_or_interpret, probe};
use weft_units::testing::skip;

/// The number of this process' mappings that are executable and have no file.
fn anonymous_code() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings");
    let is_code = |line: &&str| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1).is_some_and(|rights| rights.contains('x')) && fields.nth(3).is_none()
    };
    maps.lines().filter(is_code).count()
}

#[test]
fn denied_memory_is_an_error_and_the_interpreter_stands_in() {
    let algorithms: Vec<_> = samples::all().into_iter().map(Arc::new).collect();

    // Before the refusal: generations come and go, and leave no code behind.
    let before = anonymous_code();
    let kept = compile(&algorithms).expect("machine code");
    let one = anonymous_code();
    assert!(one > before, "compiled code has memory");
    for _ in 0..20 {
        drop(compile(&algorithms).expect("machine code"));
    }
    assert_eq!(anonymous_code(), one, "the memory of a generation is returned");
    assert!(probe().is_ok());

    // SAFETY: prctl with these arguments reads and writes no memory of this process.
    let answer = unsafe { libc::prctl(libc::PR_SET_MDWE, libc::PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) };
    if answer != 0 {
        let error = std::io::Error::last_os_error();
        return skip(
            "denied_memory_is_an_error_and_the_interpreter_stands_in",
            format!("PR_SET_MDWE: {error}"),
        );
    }
    let error = probe().expect_err("refused");
    assert!(matches!(error, CompileError::ExecutableMemory { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("Permission denied") && text.contains("MemoryDenyWriteExecute"), "{text}");

    let executors = compile_or_interpret(&algorithms);
    assert!(matches!(executors.interpreted, Some(CompileError::ExecutableMemory { .. })));
    assert_eq!(executors.executors.len(), algorithms.len());
    for (interpreted, code) in executors.executors.iter().zip(&kept) {
        let [found, expected] = [&**interpreted, code as &dyn Execute]
            .map(|execute| execute.run(Part::Rank, &Inputs::default(), &[1; 4], &mut [2; 4], &mut [3; 4]));
        assert_eq!(found, expected, "code that was there before still runs");
    }
    assert_eq!(anonymous_code(), one, "refused modules leave nothing behind");
}
