//! A bpf file system, in which maps, programs and links outlive the process that made them.
//!
//! The host's own at [`SYSTEM`] is used if there is one. Else one of ours is mounted at [`OWN`], and unmounted when nothing is
//! pinned in it any more. What others mounted or pinned is never touched.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::OsError;

/// Where hosts mount their bpf file system (systemd's sys-fs-bpf.mount).
pub const SYSTEM: &str = "/sys/fs/bpf";
/// Where ours is mounted if the host has none.
pub const OWN: &str = "/run/weftline/bpf";
/// `BPF_FS_MAGIC` of `linux/magic.h`: what statfs(2) says of a bpf file system.
const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// What the kernel itself puts into every bpf file system (CONFIG_BPF_PRELOAD, `populate_bpffs` in kernel/bpf/inode.c).
const KERNELS_OWN: [&str; 2] = ["maps.debug", "progs.debug"];

/// A bpf file system, and a folder of ours in it.
#[derive(Debug, PartialEq, Eq)]
pub struct BpfFs {
    root: PathBuf,
    own: bool,
}

impl BpfFs {
    /// Finds the host's bpf file system or ours; else mounts ours.
    ///
    /// # Errors
    /// When there is none and none can be mounted: no rights (CAP_SYS_ADMIN), or a kernel without eBPF.
    pub fn open() -> Result<BpfFs, OsError> {
        Self::open_at(Path::new(SYSTEM), Path::new(OWN))
    }

    /// Finds the host's bpf file system or ours, without mounting one: for whoever looks for what is pinned.
    pub fn find() -> Option<BpfFs> {
        Self::find_at(Path::new(SYSTEM), Path::new(OWN))
    }

    fn find_at(system: &Path, own: &Path) -> Option<BpfFs> {
        // Ours first: what was pinned there stays reachable when the host mounts its own later.
        [(own, true), (system, false)]
            .into_iter()
            .find(|(path, _)| is_bpf_fs(path))
            .map(|(path, own)| BpfFs { root: path.to_path_buf(), own })
    }

    fn open_at(system: &Path, own: &Path) -> Result<BpfFs, OsError> {
        if let Some(found) = Self::find_at(system, own) {
            return Ok(found);
        }
        let failed = |step: &str, error: io::Error| {
            let error = OsError::new(format!("{step} {}", own.display()), error).needs("CAP_SYS_ADMIN");
            match error.errno() {
                Some(Errno::NODEV) => error.remedy("this kernel has no eBPF (CONFIG_BPF_SYSCALL)"),
                _ => error,
            }
        };
        std::fs::create_dir_all(own).map_err(|e| failed("make the folder", e))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("bpf", own, "bpf", flags, c"mode=0700").map_err(|e| {
            let _ = std::fs::remove_dir(own);
            failed("mount a bpf file system at", e.into())
        })?;
        Ok(BpfFs { root: own.to_path_buf(), own: true })
    }

    /// Where the file system is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is one that weftline mounted.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// The folder `name` in it, made if it is not there; only its owner may look into it. A name that begins with `weft` tells
    /// it from those of others.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, OsError> {
        let path = self.root.join(name);
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(path),
            Err(e) => {
                Err(OsError::new(format!("make the folder {}", path.display()), e).needs("CAP_SYS_ADMIN"))
            }
        }
    }

    /// Removes the folder `name` with all that is pinned in it: links are detached, maps and programs freed once nothing uses
    /// them. One that is not there is no error.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_folder(&self, name: &str) -> Result<(), OsError> {
        let path = self.root.join(name);
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(OsError::new(format!("remove the folder {}", path.display()), e).needs("CAP_SYS_ADMIN"))
            }
            _ => Ok(()),
        }
    }

    /// Unmounts the file system and removes its mount point, if it is ours and nothing is in it; returns whether it was done.
    /// The host's is left alone.
    ///
    /// # Errors
    /// When it cannot be looked at, unmounted or removed.
    pub fn release(self) -> Result<bool, OsError> {
        let failed = |step: &str, error: io::Error| {
            OsError::new(format!("{step} {}", self.root.display()), error).needs("CAP_SYS_ADMIN")
        };
        // Looked at again: somebody else may have unmounted it, and what lies below is not ours to remove.
        if !self.own || !is_bpf_fs(&self.root) {
            return Ok(false);
        }
        for entry in std::fs::read_dir(&self.root).map_err(|e| failed("list", e))? {
            let name = entry.map_err(|e| failed("list", e))?.file_name();
            if !KERNELS_OWN.iter().any(|own| name == *own) {
                return Ok(false);
            }
        }
        match rustix::mount::unmount(&self.root, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Somebody has a file of it open, or works in it.
            Err(Errno::BUSY) => return Ok(false),
            Err(e) => return Err(failed("unmount", e.into())),
        }
        std::fs::remove_dir(&self.root).map_err(|e| failed("remove", e))?;
        // The folder above it, if nothing else is in there.
        let _ = self.root.parent().map(std::fs::remove_dir);
        Ok(true)
    }
}

/// Whether `path` is in a bpf file system.
fn is_bpf_fs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type as u32 == BPF_FS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Two mount points of this test's own.
    fn places(test: &str) -> Option<(PathBuf, PathBuf)> {
        if !testing::privileged(test) {
            return None;
        }
        let base = std::env::temp_dir().join(testing::unique("bpffs"));
        std::fs::create_dir_all(base.join("system")).expect("folder");
        Some((base.join("system"), base.join("weftline/bpf")))
    }

    #[test]
    fn one_of_ours_is_mounted_and_goes_when_it_is_empty() {
        let Some((system, own)) = places("one_of_ours_is_mounted_and_goes_when_it_is_empty") else { return };
        assert_eq!(BpfFs::find_at(&system, &own), None);
        let fs = BpfFs::open_at(&system, &own).expect("mount");
        assert!(fs.is_own() && is_bpf_fs(&own) && fs.root() == own);
        assert_eq!(BpfFs::open_at(&system, &own).expect("again"), fs, "found, not mounted twice");
        let folder = fs.folder("weft-test").expect("folder");
        assert_eq!(fs.folder("weft-test").expect("folder"), folder);
        assert!(!fs.release().expect("release"), "something is in it");
        assert!(is_bpf_fs(&own));
        let fs = BpfFs::find_at(&system, &own).expect("still there");
        fs.remove_folder("weft-test").expect("remove");
        fs.remove_folder("weft-test").expect("it is gone already");
        assert!(fs.release().expect("release"));
        assert!(!own.exists() && !own.parent().expect("parent").exists() && system.exists());
        std::fs::remove_dir_all(system.parent().expect("parent")).expect("clean");
    }

    #[test]
    fn the_hosts_own_is_used_and_left_alone() {
        let Some((system, own)) = places("the_hosts_own_is_used_and_left_alone") else { return };
        rustix::mount::mount("bpf", &system, "bpf", MountFlags::empty(), None).expect("mount");
        let fs = BpfFs::open_at(&system, &own).expect("found");
        assert!(!fs.is_own() && fs.root() == system && !own.exists());
        assert!(!fs.release().expect("release"));
        assert!(is_bpf_fs(&system));
        rustix::mount::unmount(&system, UnmountFlags::empty()).expect("unmount");
        std::fs::remove_dir_all(system.parent().expect("parent")).expect("clean");
    }
}
