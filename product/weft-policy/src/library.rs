//! The algorithms that are in scope in every policy.

/// A shipped algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// Its text, an item of a policy.
    pub text: &'static str,
}

/// Lists the files of a folder.
macro_rules! library {
    ($($name:literal)*) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../algorithms/", $name, ".weft")) },)*]
    };
}

/// The shipped algorithms, in the order of the alphabet.
const SHIPPED: &[Shipped] = library! {
    "bucket" "codel" "drr" "edf" "edt" "fifo_plus" "floors" "las" "least_slack" "lstf" "paced" "pfabric"
    "round_robin" "srpt" "stfq" "strict" "wf2q"
};

/// The shipped algorithms. A policy may define one of the same name, which then holds in its place.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}

/// The names of the shipped algorithms.
pub(crate) fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|shipped| shipped.name)
}

/// Whether an algorithm of this name is shipped.
pub(crate) fn is_shipped(name: &str) -> bool {
    shipped_names().any(|shipped| shipped == name)
}
