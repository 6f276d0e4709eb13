//! The CUDA runtime: devices, memory, and errors.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::memory::HostKind;
use super::state::{
    INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS, cleared, code, device,
    failed, give, give_text, given, known, last_error, map_host, memory, set_device, settings,
    unmap_host,
};

/// The newest driver that CUDA 13 knows of; a driver serves every older runtime.
pub(super) const DRIVER_VERSION: c_int = 13020;

exports! {
    extern "C" fn cudaGetDeviceCount(count: *mut c_int) = given(count, c_int::try_from(settings().devices).unwrap_or(1));
    extern "C" fn cudaGetDevice(to: *mut c_int) = given(to, c_int::try_from(device()).unwrap_or(0));
    extern "C" fn cudaSetDevice(device: c_int) = set_device(device);
    extern "C" fn cudaDriverGetVersion(version: *mut c_int) = given(version, DRIVER_VERSION);
    extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) = given(version, settings().runtime);
    extern "C" fn cudaGetLastError() = last_error(true);
    extern "C" fn cudaPeekAtLastError() = last_error(false);
}

/// The words that the documentation has for a code.
pub(super) fn error_text(code: c_int) -> *const c_char {
    let text = match code {
        SUCCESS => c"no error",
        INVALID_VALUE => c"invalid argument",
        OUT_OF_MEMORY => c"out of memory",
        INVALID_DEVICE => c"invalid device ordinal",
        NOT_SUPPORTED => c"operation not supported",
        _ => c"unrecognized error code of the phantom",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    error_text(code)
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    let text = match code {
        SUCCESS => c"cudaSuccess",
        INVALID_VALUE => c"cudaErrorInvalidValue",
        OUT_OF_MEMORY => c"cudaErrorMemoryAllocation",
        INVALID_DEVICE => c"cudaErrorInvalidDevice",
        NOT_SUPPORTED => c"cudaErrorNotSupported",
        _ => c"cudaErrorUnknown",
    };
    text.as_ptr()
}

/// A block of the thread's device.
pub(super) fn allocate(to: *mut *mut c_void, bytes: usize) -> c_int {
    if bytes == 0 {
        give(to, std::ptr::null_mut());
        return SUCCESS;
    }
    let block = memory().allocate(device(), bytes);
    give(to, block.unwrap_or(0) as *mut c_void);
    block.map_or_else(|error| failed(code(error)), |_| SUCCESS)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cudaMalloc(to: *mut *mut c_void, bytes: usize) -> c_int {
    allocate(to, bytes)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cudaFree(address: *mut c_void) -> c_int {
    if address.is_null() {
        return SUCCESS;
    }
    if free_host(address) == SUCCESS {
        return SUCCESS;
    }
    let done = memory().free(address as usize);
    done.map_or_else(|error| failed(code(error)), |()| SUCCESS)
}

exports! {
    extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) =
        { give(free, memory().free_bytes(device())); given(total, settings().total_bytes) };
}

fn allocate_host(to: *mut *mut c_void, bytes: usize, kind: HostKind) -> c_int {
    let Some(address) = map_host(bytes) else {
        return failed(OUT_OF_MEMORY);
    };
    memory().add_host(address, bytes, kind);
    give(to, address as *mut c_void);
    SUCCESS
}

fn free_host(address: *mut c_void) -> c_int {
    let removed = memory().remove_host(address as usize);
    match removed {
        Some((bytes, HostKind::Pinned | HostKind::Managed)) => {
            unmap_host(address as usize, bytes);
            SUCCESS
        }
        Some((_, HostKind::Registered)) => SUCCESS,
        None => INVALID_VALUE,
    }
}

exports! {
    extern "C" fn cudaHostAlloc(to: *mut *mut c_void, bytes: usize, _flags: c_uint) =
        allocate_host(to, bytes, HostKind::Pinned);
    pub(super) extern "C" fn cudaMallocHost(to: *mut *mut c_void, bytes: usize) = allocate_host(to, bytes, HostKind::Pinned);
    extern "C" fn cudaMallocManaged(to: *mut *mut c_void, bytes: usize, _flags: c_uint) =
        allocate_host(to, bytes, HostKind::Managed);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cudaFreeHost(address: *mut c_void) -> c_int {
    if address.is_null() {
        return SUCCESS;
    }
    failed(free_host(address))
}

exports! {
    extern "C" fn cudaHostRegister(address: *mut c_void, bytes: usize, _flags: c_uint) =
        { memory().add_host(address as usize, bytes, HostKind::Registered); SUCCESS };
    extern "C" fn cudaHostUnregister(address: *mut c_void) = failed(free_host(address));
    extern "C" fn cudaHostGetDevicePointer(to: *mut *mut c_void, host: *mut c_void, _flags: c_uint) = given(to, host);
}

/// `cudaMemoryType` of an address, its device, and itself as an address of device and host.
pub(super) fn place(address: usize) -> (c_int, c_int, usize, usize) {
    let memory = memory();
    if let Some(device) = memory.device_of(address) {
        return (2, c_int::try_from(device).unwrap_or(0), address, 0);
    }
    match memory.host_of(address) {
        Some(HostKind::Managed) => (3, 0, address, address),
        Some(HostKind::Pinned | HostKind::Registered) => (1, 0, address, address),
        None => (0, -2, 0, address),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cudaPointerGetAttributes(to: *mut u8, address: *const c_void) -> c_int {
    let (kind, device, on_device, on_host) = place(address as usize);
    // type, device, devicePointer, hostPointer; CUDA 13 has room for more behind them, which is not touched.
    let all = cleared(to, 24);
    all[..4].copy_from_slice(&kind.to_le_bytes());
    all[4..8].copy_from_slice(&device.to_le_bytes());
    all[8..16].copy_from_slice(&on_device.to_le_bytes());
    all[16..24].copy_from_slice(&on_host.to_le_bytes());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceCanAccessPeer(can: *mut c_int, from: c_int, to: c_int) -> c_int {
    let both = known(from).is_some() && known(to).is_some();
    give(can, c_int::from(both && from != to));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceGetPCIBusId(to: *mut c_char, most: c_int, device: c_int) -> c_int {
    give_text(to, usize::try_from(most).unwrap_or(0), &bus(device));
    SUCCESS
}

/// Where a device sits, as `cudaDeviceGetPCIBusId` writes it.
pub(super) fn bus(device: c_int) -> String {
    format!("0000:{:02X}:00.0", device + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_card_fails_as_a_real_one_does_and_the_error_is_read_once() {
        let mut address = std::ptr::null_mut();
        assert_eq!(cudaMalloc(&raw mut address, 1 << 50), OUT_OF_MEMORY);
        assert!(address.is_null());
        assert_eq!(cudaPeekAtLastError(), OUT_OF_MEMORY);
        assert_eq!(cudaGetLastError(), OUT_OF_MEMORY);
        assert_eq!(cudaGetLastError(), SUCCESS);
        assert_eq!(cudaSetDevice(7), INVALID_DEVICE);
        assert_eq!(cudaGetLastError(), INVALID_DEVICE);
    }

    #[test]
    fn pinned_memory_can_be_written_and_is_none_of_the_device() {
        let (mut free, mut total) = (0, 0);
        let mut address = std::ptr::null_mut();
        assert_eq!(cudaHostAlloc(&raw mut address, 4096, 0), SUCCESS);
        // SAFETY: 4096 bytes were just given for it.
        unsafe { address.cast::<u8>().write(1) };
        assert_eq!(place(address as usize).0, 1);
        assert_eq!(cudaFreeHost(address), SUCCESS);
        assert_eq!(place(address as usize).0, 0);
        assert_eq!(cudaMemGetInfo(&raw mut free, &raw mut total), SUCCESS);
        assert_eq!(total, settings().total_bytes);
    }
}
