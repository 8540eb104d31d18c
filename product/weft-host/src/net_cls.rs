//! The controller net_cls of cgroup v1, which gives the sockets of its groups a class.

/// The list of the kernel's controllers.
const CONTROLLERS: &str = "/proc/cgroups";

/// Whether the kernel has net_cls (CONFIG_CGROUP_NET_CLASSID). Without it, programs cannot read a socket's class, and the kernel
/// refuses those that try.
pub fn has_net_cls() -> bool {
    std::fs::read_to_string(CONTROLLERS).is_ok_and(|text| lists(&text, "net_cls"))
}

/// Whether `text`, in the form of `/proc/cgroups`, has a line for `controller`.
fn lists(text: &str, controller: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().next() == Some(controller))
}

#[cfg(test)]
mod tests {
    use super::lists;

    #[test]
    fn a_controller_is_the_first_word_of_a_line() {
        let text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nnet_cls\t0\t1\t1\n";
        assert!(lists(text, "net_cls") && lists(text, "cpu"));
        assert!(!lists(text, "net_prio") && !lists(text, "net") && !lists("", "cpu"));
    }
}
