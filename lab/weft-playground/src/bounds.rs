//! The bounds, so that no question stalls or grows the page.

use weft_units::Nanos;

/// The longest text of a policy, and of arrivals, in bytes.
pub const TEXT_MAX: usize = 64 << 10;
/// The most packets.
pub const PACKETS_MAX: usize = 200;
/// The most turns of the engine, after which a run is cut.
pub const TURNS_MAX: usize = 4096;
/// The latest time of an arrival, and the time after which a run is cut.
pub const TIME_MAX: Nanos = Nanos::from_secs(1000);
/// The most next packets that are listed for a turn.
pub const HEADS_MAX: usize = 12;
/// The most classes of a policy that is drawn.
pub const CLASSES_DRAWN_MAX: usize = 120;
