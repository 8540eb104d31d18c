//! The namespace behind a number, which the kernel gives in place of a descriptor where a link has its other end in another
//! namespace ([`Link::lower_netns`](crate::link::Link::lower_netns)).

use std::io;
use std::os::fd::AsFd;

use crate::RunId;
use crate::error::OsError;
use crate::link;
use crate::netns::{NETNS_DIR, NetNs};
use crate::tap::{self, TapError};
use crate::tap_queue;

/// The namespace that has `number` in `ns`, with its name in [`NETNS_DIR`] if it has one.
///
/// A TAP is made in `ns` and moved there, down, since its queue then leads to its namespace (`TUNGETDEVNETNS`). So a namespace is
/// found that has no name, and one whose processes this process may not inspect (ptrace(2), "Ptrace access mode checking").
///
/// # Errors
/// If the kernel has no TAPs, or refuses one there.
pub fn numbered(ns: &NetNs, number: i32) -> Result<NetNs, TapError> {
    let failed = |e: io::Error| {
        OsError::new(format!("open the namespace that has number {number} in {ns}"), e).needs("CAP_NET_ADMIN")
    };
    let name = RunId::current().device("find");
    // The TAP is deleted with its queue.
    let queues = tap::create(ns, &name, 1)?;
    link::move_to_numbered(ns, &name, number)?;
    let queue = queues.first().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let fd = tap_queue::namespace(queue.as_fd()).map_err(failed)?;
    let inode = rustix::fs::fstat(&fd).map_err(|e| failed(e.into()))?.st_ino;
    let files = std::fs::read_dir(NETNS_DIR).into_iter().flatten().flatten();
    let mut named = files.filter_map(|file| NetNs::open_path(&file.path()).ok());
    let found = named.find(|named| named.inode().is_ok_and(|of| of == inode));
    Ok(found.unwrap_or_else(|| NetNs::received(fd, &format!("net:[{inode}]"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{VethOptions, create_veth, move_to, show};
    use crate::testing;

    #[test]
    fn the_namespace_of_a_veth_s_other_end_is_found_by_its_number() {
        if !testing::privileged("the_namespace_of_a_veth_s_other_end_is_found_by_its_number") {
            return;
        }
        let name = testing::unique("num");
        let named = NetNs::create(&name).expect("named");
        let (near, far) = (NetNs::anonymous().expect("near"), NetNs::anonymous().expect("far"));
        create_veth((&near, "n0"), (&far, "n1"), &VethOptions::default()).expect("veth");
        let find = || {
            let number = show(&far, "n1").expect("link").lower_netns.expect("another");
            numbered(&far, number).expect("found")
        };
        // Neither a process nor a name has it.
        assert_eq!(find().inode().expect("inode"), near.inode().expect("inode"));
        assert!(find().name().starts_with("net:["), "{}", find());
        move_to(&near, "n0", &named).expect("move");
        assert_eq!(find().inode().expect("inode"), named.inode().expect("inode"));
        assert!(find().name().ends_with(&name), "{}", find());
        for ns in [&near, &far, &named] {
            let links = link::list(ns).expect("links");
            assert!(links.iter().all(|link| link.kind.as_deref() != Some("tun")), "{links:?}");
        }
        assert!(numbered(&far, 77).is_err(), "no such number");
    }
}
