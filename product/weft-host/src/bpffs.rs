//! The bpf file system, in which maps, programs and links outlive the process that made them.
//!
//! The host's own at [`SYSTEM`] is used if it exists. Otherwise one is mounted at [`OWN`], and unmounted when nothing is pinned
//! in it. Mounts and pins of others are never changed.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::OsError;

/// The usual mount point of a host's bpf file system (systemd's sys-fs-bpf.mount).
pub const SYSTEM: &str = "/sys/fs/bpf";
/// The mount point of weftline's own, used if the host has none.
pub const OWN: &str = "/run/weftline/bpf";
/// `BPF_FS_MAGIC` of `linux/magic.h`: the type of a bpf file system in statfs(2).
const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// Files that the kernel itself creates in every bpf file system (CONFIG_BPF_PRELOAD, `populate_bpffs` in kernel/bpf/inode.c).
const KERNELS_OWN: [&str; 2] = ["maps.debug", "progs.debug"];

/// A bpf file system in which weftline has folders.
#[derive(Debug, PartialEq, Eq)]
pub struct BpfFs {
    root: PathBuf,
    own: bool,
}

impl BpfFs {
    /// Finds the host's bpf file system or weftline's; mounts weftline's if neither exists.
    ///
    /// # Errors
    /// If none exists and none can be mounted: CAP_SYS_ADMIN is missing, or the kernel has no eBPF.
    pub fn open() -> Result<BpfFs, OsError> {
        Self::open_at(Path::new(SYSTEM), Path::new(OWN))
    }

    /// Finds the host's bpf file system or weftline's without mounting one, for callers that only search for pins.
    pub fn find() -> Option<BpfFs> {
        Self::find_at(Path::new(SYSTEM), Path::new(OWN))
    }

    fn find_at(system: &Path, own: &Path) -> Option<BpfFs> {
        // weftline's own first: its pins stay reachable if the host mounts a bpf file system later.
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

    /// Its mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether weftline mounted it.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// The folder `name` in it, which is created if missing; only its owner may read it. A name that begins with `weft`
    /// distinguishes it from folders of others.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf, OsError> {
        let path = self.root.join(name);
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(path),
            Err(e) => {
                Err(OsError::new(format!("make the folder {}", path.display()), e).needs("CAP_SYS_ADMIN"))
            }
        }
    }

    /// Removes the folder `name` with everything pinned in it. Links are detached; maps and programs are freed with their
    /// last reference. A missing folder is not an error.
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

    /// Unmounts the file system and removes its mount point, if it is weftline's and empty. Returns whether it did so. The
    /// host's is left alone.
    ///
    /// # Errors
    /// If it cannot be read, unmounted or removed.
    pub fn release(self) -> Result<bool, OsError> {
        let failed = |step: &str, error: io::Error| {
            OsError::new(format!("{step} {}", self.root.display()), error).needs("CAP_SYS_ADMIN")
        };
        // Checked again: another process may have unmounted it, and the directory below is not weftline's to remove.
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
            // Another process has a file or its working directory in it.
            Err(Errno::BUSY) => return Ok(false),
            Err(e) => return Err(failed("unmount", e.into())),
        }
        std::fs::remove_dir(&self.root).map_err(|e| failed("remove", e))?;
        // The parent folder, if it is empty.
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

    /// Two mount points for one test.
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
