//! CUDA of a machine without a GPU: the runtime, the driver, NVML, and what PyTorch calls of the libraries beside them.
//!
//! This folder is a library of its own. The build script compiles it with the same Rust compiler into a shared library, and the
//! crate carries its bytes. It uses the standard library alone. Memory is counted and never there, kernels do nothing, a copy to
//! the host gives zeros. Signatures and numbers are those of the public documentation of CUDA 12 and 13.
//!
//! Rule: `memory` and `settings` decide and are safe; the other files are the ABI. A C caller hands in pointers, so each
//! `unsafe` block leans on what the documentation of that call demands of its caller.

// The names are those of CUDA.
#![allow(non_snake_case)]
#![allow(
    clippy::disallowed_methods,
    reason = "the library is loaded into a foreign process: its settings are variables, its report is a file"
)]

/// Exported functions, each with its answer.
macro_rules! exports {
    ($($(#[$doc:meta])* $visible:vis extern "C" fn $name:ident($($argument:ident: $kind:ty),*) = $answer:expr;)*) => {
        $($(#[$doc])* #[unsafe(no_mangle)] $visible extern "C" fn $name($($argument: $kind),*) -> c_int {
            $answer
        })*
    };
}

mod copies;
mod driver;
mod entry;
mod graphs;
mod kernels;
mod libraries;
mod lookup;
mod memory;
mod nvml;
mod pools;
mod properties;
mod report;
mod runtime;
mod settings;
mod state;
mod streams;
mod stubs;
