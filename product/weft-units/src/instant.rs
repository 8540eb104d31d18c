//! Points in time, distinct from spans of time.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

use crate::Nanos;

/// A point in time: whole nanoseconds since an epoch that depends on the context. On a host the epoch is that of the kernel's
/// `CLOCK_MONOTONIC`; in a replay or a simulation it is the start of the run. The engine reads no clock.
///
/// Spans are [`Nanos`]. Arithmetic saturates at both ends, like that of the quantities: an overflowed time must not
/// become an early one. Meaningless arithmetic does not compile. Two points have no sum:
///
/// ```compile_fail,E0308
/// use weft_units::Instant;
/// let _ = Instant::from_secs(1) + Instant::from_secs(2);
/// ```
///
/// A span is not a point, so it cannot be passed for one:
///
/// ```compile_fail,E0308
/// use weft_units::{Instant, Nanos};
/// fn wake(at: Instant) {}
/// wake(Nanos::from_secs(1));
/// ```
///
/// Valid arithmetic:
///
/// ```
/// use weft_units::{Instant, Nanos};
/// let start = Instant::from_secs(1);
/// let end = start + Nanos::from_millis(5);
/// assert_eq!(end - start, Nanos::from_millis(5));
/// assert_eq!(start.saturating_since(end), Nanos::ZERO);
/// assert_eq!(start.since_epoch(), Nanos::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The epoch, the earliest point; as a time to act it means "at once".
    pub const ZERO: Self = Self(0);
    /// The latest point; as a time to act it means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds after the epoch.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// The point `us` microseconds after the epoch.
    pub const fn from_micros(us: u64) -> Self {
        Self::after_epoch(Nanos::from_micros(us))
    }

    /// The point `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self::after_epoch(Nanos::from_millis(ms))
    }

    /// The point `s` seconds after the epoch.
    pub const fn from_secs(s: u64) -> Self {
        Self::after_epoch(Nanos::from_secs(s))
    }

    /// The point `span` after the epoch.
    #[inline]
    pub const fn after_epoch(span: Nanos) -> Self {
        Self(span.get())
    }

    /// The bare number, for shared memory and for foreign interfaces.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span from the epoch to this point.
    #[inline]
    pub const fn since_epoch(self) -> Nanos {
        Nanos(self.0)
    }

    /// The span from `earlier` to this point; zero if `earlier` is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `span` before this one, but not before the epoch.
    #[inline]
    pub const fn saturating_sub(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.get()))
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.get()))
    }
}

impl AddAssign<Nanos> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub<Nanos> for Instant {
    type Output = Self;
    #[inline]
    fn sub(self, span: Nanos) -> Self {
        debug_assert!(self.0 >= span.get(), "{self:?} - {span:?} is before the epoch");
        self.saturating_sub(span)
    }
}

impl Sub for Instant {
    type Output = Nanos;
    #[inline]
    fn sub(self, earlier: Self) -> Nanos {
        debug_assert!(self.0 >= earlier.0, "{self:?} - {earlier:?} is negative");
        self.saturating_since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.since_epoch().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_spans_agree_and_saturate() {
        let (at, span) = (Instant::from_millis(3), Nanos::from_micros(1500));
        assert_eq!((at + span) - at, span);
        assert_eq!((at + span) - span, at);
        assert_eq!(at - Instant::ZERO, at.since_epoch());
        assert_eq!(Instant::after_epoch(at.since_epoch()), at);
        assert_eq!(Instant::MAX + span, Instant::MAX, "never stays never");
        assert_eq!(Instant::ZERO.saturating_sub(span), Instant::ZERO);
        assert_eq!(at.saturating_since(at + span), Nanos::ZERO);
        let mut later = at;
        later += span;
        assert_eq!(later, Instant::from_micros(4500));
    }

    #[test]
    fn an_instant_is_eight_bytes() {
        assert_eq!((size_of::<Instant>(), align_of::<Instant>()), (size_of::<u64>(), align_of::<u64>()));
    }
}
