//! Maps of any process, opened by id or by the path at which they are pinned.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapInfo, MapType};

use super::{BpfError, SharedLayout, SharedValue, Table, refused};

/// A map of this or another process, held open.
#[derive(Debug)]
pub struct MapFd {
    handle: MapHandle,
    id: u32,
    kind: u32,
    flags: u32,
}

/// Waits for an RCU grace period, some milliseconds: no packet that a program at an egress has seen before is then on its way to the
/// device, since the kernel holds one RCU lock from that hook to the device's transmit function (`__dev_queue_xmit`,
/// net/core/dev.c). A packet may still wait in a qdisc, or in a receive backlog behind the device.
///
/// # Errors
/// If the kernel refuses the maps whose change it waits for (missing capabilities, no memory).
pub fn wait_grace_period() -> Result<(), BpfError> {
    let inner = MapFd::new_hash("weft_inner", 4, 4, 1)?;
    MapFd::create(MapType::ArrayOfMaps, "weft_grace", (4, 4, 1), Some(&inner))?.set_inner(0, &inner)
}

impl MapFd {
    /// A handle under the name `object`, which errors use.
    pub(super) fn new(handle: MapHandle, object: &str) -> Result<Self, BpfError> {
        let info = MapInfo::new(handle.as_fd()).map_err(|e| refused("look at map", object, e))?.info;
        Ok(Self { handle, id: info.id, kind: info.type_, flags: info.map_flags })
    }

    /// A new hash map, such as the inner maps of an array of maps have to be.
    ///
    /// # Errors
    /// If the kernel refuses it (missing capabilities, no memory).
    pub fn new_hash(name: &str, key_size: u32, value_size: u32, max_entries: u32) -> Result<Self, BpfError> {
        Self::create(MapType::Hash, name, (key_size, value_size, max_entries), None)
    }

    fn create(
        kind: MapType,
        name: &str,
        (key_size, value_size, max_entries): (u32, u32, u32),
        inner: Option<&Self>,
    ) -> Result<Self, BpfError> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            inner_map_fd: inner.map_or(0, |inner| inner.as_fd().as_raw_fd() as u32),
            ..bpf_map_create_opts::default()
        };
        let handle = MapHandle::create(kind, Some(name), key_size, value_size, max_entries, &options)
            .map_err(|e| refused("make map", name, e))?;
        Self::new(handle, name)
    }

    /// The map with kernel id `id`, from any process (`BPF_MAP_GET_FD_BY_ID`).
    ///
    /// # Errors
    /// If there is no such map, or CAP_SYS_ADMIN is missing.
    pub fn by_id(id: u32) -> Result<Self, BpfError> {
        let object = id.to_string();
        let handle = MapHandle::from_map_id(id).map_err(|e| refused("open map number", &object, e))?;
        Self::new(handle, &object)
    }

    /// The map of a descriptor that another process has handed over.
    ///
    /// # Errors
    /// If the descriptor is not a map's, or CAP_SYS_ADMIN is missing.
    pub fn received(fd: &impl AsFd, name: &str) -> Result<Self, BpfError> {
        let info = MapInfo::new(fd.as_fd()).map_err(|e| refused("look at map", name, e))?.info;
        // As in `pinned`: the id stays valid, since the map is held open.
        let handle = MapHandle::from_map_id(info.id).map_err(|e| refused("open map number", name, e))?;
        Self::new(handle, name)
    }

    /// The map pinned at `path`.
    ///
    /// # Errors
    /// If nothing is pinned there, or the pinned object is not a map.
    pub fn pinned(path: &Path) -> Result<Self, BpfError> {
        let object = path.display().to_string();
        let fd = super::pin::open_pinned("map", path)?;
        let info = MapInfo::new(fd.as_fd()).map_err(|e| refused("look at map", &object, e))?.info;
        // libbpf makes a handle from an id or a path only. The id stays valid, since the map is held open.
        let handle = MapHandle::from_map_id(info.id).map_err(|e| refused("open map number", &object, e))?;
        Self::new(handle, &object)
    }

    /// Pins the map at `path` in a bpf file system. It outlives this process until the file is removed.
    ///
    /// # Errors
    /// If the file exists, the path is not in a bpf file system, or capabilities are missing.
    pub fn pin(&self, path: &Path) -> Result<(), BpfError> {
        super::pin::pin("pin map at", self.handle.as_fd(), path)
    }

    /// The kernel's id of the map.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name as the kernel stores it: at most 15 bytes.
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

    /// The most elements that it can have.
    pub fn max_entries(&self) -> u32 {
        self.handle.max_entries()
    }

    /// The map's value as shared memory: an mmapable array, or the global variables of an object.
    ///
    /// # Errors
    /// If its value differs in size from `T`, or it cannot be mapped.
    pub fn shared<T: SharedLayout>(&self) -> Result<SharedValue<T>, BpfError> {
        if self.value_size() as usize != size_of::<T>() {
            return Err(BpfError::Absent { what: "map", name: self.name() });
        }
        SharedValue::map(&self.name(), self.handle.as_fd())
    }

    /// The value of an element, if the element exists.
    ///
    /// # Errors
    /// If the key has the wrong size or the kernel refuses the lookup.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        self.handle.lookup(key, MapFlags::ANY).map_err(|e| refused("read map", &self.name(), e))
    }

    /// The values of an element on each processor, if the element exists, of a map that has one for each.
    ///
    /// # Errors
    /// If it is no such map, the key has the wrong size, or the kernel refuses the lookup.
    pub fn lookup_per_cpu(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, BpfError> {
        let values = self.handle.lookup_percpu(key, MapFlags::ANY);
        Ok(values.map_err(|e| refused("read map", &self.name(), e))?.unwrap_or_default())
    }

    /// Writes an element.
    ///
    /// # Errors
    /// If key or value have the wrong size, the map is full, or the kernel refuses the update.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        self.handle.update(key, value, MapFlags::ANY).map_err(|e| refused("write map", &self.name(), e))
    }

    /// Sets element `index` of this array of maps to `inner`. Returns after an RCU grace period: the kernel waits until no program
    /// uses the former map (`maybe_wait_bpf_programs` in kernel/bpf/syscall.c).
    ///
    /// # Errors
    /// If this is no array of maps, has no such element, or `inner` differs from the maps that it holds.
    pub fn set_inner(&self, index: u32, inner: &MapFd) -> Result<(), BpfError> {
        self.update(&index.to_ne_bytes(), &inner.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Removes an element. Of an array of maps, returns after an RCU grace period, as [`set_inner`](Self::set_inner).
    ///
    /// # Errors
    /// If the key has the wrong size or no element has it.
    pub fn delete(&self, key: &[u8]) -> Result<(), BpfError> {
        self.handle.delete(key).map_err(|e| refused("delete from map", &self.name(), e))
    }

    /// A second handle, through which entries of a hash map are expired.
    ///
    /// # Errors
    /// If its descriptor cannot be duplicated.
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
