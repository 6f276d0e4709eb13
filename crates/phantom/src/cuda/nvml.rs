//! NVML as far as PyTorch asks: how many GPUs, which, and what this process holds.

use std::ffi::{c_char, c_int, c_uint};

use super::properties::attribute;
use super::runtime::{DRIVER_VERSION, bus};
use super::state::{SUCCESS, give, give_text, given, known, memory, settings, text};

/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: c_int = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
const UNSUPPORTED: c_int = 3;
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
const INSUFFICIENT_SIZE: c_int = 7;

/// A handle is the number of its device and one.
fn device_of(handle: usize) -> Option<usize> {
    known(c_int::try_from(handle.checked_sub(1)?).ok()?)
}

fn give_handle(to: *mut usize, device: Option<usize>) -> c_int {
    let Some(device) = device else {
        return INVALID_ARGUMENT;
    };
    give(to, device + 1);
    SUCCESS
}

exports! {
    extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) =
        given(count, c_uint::try_from(settings().devices).unwrap_or(1));
    extern "C" fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, to: *mut usize) =
        give_handle(to, c_int::try_from(number).ok().and_then(known));
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(place: *const c_char, to: *mut usize) -> c_int {
    let place = text(place).unwrap_or_default();
    let devices = 0..c_int::try_from(settings().devices).unwrap_or(1);
    // NVML writes the domain with eight digits, CUDA with four.
    let is_it = |device: &c_int| place.to_uppercase().ends_with(&bus(*device));
    give_handle(to, devices.into_iter().find(is_it).and_then(known))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(_handle: usize, to: *mut c_char, most: c_uint) -> c_int {
    give_text(to, usize::try_from(most).unwrap_or(0), &settings().name);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(handle: usize, to: *mut c_char, most: c_uint) -> c_int {
    let uuid = format!(
        "GPU-7068616e-746f-6d00-0000-{:012x}",
        handle.saturating_sub(1)
    );
    give_text(to, usize::try_from(most).unwrap_or(0), &uuid);
    SUCCESS
}

/// Total, free and used bytes of a device.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(handle: usize, to: *mut [u64; 3]) -> c_int {
    let Some(device) = device_of(handle) else {
        return INVALID_ARGUMENT;
    };
    let memory = memory();
    let bytes = [
        settings().total_bytes,
        memory.free_bytes(device),
        memory.used_bytes(device),
    ];
    give(to, bytes.map(|bytes| bytes as u64));
    SUCCESS
}

exports! {
    extern "C" fn nvmlDeviceGetCudaComputeCapability(_handle: usize, major: *mut c_int, minor: *mut c_int) =
        { give(major, attribute(75)); given(minor, attribute(76)) };
}

/// A process of a device: its id, its bytes, and the parts of a GPU that it runs on.
#[repr(C)]
struct ProcessInfo {
    pid: c_uint,
    used_bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

fn processes(handle: usize, count: *mut c_uint, to: *mut ProcessInfo) -> c_int {
    let Some(device) = device_of(handle) else {
        return INVALID_ARGUMENT;
    };
    if count.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the documentation demands a pointer to the number of places behind `to`.
    let places = unsafe { count.read() };
    give(count, 1);
    if places == 0 || to.is_null() {
        return INSUFFICIENT_SIZE;
    }
    let mine = ProcessInfo {
        pid: std::process::id(),
        used_bytes: memory().used_bytes(device) as u64,
        gpu_instance: c_uint::MAX,
        compute_instance: c_uint::MAX,
    };
    give(to, mine);
    SUCCESS
}

exports! {
    extern "C" fn nvmlDeviceGetComputeRunningProcesses(handle: usize, count: *mut c_uint, to: *mut ProcessInfo) =
        processes(handle, count, to);
    extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(handle: usize, count: *mut c_uint, to: *mut ProcessInfo) =
        processes(handle, count, to);
    extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) = given(version, DRIVER_VERSION);
    extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, most: c_uint) =
        { give_text(to, usize::try_from(most).unwrap_or(0), "999.0 (phantom)"); SUCCESS };
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(_code: c_int) -> *const c_char {
    c"the phantom knows no more".as_ptr()
}

exports! {
    /// No NVLink and no fabric: what asks for them goes on without.
    extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType() = UNSUPPORTED;
    extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2() = UNSUPPORTED;
    extern "C" fn nvmlDeviceGetGpuFabricInfoV() = UNSUPPORTED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_and_its_bytes_are_found_by_the_place_on_the_bus() {
        let mut handle = 0;
        let place = c"00000000:01:00.0";
        assert_eq!(
            nvmlDeviceGetHandleByPciBusId_v2(place.as_ptr(), &raw mut handle),
            SUCCESS
        );
        let mut count = 0;
        let none = std::ptr::null_mut();
        let asked = nvmlDeviceGetComputeRunningProcesses_v3(handle, &raw mut count, none);
        assert_eq!((asked, count), (INSUFFICIENT_SIZE, 1));
        let mut memory = [0; 3];
        assert_eq!(nvmlDeviceGetMemoryInfo(handle, &raw mut memory), SUCCESS);
        assert_eq!(memory[0], memory[1] + memory[2]);
        assert_eq!(
            nvmlDeviceGetMemoryInfo(9, &raw mut memory),
            INVALID_ARGUMENT
        );
    }
}
