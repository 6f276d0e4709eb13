//! Streams and events: whatever they were given is done.

use std::ffi::{c_int, c_uint};

use super::state::{SUCCESS, device, give, token};

#[unsafe(no_mangle)]
extern "C" fn cudaStreamCreate(to: *mut usize) -> c_int {
    give(to, token());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamCreateWithFlags(to: *mut usize, _flags: c_uint) -> c_int {
    give(to, token());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamCreateWithPriority(
    to: *mut usize,
    _flags: c_uint,
    _priority: c_int,
) -> c_int {
    give(to, token());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamGetPriority(_stream: usize, to: *mut c_int) -> c_int {
    give(to, 0);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamGetFlags(_stream: usize, to: *mut c_uint) -> c_int {
    give(to, 1);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamGetDevice(_stream: usize, to: *mut c_int) -> c_int {
    give(to, c_int::try_from(device()).unwrap_or(0));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamGetId(stream: usize, to: *mut u64) -> c_int {
    give(to, stream as u64);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> c_int {
    give(least, 0);
    give(greatest, -5);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaEventCreate(to: *mut usize) -> c_int {
    give(to, token());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaEventCreateWithFlags(to: *mut usize, _flags: c_uint) -> c_int {
    give(to, token());
    SUCCESS
}

/// Between any two events lies a millisecond: no program divides by zero, and none takes it for a measurement.
#[unsafe(no_mangle)]
extern "C" fn cudaEventElapsedTime(to: *mut f32, _from: usize, _until: usize) -> c_int {
    give(to, 1.0);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaEventElapsedTime_v2(to: *mut f32, _from: usize, _until: usize) -> c_int {
    give(to, 1.0);
    SUCCESS
}
