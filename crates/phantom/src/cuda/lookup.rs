//! A name that a program asks of one library, by its handle: the loader would give it that library's own function, of which a part
//! of CUDA's runtime then runs beside us. Python's `ctypes` asks so, and vLLM copies weights by it when it sleeps.

#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::state::text;

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
}

/// `RTLD_NEXT`.
const NEXT: usize = usize::MAX;
/// `RTLD_LAZY | RTLD_NOLOAD`.
const LOADED: c_int = 0x1 | 0x4;

type Search = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The loader's `dlsym`, once `loader` was called.
static SEARCH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn found_nothing() -> usize {
    0
}

/// The loader's `dlsym`: that of glibc 2.34, else the one before it.
fn loader() -> usize {
    let known = SEARCH.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let versions = [c"GLIBC_2.34", c"GLIBC_2.2.5"];
    let mut found = versions.iter().map(|version| {
        // SAFETY: both texts end with a zero and outlive the call.
        let found = unsafe { dlvsym(NEXT as *mut c_void, c"dlsym".as_ptr(), version.as_ptr()) };
        found as usize
    });
    let none = found_nothing as extern "C" fn() -> usize as usize;
    let loader = found.find(|at| *at != 0).unwrap_or(none);
    SEARCH.store(loader, Ordering::Relaxed);
    loader
}

/// Our function, where a name of CUDA is asked of a library; 0 where the loader shall answer: it finds us first by itself where no
/// library was named.
extern "C" fn ours(handle: usize, name: *const c_char) -> usize {
    static US: OnceLock<usize> = OnceLock::new();
    let loader = loader();
    let of_cuda = |name: &str| {
        ["cu", "nccl", "nvml"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    if handle == 0 || handle == NEXT || !text(name).is_some_and(of_cuda) {
        return 0;
    }
    let us = *US.get_or_init(|| {
        // SAFETY: the name ends with a zero; a library that is not loaded stays so.
        let us = unsafe { dlopen(c"libcuda.so.1".as_ptr(), LOADED) };
        us as usize
    });
    if us == 0 {
        return 0;
    }
    // SAFETY: `loader` takes a handle and a name, which are the program's and ours.
    let found = unsafe { std::mem::transmute::<usize, Search>(loader)(us as *mut c_void, name) };
    found as usize
}

/// `dlsym` itself. The loader looks at who calls it, so it must be reached by a jump: a function of Rust's would be the caller.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(export_name = "dlsym"))]
#[cfg_attr(
    test,
    allow(dead_code, reason = "the tests' program keeps the loader's")
)]
extern "C" fn look_up(_handle: *mut c_void, _name: *const c_char) -> *mut c_void {
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {ours}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "mov rax, qword ptr [rip + {search}]",
        "jmp rax",
        "2:",
        "ret",
        ours = sym ours,
        search = sym SEARCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_answers_for_what_is_not_of_cuda_and_for_whoever_names_no_library() {
        let name = c"cudaMemcpy".as_ptr();
        assert_eq!(ours(0, name), 0);
        assert_eq!(ours(NEXT, name), 0);
        assert_eq!(ours(1, c"strlen".as_ptr()), 0);
        assert_ne!(SEARCH.load(Ordering::Relaxed), 0);
    }
}
