//! The models that come with the program.

use super::{Nic, read};

/// Names and texts of the models, sorted by name.
const SHIPPED: [(&str, &str); 8] = [
    ("e810", include_str!("../../models/e810.nic")),
    ("ethtool-generic", include_str!("../../models/ethtool-generic.nic")),
    ("igb", include_str!("../../models/igb.nic")),
    ("intel-82599", include_str!("../../models/intel-82599.nic")),
    ("intel-82599-simple", include_str!("../../models/intel-82599-simple.nic")),
    ("mlx5", include_str!("../../models/mlx5.nic")),
    ("sfc9020", include_str!("../../models/sfc9020.nic")),
    ("virtio-net", include_str!("../../models/virtio-net.nic")),
];

/// Names and texts of the models, sorted by name.
pub const fn shipped() -> &'static [(&'static str, &'static str)] {
    &SHIPPED
}

/// The model of a name.
pub fn shipped_model(name: &str) -> Option<Nic> {
    let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    // Each is read by a test, so that none is missing here because of what is wrong in it.
    read(text, &format!("{name}.nic")).ok()
}
