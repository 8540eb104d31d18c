//! Maps of any process: by number or where they are pinned.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapInfo};

use super::{BpfError, SharedLayout, SharedValue, Table, refused};

/// A map of this or another process, held open.
#[derive(Debug)]
pub struct MapFd {
    handle: MapHandle,
    id: u32,
    kind: u32,
    flags: u32,
}

impl MapFd {
    /// `object` names the map in errors.
    pub(super) fn new(handle: MapHandle, object: &str) -> Result<Self, BpfError> {
        let info = MapInfo::new(handle.as_fd()).map_err(|e| refused("look at map", object, e))?.info;
        Ok(Self { handle, id: info.id, kind: info.type_, flags: info.map_flags })
    }

    /// The map that the kernel numbers `id`, whoever made it (`BPF_MAP_GET_FD_BY_ID`).
    ///
    /// # Errors
    /// When there is no such map, or rights are missing (CAP_SYS_ADMIN).
    pub fn by_id(id: u32) -> Result<Self, BpfError> {
        let object = id.to_string();
        let handle = MapHandle::from_map_id(id).map_err(|e| refused("open map number", &object, e))?;
        Self::new(handle, &object)
    }

    /// The map that is pinned at `path`.
    ///
    /// # Errors
    /// When nothing is pinned there, or something that is no map.
    pub fn pinned(path: &Path) -> Result<Self, BpfError> {
        let object = path.display().to_string();
        let fd = super::program::open_pinned("map", path)?;
        let info = MapInfo::new(fd.as_fd()).map_err(|e| refused("look at map", &object, e))?.info;
        // A handle is made from a number or a path only; the number is that of the map just opened, which is held.
        let handle = MapHandle::from_map_id(info.id).map_err(|e| refused("open map number", &object, e))?;
        Self::new(handle, &object)
    }

    /// Pins the map at `path` in a bpf file system: it outlives this process, until the file is removed.
    ///
    /// # Errors
    /// When the file exists, is in no bpf file system, or rights are missing.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        super::program::pin("pin map at", self.handle.as_fd(), path)
    }

    /// The number by which the kernel knows the map.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name, as the kernel keeps it: at most 15 bytes.
    pub fn name(&self) -> String {
        self.handle.name().to_string_lossy().into_owned()
    }

    /// Its type, `enum bpf_map_type`.
    pub fn kind(&self) -> u32 {
        self.kind
    }

    /// Its flags, `BPF_F_*`.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// The size of a key in bytes.
    pub fn key_size(&self) -> u32 {
        self.handle.key_size()
    }

    /// The size of a value in bytes.
    pub fn value_size(&self) -> u32 {
        self.handle.value_size()
    }

    /// How many elements it can have.
    pub fn max_entries(&self) -> u32 {
        self.handle.max_entries()
    }

    /// The map's value as shared memory: of an mmapable array, or the global variables of an object.
    ///
    /// # Errors
    /// When its value is not as large as `T`, or it cannot be mapped.
    pub fn shared<T: SharedLayout>(&self) -> Result<SharedValue<T>, BpfError> {
        if self.value_size() as usize != size_of::<T>() {
            return Err(BpfError::Absent { what: "map", name: self.name() });
        }
        SharedValue::map(&self.name(), self.handle.as_fd())
    }

    /// The value of an element, if there is one.
    ///
    /// # Errors
    /// When the key has another size or the kernel refuses.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        self.handle.lookup(key, MapFlags::ANY).map_err(|e| refused("read map", &self.name(), e))
    }

    /// Writes an element.
    ///
    /// # Errors
    /// When key or value have another size, the map is full, or the kernel refuses.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        self.handle.update(key, value, MapFlags::ANY).map_err(|e| refused("write map", &self.name(), e))
    }

    /// A second handle, with which a hash map is tidied.
    ///
    /// # Errors
    /// When its descriptor cannot be duplicated.
    pub fn table(&self) -> Result<Table, BpfError> {
        let handle =
            MapHandle::try_from(&self.handle).map_err(|e| refused("duplicate map", &self.name(), e))?;
        Ok(Table { handle })
    }

    /// The map's descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
