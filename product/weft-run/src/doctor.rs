//! The part of `weft doctor` that is about policies: the executor of their algorithms.

use weft_host::doctor::{Facility, State};
use weft_policy::machine_code::{NoMachineCode, probe};

/// Tries what this process can do for policies. Never fails.
pub fn survey() -> Vec<Facility> {
    vec![machine_code(probe())]
}

/// The line about machine code. The interpreter replaces it, so nothing is missing.
fn machine_code(tried: Result<(), NoMachineCode>) -> Facility {
    let state = match tried {
        Ok(()) => State::Present(String::new()),
        Err(error) => State::Limited(error.to_string()),
    };
    Facility {
        id: "policy.machine_code",
        title: "machine code for algorithms",
        state,
        brings: "algorithms of a policy at less cost; the interpreter gives the same order",
        remedy: "none is needed; under systemd, MemoryDenyWriteExecute=no in the unit allows it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_limit_and_says_what_runs_instead() {
        let refused = machine_code(Err(NoMachineCode::NotBuilt));
        let State::Limited(reason) = &refused.state else { panic!("{refused:?}") };
        assert!(reason.contains("feature `jit`") && reason.contains("are interpreted"), "{reason}");
        assert_eq!(machine_code(Ok(())).state, State::PRESENT);
        assert_eq!(survey().len(), 1);
    }
}
