//! How much a thread allocates while it does something.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted by thread. Where it is not the global one, every peak is 0.
pub struct Counted;

fn count(bytes: isize) {
    // A thread that ends gives back memory when its counters are gone.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn size(layout: Layout) -> isize {
    layout.size().cast_signed()
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-size(layout));
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.cast_signed() - size(layout));
        unsafe { System.realloc(at, layout, new_size) }
    }
}

/// Does something, and says by how many bytes what lives on the heap grew at most meanwhile.
pub fn peak_of<T>(something: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let done = something();
    let peak = PEAK.get() - before;
    (done, usize::try_from(peak).unwrap_or(0))
}

/// Does something that may hold `most` bytes at once.
pub fn within<T>(most: usize, something: impl FnOnce() -> T) -> T {
    let (done, peak) = peak_of(something);
    assert!(
        peak <= most,
        "held {peak} bytes at once, where {most} are allowed"
    );
    done
}
