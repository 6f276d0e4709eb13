//! The CUDA driver: contexts, memory with and without addresses, and modules that hold nothing.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::memory::PAGE;
use super::properties::{attribute, uuid};
use super::report;
use super::runtime::{DRIVER_VERSION, allocate, cudaFree, error_text, place};
use super::state::{
    INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS, code, device, failed,
    give, give_text, given, known, memory, set_device, settings, token,
};

exports! {
    extern "C" fn cuDriverGetVersion(version: *mut c_int) = given(version, DRIVER_VERSION);
    extern "C" fn cuGetErrorString(code: c_int, to: *mut *const c_char) = given(to, error_text(code));
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_int, to: *mut *const c_char) -> c_int {
    let name = match code {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
        _ => c"CUDA_ERROR_UNKNOWN",
    };
    give(to, name.as_ptr());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(to: *mut c_int, number: c_int) -> c_int {
    if known(number).is_none() {
        return INVALID_DEVICE;
    }
    give(to, number);
    SUCCESS
}

exports! {
    extern "C" fn cuDeviceGetCount(count: *mut c_int) = given(count, c_int::try_from(settings().devices).unwrap_or(1));
    extern "C" fn cuDeviceGetName(to: *mut c_char, most: c_int, _device: c_int) =
        { give_text(to, usize::try_from(most).unwrap_or(0), &settings().name); SUCCESS };
    extern "C" fn cuDeviceTotalMem_v2(to: *mut usize, _device: c_int) = given(to, settings().total_bytes);
    extern "C" fn cuDeviceGetAttribute(to: *mut c_int, number: c_int, _device: c_int) = given(to, attribute(number));
    extern "C" fn cuDeviceGetUuid_v2(to: *mut [u8; 16], device: c_int) = given(to, uuid(device));
    extern "C" fn cuDevicePrimaryCtxGetState(_device: c_int, flags: *mut c_uint, active: *mut c_int) =
        { give(flags, 0); given(active, 1) };
}

/// A context is the number of its device and one, so that none is null.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(to: *mut usize, device: c_int) -> c_int {
    let Some(device) = known(device) else {
        return INVALID_DEVICE;
    };
    give(to, device + 1);
    SUCCESS
}

exports! {
    extern "C" fn cuCtxGetCurrent(to: *mut usize) = given(to, device() + 1);
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> c_int {
    let number = context.checked_sub(1).and_then(|n| c_int::try_from(n).ok());
    number.map_or(SUCCESS, set_device)
}

exports! {
    extern "C" fn cuCtxPushCurrent_v2(context: usize) = cuCtxSetCurrent(context);
    extern "C" fn cuCtxPopCurrent_v2(to: *mut usize) = cuCtxGetCurrent(to);
    extern "C" fn cuCtxGetDevice(to: *mut c_int) = given(to, c_int::try_from(device()).unwrap_or(0));
    /// The heap of kernels that allocate, 8 MiB where nobody set it (CUDA programming guide, dynamic global memory allocation).
    extern "C" fn cuCtxGetLimit(to: *mut usize, _limit: c_int) = given(to, 8 << 20);
    extern "C" fn cuStreamGetCtx(_stream: usize, to: *mut usize) = cuCtxGetCurrent(to);
    extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) =
        { give(free, memory().free_bytes(device())); given(total, settings().total_bytes) };
    extern "C" fn cuMemAlloc_v2(to: *mut *mut c_void, bytes: usize) = allocate(to, bytes);
    extern "C" fn cuMemFree_v2(address: *mut c_void) = cudaFree(address);
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetAddressRange_v2(
    start: *mut usize,
    bytes: *mut usize,
    address: usize,
) -> c_int {
    let Some(block) = memory().block_at(address) else {
        return INVALID_VALUE;
    };
    give(start, block.0);
    give(bytes, block.1);
    SUCCESS
}

// Addresses and memory apart: expandable segments.

exports! {
    extern "C" fn cuMemGetAllocationGranularity(to: *mut usize, _wanted: usize, _option: c_int) = given(to, PAGE);
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressReserve(to: *mut usize, bytes: usize) -> c_int {
    let reserved = memory().reserve(device(), bytes);
    give(to, reserved.unwrap_or(0));
    reserved.map_or_else(code, |_| SUCCESS)
}

/// `CUmemAllocationProp` begins with the type, the kind of handle, and the place: its type and the device.
#[repr(C)]
struct AllocationWish {
    kind: c_int,
    handle: c_int,
    place: c_int,
    device: c_int,
}

#[unsafe(no_mangle)]
extern "C" fn cuMemCreate(to: *mut u64, bytes: usize, wish: *const AllocationWish) -> c_int {
    if wish.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the documentation demands a pointer to the structure, whose first four numbers are these.
    let wished = unsafe { wish.read_unaligned() };
    // A place that is no device (1) is the host: counted for nobody.
    let Some(device) = known(wished.device).filter(|_| wished.place == 1) else {
        report::say("cuMemCreate on the host");
        return NOT_SUPPORTED;
    };
    let made = memory().create(device, bytes);
    give(to, made.unwrap_or(0));
    made.map_or_else(code, |_| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRelease(handle: u64) -> c_int {
    memory().release(handle).map_or_else(code, |()| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemMap(address: usize, bytes: usize, _offset: usize, handle: u64) -> c_int {
    let mapped = memory().map(address, bytes, handle);
    mapped.map_or_else(code, |()| SUCCESS)
}

exports! {
    extern "C" fn cuMemUnmap(address: usize, bytes: usize) = { memory().unmap(address, bytes); SUCCESS };
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRetainAllocationHandle(to: *mut u64, address: usize) -> c_int {
    match memory().handle_at(address) {
        Some(handle) => {
            give(to, handle);
            SUCCESS
        }
        None => INVALID_VALUE,
    }
}

exports! {
    /// Memory of one process cannot be handed to another: there is none.
    extern "C" fn cuMemExportToShareableHandle() = failed(NOT_SUPPORTED);
    extern "C" fn cuMemImportFromShareableHandle() = failed(NOT_SUPPORTED);
}

/// `CUpointer_attribute`: 1 context, 2 kind of memory, 3 and 4 the address, 9 device.
#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttribute(to: *mut c_void, number: c_int, address: usize) -> c_int {
    let (kind, device, on_device, on_host) = place(address);
    if kind == 0 {
        return INVALID_VALUE;
    }
    match number {
        1 => give(to.cast::<usize>(), super::state::device() + 1),
        2 => give(to.cast::<c_int>(), if kind == 1 { 1 } else { 2 }),
        3 => give(to.cast::<usize>(), on_device),
        4 => give(to.cast::<usize>(), on_host),
        8 => give(to.cast::<c_int>(), c_int::from(kind == 3)),
        9 => give(to.cast::<c_int>(), device),
        _ => return NOT_SUPPORTED,
    }
    SUCCESS
}

// Modules and kernels: they load, and do nothing.

exports! {
    extern "C" fn cuModuleLoadData(to: *mut usize) = given(to, token());
    extern "C" fn cuModuleLoadDataEx(to: *mut usize) = given(to, token());
    extern "C" fn cuModuleLoad(to: *mut usize) = given(to, token());
    extern "C" fn cuModuleGetFunction(to: *mut usize) = given(to, token());
    extern "C" fn cuFuncGetAttribute(to: *mut c_int, number: c_int) = given(to, if number == 0 { 1024 } else { 0 });
    extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(to: *mut c_int) = given(to, 2);
    extern "C" fn cuOccupancyMaxActiveClusters(to: *mut c_int) = given(to, settings().processors);
    extern "C" fn cuLaunchKernel() = { report::launched(); SUCCESS };
    extern "C" fn cuLaunchKernelEx() = { report::launched(); SUCCESS };
    extern "C" fn cuLaunchCooperativeKernel() = { report::launched(); SUCCESS };
}

/// The version of the phantom. A program that finds this name knows that its driver is none.
#[unsafe(no_mangle)]
extern "C" fn oomctl_phantom_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        CString::new(option_env!("CARGO_PKG_VERSION").unwrap_or("")).unwrap_or_default()
    });
    version.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_grows_and_shrinks_page_by_page() {
        let wish = AllocationWish {
            kind: 1,
            handle: 0,
            place: 1,
            device: 0,
        };
        let mut segment = 0;
        assert_eq!(cuMemAddressReserve(&raw mut segment, 1 << 40), SUCCESS);
        let mut handles = [0; 3];
        for (at, handle) in handles.iter_mut().enumerate() {
            assert_eq!(cuMemCreate(handle, PAGE, &raw const wish), SUCCESS);
            assert_eq!(cuMemMap(segment + at * PAGE, PAGE, 0, *handle), SUCCESS);
        }
        let mut found = 0;
        cuMemRetainAllocationHandle(&raw mut found, segment + PAGE + 8);
        assert_eq!(found, handles[1]);
        assert_eq!(cuMemUnmap(segment, 3 * PAGE), SUCCESS);
        for handle in handles {
            assert_eq!(cuMemRelease(handle), SUCCESS);
            assert_eq!(cuMemRelease(handle), INVALID_VALUE);
        }
        assert_eq!(
            cuMemCreate(&raw mut found, 1 << 50, &raw const wish),
            OUT_OF_MEMORY
        );
    }

    #[test]
    fn a_pointer_of_the_program_is_none_of_cuda() {
        let mine = 0_u8;
        let mut device = 9;
        let address = &raw const mine as usize;
        let to = (&raw mut device).cast();
        assert_eq!(cuPointerGetAttribute(to, 9, address), INVALID_VALUE);
    }
}
