//! A request to bring a place in memory into the caches before it is needed.
//!
//! Without it, a million flows cost twice as much: their records do not fit into the caches, and the records of a
//! burst are fetched one after the other. Reading them in advance, which safe code could do, is no substitute: the
//! processor completes instructions in order, and waits for the reads.
#![allow(unsafe_code, reason = "the processor's prefetch instruction has no safe form")]

/// Asks for the first two cache lines of `places[at]`, or for the one that it has. A hint: it changes nothing, and an absent
/// place is ignored.
#[inline(always)]
pub fn prefetch<T>(places: &[T], at: usize) {
    if let Some(place) = places.get(at) {
        line_of(core::ptr::from_ref(place).cast());
        if size_of::<T>() > LINE {
            line_of(core::ptr::from_ref(place).cast::<i8>().wrapping_add(LINE));
        }
    }
}

/// The bytes of a cache line.
const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line_of(place: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has SSE, and the instruction reads nothing that the program sees.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line_of(_: *const i8) {}
