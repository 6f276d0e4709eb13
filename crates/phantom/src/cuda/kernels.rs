//! Kernels: a launch is counted and does nothing, and what a launch must know of them is made up.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::report;
use super::state::{SUCCESS, cleared, give, given, settings, token};

/// Three numbers of blocks or threads, as a launch hands them over.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

thread_local! {
    static CALL: std::cell::Cell<(Dim3, Dim3, usize, usize)> = const {
        std::cell::Cell::new((Dim3 { x: 1, y: 1, z: 1 }, Dim3 { x: 1, y: 1, z: 1 }, 0, 0))
    };
}

#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
) -> c_uint {
    CALL.set((grid, block, shared, stream));
    0
}

#[unsafe(no_mangle)]
extern "C" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut usize,
) -> c_int {
    let call = CALL.get();
    give(grid, call.0);
    give(block, call.1);
    give(shared, call.2);
    give(stream, call.3);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary() -> usize {
    token()
}

#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule() -> c_char {
    1
}

exports! {
    extern "C" fn __cudaGetKernel(to: *mut usize, function: usize) = given(to, function);
    extern "C" fn cudaLaunchKernel() = { report::launched(); SUCCESS };
    extern "C" fn cudaLaunchKernelExC() = { report::launched(); SUCCESS };
    extern "C" fn __cudaLaunchKernel() = { report::launched(); SUCCESS };
    extern "C" fn cudaLaunchCooperativeKernel() = { report::launched(); SUCCESS };
}

/// A function that the host runs when the stream has come so far: at once.
#[unsafe(no_mangle)]
extern "C" fn cudaLaunchHostFunc(
    _stream: usize,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> c_int {
    if let Some(function) = function {
        // SAFETY: the caller hands in a function and the argument that it is for.
        unsafe { function(data) };
    }
    SUCCESS
}

/// The same with a stream and a code for the function.
#[unsafe(no_mangle)]
extern "C" fn cudaStreamAddCallback(
    stream: usize,
    function: Option<unsafe extern "C" fn(usize, c_int, *mut c_void)>,
    data: *mut c_void,
    _flags: c_uint,
) -> c_int {
    if let Some(function) = function {
        // SAFETY: as for `cudaLaunchHostFunc`.
        unsafe { function(stream, SUCCESS, data) };
    }
    SUCCESS
}

/// The architecture whose machine code a card runs. PyTorch has none for 8.7, 8.9, 10.3 and 12.1; that of 8.6, 10.0 and 12.0 runs
/// there, and CUB's algorithms (`nonzero`, sorting) end where a kernel says that it was built for what they were not.
fn built_for((major, minor): (c_int, c_int)) -> c_int {
    let minor = match (major, minor) {
        (8, 7 | 9) => 6,
        (10, 3) | (12, 1) => 0,
        _ => minor,
    };
    major * 10 + minor
}

#[unsafe(no_mangle)]
extern "C" fn cudaFuncGetAttributes(to: *mut u8, _function: usize) -> c_int {
    let built = built_for(settings().capability);
    // The sizes come first; then maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes.
    let values = [1024, 32, built, built, 0, 232_448];
    let all = cleared(to, 144);
    for (at, value) in all[24..].chunks_exact_mut(4).zip(values) {
        at.copy_from_slice(&c_int::to_le_bytes(value));
    }
    SUCCESS
}

exports! {
    extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(to: *mut c_int) = given(to, 2);
    extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(to: *mut c_int) = given(to, 2);
    extern "C" fn cudaOccupancyMaxPotentialClusterSize(to: *mut c_int) = given(to, 8);
    extern "C" fn cudaOccupancyMaxActiveClusters(to: *mut c_int) = given(to, settings().processors);
    extern "C" fn cudaGetSymbolAddress(to: *mut usize, _symbol: usize) = given(to, token());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_gets_back_what_was_pushed() {
        let grid = Dim3 { x: 3, y: 2, z: 1 };
        __cudaPushCallConfiguration(grid, Dim3::default(), 48, 5);
        let (mut got, mut shared, mut stream) = (Dim3::default(), 0, 0);
        let none = std::ptr::null_mut();
        __cudaPopCallConfiguration(&raw mut got, none, &raw mut shared, &raw mut stream);
        assert_eq!((got.x, got.y, shared, stream), (3, 2, 48, 5));
    }

    #[test]
    fn a_kernel_is_built_for_what_pytorch_has_code_of() {
        let cards = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0)];
        assert_eq!(cards.map(built_for), [75, 80, 86, 86, 90, 120]);
    }
}
