//! The one state of the process: settings, counted memory, and the device that each thread works on.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::memory::{Memory, MemoryError};
use super::settings::PhantomSettings;

/// `cudaSuccess` and `CUDA_SUCCESS`.
pub(super) const SUCCESS: c_int = 0;
/// `cudaErrorInvalidValue` and `CUDA_ERROR_INVALID_VALUE`.
pub(super) const INVALID_VALUE: c_int = 1;
/// `cudaErrorMemoryAllocation` and `CUDA_ERROR_OUT_OF_MEMORY`.
pub(super) const OUT_OF_MEMORY: c_int = 2;
/// `cudaErrorInvalidDevice` and `CUDA_ERROR_INVALID_DEVICE`.
pub(super) const INVALID_DEVICE: c_int = 101;
/// `cudaErrorNotSupported` and `CUDA_ERROR_NOT_SUPPORTED`.
pub(super) const NOT_SUPPORTED: c_int = 801;

/// Addresses that are reserved for the devices: 32 TiB, of the 128 that a process has.
const RANGE: usize = 32 << 40;

struct State {
    settings: PhantomSettings,
    memory: Mutex<Memory>,
}

static STATE: OnceLock<State> = OnceLock::new();

thread_local! {
    static DEVICE: Cell<usize> = const { Cell::new(0) };
    static LAST_ERROR: Cell<c_int> = const { Cell::new(SUCCESS) };
}

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(address: *mut c_void, length: usize) -> c_int;
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
}

/// Linux: `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`.
const QUIET_MAPPING: c_int = 0x02 | 0x20 | 0x4000;
/// Linux: `PROT_READ | PROT_WRITE`.
const READ_WRITE: c_int = 0x1 | 0x2;

/// Linux: `MADV_DONTNEED`.
const DONT_NEED: c_int = 4;
/// The largest page that a mapping of `map_host` may have.
const HOST_PAGE: usize = 64 << 10;

/// Pages of the process; none of them takes memory before it is written to.
fn map(length: usize, protection: c_int) -> Option<usize> {
    // SAFETY: the call requests no address and names no file, so nothing that exists is changed.
    let address = unsafe {
        mmap(
            std::ptr::null_mut(),
            length,
            protection,
            QUIET_MAPPING,
            -1,
            0,
        )
    };
    let address = address as usize;
    (address != usize::MAX).then_some(address)
}

/// Memory of the host that the program may write to.
pub(super) fn map_host(bytes: usize) -> Option<usize> {
    map(bytes.max(1), READ_WRITE)
}

/// Gives memory of `map_host` back.
pub(super) fn unmap_host(address: usize, bytes: usize) {
    // SAFETY: the caller took address and length from what `map_host` gave, and forgets them with this call.
    unsafe { munmap(address as *mut c_void, bytes.max(1)) };
}

/// Makes memory of `map_host` read zeros and gives its pages back, so that what was never computed takes none. What remains is
/// less than a page at both ends: its bytes.
pub(super) fn forget_host(address: usize, bytes: usize) -> (usize, usize) {
    let start = address.next_multiple_of(HOST_PAGE).min(address + bytes);
    let end = ((address + bytes) / HOST_PAGE * HOST_PAGE).max(start);
    // SAFETY: the caller took the range from what `map_host` gave: private pages without a file, which read zeros afterwards.
    let done = unsafe { madvise(start as *mut c_void, end - start, DONT_NEED) };
    if done == 0 {
        (start - address, address + bytes - end)
    } else {
        (bytes, 0)
    }
}

fn state() -> &'static State {
    STATE.get_or_init(|| {
        let settings = PhantomSettings::read(|name| std::env::var(name).ok());
        // A process that may not reserve addresses (`ulimit -v`) has devices that are full from the start.
        let (base, range) = map(RANGE, 0).map_or((0, 0), |base| (base, RANGE));
        let range = range.max(settings.devices * 4 * super::memory::PAGE);
        let memory = Memory::new(&settings, base, range);
        State {
            settings,
            memory: Mutex::new(memory),
        }
    })
}

pub(super) fn settings() -> &'static PhantomSettings {
    &state().settings
}

pub(super) fn memory() -> MutexGuard<'static, Memory> {
    let memory = &state().memory;
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of this thread.
pub(super) fn device() -> usize {
    DEVICE.get()
}

/// Makes a device that of this thread.
pub(super) fn set_device(device: c_int) -> c_int {
    match usize::try_from(device) {
        Ok(index) if index < settings().devices => {
            DEVICE.set(index);
            SUCCESS
        }
        _ => failed(INVALID_DEVICE),
    }
}

/// A device that a call names; `None` where there is none of that number.
pub(super) fn known(device: c_int) -> Option<usize> {
    let index = usize::try_from(device).ok()?;
    (index < settings().devices).then_some(index)
}

/// Remembers an error for `cudaGetLastError`, and returns it.
pub(super) fn failed(code: c_int) -> c_int {
    if code != SUCCESS {
        LAST_ERROR.set(code);
    }
    code
}

pub(super) fn last_error(forget: bool) -> c_int {
    let code = LAST_ERROR.get();
    if forget {
        LAST_ERROR.set(SUCCESS);
    }
    code
}

/// The code of an error of `memory`.
pub(super) fn code(error: MemoryError) -> c_int {
    match error {
        MemoryError::OutOfMemory => OUT_OF_MEMORY,
        MemoryError::Invalid => INVALID_VALUE,
    }
}

/// Writes a result where the caller wants it; a caller that wants none hands in null.
pub(super) fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: each call's documentation demands a pointer to a writable place for its result, or null.
        unsafe { to.write_unaligned(value) };
    }
}

/// The same, as the answer of a call that succeeds.
pub(super) fn given<T>(to: *mut T, value: T) -> c_int {
    give(to, value);
    SUCCESS
}

/// Clears a structure of the caller and returns its bytes.
pub(super) fn cleared<'a>(to: *mut u8, bytes: usize) -> &'a mut [u8] {
    if to.is_null() {
        return &mut [];
    }
    // SAFETY: the documentation demands a pointer to a structure of this size, which is the caller's until the call returns.
    let all = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
    all.fill(0);
    all
}

/// A text of the caller.
pub(super) fn text<'a>(from: *const c_char) -> Option<&'a str> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the documentation demands a text that ends with a zero, and it outlives the call.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().ok()
}

/// Writes a text of at most `most` bytes, its zero among them.
pub(super) fn give_text(to: *mut c_char, most: usize, text: &str) {
    let length = text.len().min(most.saturating_sub(1));
    if most == 0 {
        return;
    }
    cleared(to.cast(), length + 1)
        .iter_mut()
        .zip(text.bytes().take(length))
        .for_each(|(at, byte)| *at = byte);
}

/// Something that the program holds and never looks into: a handle of its own that is not null.
pub(super) fn token() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const PAGES: usize = 1 << 20;
    static BASE: OnceLock<usize> = OnceLock::new();
    // Real addresses, so that a library that does look reads zeros instead of ending the process.
    let base = *BASE.get_or_init(|| map_host(PAGES).unwrap_or(PAGES));
    base + NEXT.fetch_add(64, Ordering::Relaxed) % PAGES
}
