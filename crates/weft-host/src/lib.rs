//! What weftline asks of Linux: namespaces, links, cgroups, processes, eBPF programs. Knows no policy.
