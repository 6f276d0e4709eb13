//! Copies: where the device is the source and the host the target, the host gets zeros or ones. All others do nothing but those
//! from host to host.

use std::ffi::{c_int, c_void};

use super::memory::HostKind;
use super::report::read_back;
use super::state::{SUCCESS, cleared, forget_host, memory, settings};

/// The bytes of one: the types that a single value of that size usually has (int64, float32, bfloat16, bool).
fn one(bytes: usize) -> &'static [u8] {
    match bytes {
        1 => &[1],
        2 => &[0x80, 0x3f],
        4 => &[0, 0, 0x80, 0x3f],
        8 => &[1, 0, 0, 0, 0, 0, 0, 0],
        _ => &[],
    }
}

/// From so many bytes on, zeros in pinned memory are pages that are not there.
const LARGE: usize = 1 << 20;

fn on_device(address: usize) -> bool {
    memory().device_of(address).is_some()
}

fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int {
    if bytes == 0 || to.is_null() || on_device(to as usize) {
        return SUCCESS;
    }
    if on_device(from as usize) {
        let pinned = memory().host_of(to as usize) == Some(HostKind::Pinned);
        if pinned && bytes >= LARGE {
            // An engine that sleeps copies its weights: so many zeros are no memory of the host.
            let (before, after) = forget_host(to as usize, bytes);
            cleared(to.cast(), before);
            cleared((to as usize + bytes - after) as *mut u8, after);
            read_back(bytes);
            return SUCCESS;
        }
        let target = cleared(to.cast(), bytes);
        if settings().ones {
            target
                .iter_mut()
                .zip(one(bytes))
                .for_each(|(at, byte)| *at = *byte);
        }
        read_back(bytes);
    } else if !from.is_null() {
        // SAFETY: neither is memory of a device, so both are the caller's, of at least this size; they may overlap.
        unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    }
    SUCCESS
}

fn copy_rows(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    (width, height): (usize, usize),
) -> c_int {
    for row in 0..height {
        let to = (to as usize + row * to_pitch) as *mut c_void;
        let from = (from as usize + row * from_pitch) as *const c_void;
        copy(to, from, width);
    }
    SUCCESS
}

exports! {
    extern "C" fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize) = copy(to, from, bytes);
    extern "C" fn cudaMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize) = copy(to, from, bytes);
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemcpy2D(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
) -> c_int {
    copy_rows(to, to_pitch, from, from_pitch, (width, height))
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemcpy2DAsync(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
) -> c_int {
    copy_rows(to, to_pitch, from, from_pitch, (width, height))
}

exports! {
    extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: *const c_void, bytes: usize) = copy(to, from, bytes);
    extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: *const c_void, bytes: usize) = copy(to, from, bytes);
    extern "C" fn cuMemcpy(to: *mut c_void, from: *const c_void, bytes: usize) = copy(to, from, bytes);
    extern "C" fn cuMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize) = copy(to, from, bytes);
}

/// A column of values from the device: `incx` and `incy` are strides in elements.
#[unsafe(no_mangle)]
extern "C" fn cublasGetVectorAsync(
    count: c_int,
    size: c_int,
    from: *const c_void,
    _incx: c_int,
    to: *mut c_void,
) -> c_int {
    let bytes = usize::try_from(i64::from(count) * i64::from(size)).unwrap_or(0);
    copy(to, from, bytes)
}

#[cfg(test)]
mod tests {
    use super::super::runtime::{cudaFree, cudaFreeHost, cudaMalloc, cudaMallocHost};
    use super::*;

    #[test]
    fn the_host_reads_zeros_of_the_device_and_what_it_wrote_of_itself() {
        let mut device = std::ptr::null_mut();
        assert_eq!(cudaMalloc(&raw mut device, 64), SUCCESS);
        let mut host = [7_u8; 8];
        assert_eq!(cudaMemcpy(device, host.as_ptr().cast(), 8), SUCCESS);
        assert_eq!(cudaMemcpy(host.as_mut_ptr().cast(), device, 4), SUCCESS);
        assert_eq!(host, [0, 0, 0, 0, 7, 7, 7, 7]);
        let mut other = [0_u8; 8];
        cudaMemcpy(other.as_mut_ptr().cast(), host.as_ptr().cast(), 8);
        assert_eq!(other, host);
        assert_eq!(cudaFree(device), SUCCESS);
    }

    #[test]
    fn a_large_copy_to_pinned_memory_reads_zeros_and_changes_nothing_beside_it() {
        const BYTES: usize = 4 << 20;
        let mut device = std::ptr::null_mut();
        let mut host = std::ptr::null_mut();
        assert_eq!(cudaMalloc(&raw mut device, BYTES), SUCCESS);
        assert_eq!(cudaMallocHost(&raw mut host, BYTES), SUCCESS);
        // SAFETY: so many bytes were just given, and nobody else has them.
        let all = unsafe { std::slice::from_raw_parts_mut(host.cast::<u8>(), BYTES) };
        all.fill(7);
        let target = (host as usize + 100) as *mut c_void;
        assert_eq!(cudaMemcpy(target, device, BYTES - 300), SUCCESS);
        assert!(all[..100].iter().all(|byte| *byte == 7));
        assert!(all[100..BYTES - 200].iter().all(|byte| *byte == 0));
        assert!(all[BYTES - 200..].iter().all(|byte| *byte == 7));
        assert_eq!(cudaFreeHost(host), SUCCESS);
        assert_eq!(cudaFree(device), SUCCESS);
    }

    #[test]
    fn ones_have_the_bytes_of_a_single_value() {
        assert_eq!(f32::from_le_bytes(one(4).try_into().unwrap()), 1.0);
        assert_eq!(i64::from_le_bytes(one(8).try_into().unwrap()), 1);
        assert!(one(12).is_empty());
    }
}
