//! The layout of structures that programs and this process share, read from the object's type information (BTF). Tests
//! compare it with the Rust types.

use super::{BpfError, failed};
use libbpf_rs::btf::types::{Composite, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, HasSize};
use std::collections::BTreeMap;

fn missing(name: &str) -> BpfError {
    BpfError::Absent { what: "structure", name: name.to_owned() }
}

/// A structure: its size and the offsets of its fields, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructLayout {
    /// The size of the structure.
    pub size: usize,
    /// The offset of each named field, those of anonymous structures and unions inside included.
    pub offsets: BTreeMap<String, usize>,
}

impl StructLayout {
    /// The structure `name` of the object `image`, a compiled eBPF file.
    ///
    /// # Errors
    /// If the object has no type information, or no such structure.
    pub fn of(image: &[u8], name: &str) -> Result<Self, BpfError> {
        let types = Btf::from_raw("layout", image).map_err(|e| failed("read types of", name, e))?;
        Self::in_types(&types.ok_or_else(|| missing(name))?, name)
    }

    /// The structure `name` of the running kernel.
    ///
    /// # Errors
    /// If the kernel has no type information (CONFIG_DEBUG_INFO_BTF), or no such structure.
    pub fn of_kernel(name: &str) -> Result<Self, BpfError> {
        super::quiet();
        let types =
            Btf::from_vmlinux().map_err(|e| failed("read the kernel's type information of", name, e))?;
        Self::in_types(&types, name)
    }

    fn in_types(types: &Btf<'_>, name: &str) -> Result<Self, BpfError> {
        let found = types.type_by_name::<Struct<'_>>(name).ok_or_else(|| missing(name))?;
        let mut offsets = BTreeMap::new();
        fields_of(types, found.into(), 0, &mut offsets);
        Ok(Self { size: found.size(), offsets })
    }

    /// The offset of a field; `None` if it does not exist.
    pub fn offset(&self, field: &str) -> Option<usize> {
        self.offsets.get(field).copied()
    }
}

/// Collects the offsets of the fields of a structure that lies at `base`, and of those of its members without a name.
fn fields_of(types: &Btf<'_>, of: Composite<'_>, base: usize, offsets: &mut BTreeMap<String, usize>) {
    for member in of.iter() {
        let (MemberAttr::Normal { offset } | MemberAttr::BitField { offset, .. }) = member.attr;
        let at = base + offset as usize / 8;
        match member.name.filter(|name| !name.is_empty()) {
            Some(name) => _ = name.to_str().map(|name| offsets.insert(name.to_owned(), at)),
            None => {
                if let Some(inner) = types.type_by_id::<Composite<'_>>(member.ty) {
                    fields_of(types, inner, at, offsets);
                }
            }
        }
    }
}
