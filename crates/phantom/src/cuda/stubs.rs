//! Every other name that PyTorch's libraries ask for (`names.txt`). Kernels and notes (`quiet.txt`) do nothing, which is all
//! that is to be known of them; any other is reported the first time that it is called.

use std::ffi::c_int;
use std::sync::atomic::AtomicBool;

use super::report::once;
use super::state::SUCCESS;

macro_rules! quiet {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)] extern "C" fn $name() -> c_int { SUCCESS })*
    };
}

macro_rules! reported {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)] extern "C" fn $name() -> c_int {
            static SAID: AtomicBool = AtomicBool::new(false);
            once(&SAID, stringify!($name));
            SUCCESS
        })*
    };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
