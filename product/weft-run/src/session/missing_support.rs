//! The needs of a policy in force that the kernel does not meet, as warnings for the operator.

use weft_nic::nic::SoftwareNic;

/// The warnings.
pub(super) fn warnings(nic: &SoftwareNic) -> impl Iterator<Item = String> {
    let messages = nic.messages_missing().map(|why| no_messages(&why));
    messages.into_iter().chain(nic.socket_owners_missing().map(|why| no_makers(&why)))
}

fn no_messages(why: &str) -> String {
    format!("an algorithm reads what applications tell of their messages, and they cannot tell: {why}")
}

/// Rows that test the process match nothing then; those that test a cgroup do.
fn no_makers(why: &str) -> String {
    format!(
        "a class tests `process`, and which process makes a socket is not known, so it gets no packets: {why}; start the program \
         in a cgroup of its own, such as by `systemd-run --scope --unit=NAME COMMAND`, and test \
         `cgroup \"/system.slice/NAME.scope\"`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_tests_a_process_that_is_not_known_is_told_the_way_by_cgroup() {
        let warning = no_makers("eBPF: the kernel refuses it");
        for part in
            ["tests `process`", "gets no packets: eBPF: the kernel refuses it", "cgroup \"/system.slice/"]
        {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        assert_eq!(warning.lines().count(), 1);
    }
}
