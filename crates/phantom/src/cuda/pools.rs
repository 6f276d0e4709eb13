//! Stream-ordered memory: one pool a device. It gives back at once, so what is reserved is what is used.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use super::runtime::{allocate, cudaFree};
use super::state::{INVALID_VALUE, SUCCESS, failed, give, given, memory, token};

static USED_HIGH: AtomicU64 = AtomicU64::new(0);

fn used() -> u64 {
    memory().used_bytes(super::state::device()) as u64
}

#[unsafe(no_mangle)]
extern "C" fn cudaMallocAsync(to: *mut *mut c_void, bytes: usize, _stream: usize) -> c_int {
    let done = allocate(to, bytes);
    USED_HIGH.fetch_max(used(), Ordering::Relaxed);
    done
}

exports! {
    extern "C" fn cudaMallocFromPoolAsync(to: *mut *mut c_void, bytes: usize, _pool: usize, stream: usize) =
        cudaMallocAsync(to, bytes, stream);
    extern "C" fn cudaFreeAsync(address: *mut c_void, _stream: usize) = cudaFree(address);
    extern "C" fn cudaDeviceGetDefaultMemPool(to: *mut usize, _device: c_int) = given(to, token());
    extern "C" fn cudaMemPoolCreate(to: *mut usize, _properties: usize) = given(to, token());
}

/// `cudaMemPoolAttr`: 1 to 3 are switches, 4 a threshold, 5 to 8 reserved and used bytes, now and at most.
#[unsafe(no_mangle)]
extern "C" fn cudaMemPoolGetAttribute(_pool: usize, number: c_int, to: *mut u64) -> c_int {
    match number {
        1..=3 => give(to.cast::<c_int>(), 1),
        4 => give(to, 0),
        5 | 7 => give(to, used()),
        6 | 8 => give(to, USED_HIGH.load(Ordering::Relaxed).max(used())),
        _ => return failed(INVALID_VALUE),
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemPoolSetAttribute(_pool: usize, number: c_int, _value: usize) -> c_int {
    if matches!(number, 6 | 8) {
        USED_HIGH.store(used(), Ordering::Relaxed);
    }
    SUCCESS
}

exports! {
    /// Memory of graphs: none, for a graph does nothing.
    extern "C" fn cudaDeviceGetGraphMemAttribute(_device: c_int, _number: c_int, to: *mut u64) = given(to, 0);
}
