//! A request to bring a place in memory into the caches before it is needed.
//!
//! Without it, a million flows cost twice as much: their records do not fit into the caches, and the records of a
//! burst are fetched one after the other. Reading them in advance, which safe code could do, is no substitute: the
//! processor completes instructions in order, and waits for the reads.
#![allow(unsafe_code, reason = "the processor's prefetch instruction has no safe form")]

/// Asks for the cache line at the beginning of `places[at]`. A hint: it changes nothing, and an absent place is ignored.
#[inline(always)]
pub(crate) fn prefetch<T>(places: &[T], at: usize) {
    if let Some(place) = places.get(at) {
        line_of(place);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line_of<T>(place: &T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has SSE, and the instruction reads nothing that the program sees.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line_of<T>(_: &T) {}
