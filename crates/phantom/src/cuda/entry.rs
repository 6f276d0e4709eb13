//! The driver's functions by name: PyTorch and cuBLAS ask for their addresses while they run.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};

use super::state::{SUCCESS, give, given, text};
use super::stubs::stub_of;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The address of a driver's function: ours, in its newest form, else one that does nothing, whose calls are reported.
fn entry_point(name: *const c_char) -> usize {
    let Some(name) = text(name) else { return 0 };
    for name in [format!("{name}_v2"), name.to_owned()] {
        let Ok(name) = CString::new(name) else {
            return 0;
        };
        // SAFETY: null is RTLD_DEFAULT, where this library comes first, for it was preloaded; the name ends with a zero.
        let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
        if !found.is_null() {
            return found as usize;
        }
    }
    stub_of(name)
}

exports! {
    extern "C" fn cuGetProcAddress(name: *const c_char, to: *mut usize) = given(to, entry_point(name));
}

#[unsafe(no_mangle)]
extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    to: *mut usize,
    _version: c_int,
    _flags: c_ulonglong,
    status: *mut c_int,
) -> c_int {
    give(to, entry_point(name));
    give(status, 0);
    SUCCESS
}

exports! {
    /// The driver's function of a name; `found` is 0 where there is one, 1 where there is none.
    extern "C" fn cudaGetDriverEntryPoint(name: *const c_char, to: *mut usize, _flags: c_ulonglong, found: *mut c_int) =
        { give(to, entry_point(name)); given(found, 0) };
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetDriverEntryPointByVersion(
    name: *const c_char,
    to: *mut usize,
    _version: c_uint,
    _flags: c_ulonglong,
    found: *mut c_int,
) -> c_int {
    give(to, entry_point(name));
    give(found, 0);
    SUCCESS
}
