//! The shipped models.

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

/// Returns the model with a name.
pub fn shipped_model(name: &str) -> Option<Nic> {
    let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    // A test reads each model, so a broken one cannot be missing here unnoticed.
    read(text, &format!("{name}.nic")).ok()
}
