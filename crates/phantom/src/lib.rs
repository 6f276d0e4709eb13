//! CUDA of a machine without a GPU: memory is counted and never there, kernels do nothing, and PyTorch runs on it with its real
//! allocator. So it says what a program needs before anybody requests a GPU.
//!
//! `cuda` is a shared library of its own; this crate carries its bytes, and says how a program is started with it.

#[cfg(test)]
mod cuda;
mod start;

pub use start::{LIBRARY, LIBRARY_NAMES, Phantom, PhantomCard, RECORDER};
