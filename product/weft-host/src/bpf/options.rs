//! Loading an object with replaced maps, and without some of its programs.

use libbpf_rs::{MapType, ObjectBuilder, OpenMapMut, OpenObject};

use super::{BpfError, MapFd, Object, failed, quiet, refused};

/// Options for loading an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectOptions<'a> {
    /// The object's name in errors.
    pub name: &'a str,
    /// Its read-only data; `None` keeps the compiled values.
    pub rodata: Option<&'a [u8]>,
    /// Maps that replace the object's own maps of these names.
    pub reuse: &'a [(&'a str, &'a MapFd)],
    /// Programs that are not loaded; the kernel need not support them.
    pub skip: &'a [&'a str],
    /// New sizes, in elements, of the maps of these names.
    pub sizes: &'a [(&'a str, u32)],
    /// Maps that are not created, since no loaded program uses them.
    pub without: &'a [&'a str],
    /// Hash maps whose elements are allocated when the map is created, although the object does not request that. Before
    /// Linux 6.1 a program that may sleep cannot use another hash map.
    pub preallocated: &'a [&'a str],
}

impl Object {
    /// Loads an object file's image, with `rodata` as its read-only data and the maps `reuse` in place of its maps of these
    /// names. Several objects can share their maps this way.
    ///
    /// # Errors
    /// As [`load_with`](Self::load_with).
    pub fn load_reusing(image: &[u8], rodata: &[u8], reuse: &[(&str, &MapFd)]) -> Result<Self, BpfError> {
        let options = ObjectOptions { name: "doorbell", rodata: Some(rodata), reuse, ..Default::default() };
        Self::load_with(image, &options)
    }

    /// Loads an object file's image.
    ///
    /// # Errors
    /// If the kernel refuses the object (missing capabilities, kernel too old), the image lacks read-only data of that size or
    /// a map or program that the options name, or a replacement map differs in type, key size, value size or flags.
    pub fn load_with(image: &[u8], options: &ObjectOptions<'_>) -> Result<Self, BpfError> {
        quiet();
        let name = options.name;
        let mut open =
            ObjectBuilder::default().open_memory(image).map_err(|e| failed("open object", name, e))?;
        if let Some(rodata) = options.rodata {
            set_rodata(&mut open, rodata)?;
        }
        for (map, elements) in options.sizes {
            find_map(&mut open, map)?
                .set_max_entries(*elements)
                .map_err(|e| refused("set the size of map", map, e))?;
        }
        for (map, with) in options.reuse {
            reuse(find_map(&mut open, map)?, map, with)?;
        }
        for map in options.without {
            find_map(&mut open, map)?.set_autocreate(false).map_err(|e| refused("leave out map", map, e))?;
        }
        for map in options.preallocated {
            let mut found = find_map(&mut open, map)?;
            let flags = found.map_flags() & !libbpf_rs::libbpf_sys::BPF_F_NO_PREALLOC;
            found.set_map_flags(flags).map_err(|e| refused("set the flags of map", map, e))?;
        }
        for program in options.skip {
            let mut found = open
                .progs_mut()
                .find(|p| p.name().to_string_lossy() == *program)
                .ok_or_else(|| BpfError::Absent { what: "program", name: (*program).to_owned() })?;
            found.set_autoload(false);
        }
        let object = open.load().map_err(|e| failed("load program", name, e))?;
        Ok(Self { object })
    }
}

fn set_rodata(open: &mut OpenObject, rodata: &[u8]) -> Result<(), BpfError> {
    let mut set = false;
    for mut map in open.maps_mut() {
        if !map.name().to_string_lossy().ends_with(".rodata") {
            continue;
        }
        if let Some(value) = map.initial_value_mut()
            && value.len() >= rodata.len()
        {
            value[..rodata.len()].copy_from_slice(rodata);
            set = true;
        }
    }
    if set { Ok(()) } else { Err(BpfError::Absent { what: "map", name: ".rodata".to_owned() }) }
}

fn find_map<'o>(open: &'o mut OpenObject, name: &str) -> Result<OpenMapMut<'o>, BpfError> {
    open.maps_mut()
        .find(|m| m.name().to_string_lossy() == name)
        .ok_or_else(|| BpfError::Absent { what: "map", name: name.to_owned() })
}

/// Checks a replacement map and uses it. `bpf_map__reuse_fd` accepts any map, and the program would then read values of another
/// layout.
fn reuse(mut map: OpenMapMut<'_>, name: &str, with: &MapFd) -> Result<(), BpfError> {
    let differs = |what, found, expected| -> Result<(), BpfError> {
        if found == expected {
            return Ok(());
        }
        Err(BpfError::OtherMap { map: name.to_owned(), what, found, expected })
    };
    differs("type", with.kind(), map_type(&map))?;
    differs("key size", with.key_size(), map.key_size())?;
    differs("value size", with.value_size(), map.value_size())?;
    differs("flags", with.flags(), map.map_flags())?;
    map.reuse_fd(with.as_fd()).map_err(|e| refused("use another map in place of", name, e))
}

/// The type of an open map. `libbpf_rs` has no accessor for it.
fn map_type(map: &OpenMapMut<'_>) -> u32 {
    use libbpf_rs::AsRawLibbpf;
    // SAFETY: the pointer is that of an open object's map, which `map` borrows.
    let kind = unsafe { libbpf_rs::libbpf_sys::bpf_map__type(map.as_libbpf_object().as_ptr()) };
    MapType::from(kind) as u32
}
