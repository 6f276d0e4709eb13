//! Streams and events: whatever they were given is done.

use std::ffi::{c_int, c_uint};

use super::state::{device, give, given, token};

exports! {
    extern "C" fn cudaStreamCreate(to: *mut usize) = given(to, token());
    extern "C" fn cudaStreamCreateWithFlags(to: *mut usize, _flags: c_uint) = given(to, token());
    extern "C" fn cudaStreamCreateWithPriority(to: *mut usize, _flags: c_uint, _priority: c_int) = given(to, token());
    extern "C" fn cudaStreamGetPriority(_stream: usize, to: *mut c_int) = given(to, 0);
    extern "C" fn cudaStreamGetFlags(_stream: usize, to: *mut c_uint) = given(to, 1);
    extern "C" fn cudaStreamGetDevice(_stream: usize, to: *mut c_int) = given(to, c_int::try_from(device()).unwrap_or(0));
    extern "C" fn cudaStreamGetId(stream: usize, to: *mut u64) = given(to, stream as u64);
    extern "C" fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) =
        { give(least, 0); given(greatest, -5) };
    extern "C" fn cudaEventCreate(to: *mut usize) = given(to, token());
    extern "C" fn cudaEventCreateWithFlags(to: *mut usize, _flags: c_uint) = given(to, token());
    /// Between any two events lies a millisecond: no program divides by zero, and none takes it for a measurement.
    extern "C" fn cudaEventElapsedTime(to: *mut f32, _from: usize, _until: usize) = given(to, 1.0);
    extern "C" fn cudaEventElapsedTime_v2(to: *mut f32, _from: usize, _until: usize) = given(to, 1.0);
}
