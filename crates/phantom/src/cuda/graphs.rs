//! CUDA graphs: a capture is remembered, so that the allocator keeps its memory apart; a graph does nothing.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::state::{SUCCESS, give, given, token};

/// Streams that are captured, each with the number of its capture.
static CAPTURES: Mutex<Option<HashMap<usize, u64>>> = Mutex::new(None);

fn captures() -> MutexGuard<'static, Option<HashMap<usize, u64>>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn capture_of(stream: usize) -> Option<u64> {
    captures().as_ref()?.get(&stream).copied()
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamBeginCapture(stream: usize, _mode: c_int) -> c_int {
    let number = token() as u64;
    captures()
        .get_or_insert_with(HashMap::new)
        .insert(stream, number);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamEndCapture(stream: usize, graph: *mut usize) -> c_int {
    if let Some(all) = captures().as_mut() {
        all.remove(&stream);
    }
    give(graph, token());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamIsCapturing(stream: usize, status: *mut c_int) -> c_int {
    give(status, c_int::from(capture_of(stream).is_some()));
    SUCCESS
}

fn info(stream: usize, status: *mut c_int, number: *mut c_ulonglong, graph: *mut usize) {
    let capture = capture_of(stream);
    give(status, c_int::from(capture.is_some()));
    give(number, capture.unwrap_or(0));
    give(graph, capture.map_or(0, |_| token()));
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: usize,
    status: *mut c_int,
    number: *mut c_ulonglong,
    graph: *mut usize,
    nodes: *mut usize,
    count: *mut usize,
) -> c_int {
    info(stream, status, number, graph);
    give(nodes, 0);
    give(count, 0);
    SUCCESS
}

/// That of CUDA 13, which tells of edges too.
#[unsafe(no_mangle)]
extern "C" fn cudaStreamGetCaptureInfo(
    stream: usize,
    status: *mut c_int,
    number: *mut c_ulonglong,
    graph: *mut usize,
    nodes: *mut usize,
    edges: *mut usize,
    count: *mut usize,
) -> c_int {
    info(stream, status, number, graph);
    give(nodes, 0);
    give(edges, 0);
    give(count, 0);
    SUCCESS
}

exports! {
    /// The driver's name for it, which Triton links to.
    extern "C" fn cuStreamIsCapturing(stream: usize, status: *mut c_int) = cudaStreamIsCapturing(stream, status);
    extern "C" fn cudaThreadExchangeStreamCaptureMode(_mode: *mut c_int) = SUCCESS;
    extern "C" fn cudaGraphInstantiate(to: *mut usize, _graph: usize) = given(to, token());
    extern "C" fn cudaGraphInstantiateWithFlags(to: *mut usize, _graph: usize) = given(to, token());
    extern "C" fn cudaGraphCreate(to: *mut usize, _flags: c_uint) = given(to, token());
    extern "C" fn cudaUserObjectCreate(to: *mut usize) = given(to, token());
    /// A captured graph has no nodes.
    extern "C" fn cudaGraphGetNodes(_graph: usize, _nodes: *mut usize, count: *mut usize) = given(count, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_captured_between_begin_and_end() {
        let status = |stream| {
            let (mut status, mut number) = (9, 9);
            let none = std::ptr::null_mut();
            cudaStreamGetCaptureInfo_v2(stream, &raw mut status, &raw mut number, none, none, none);
            (status, number)
        };
        assert_eq!(status(77), (0, 0));
        cudaStreamBeginCapture(77, 0);
        assert_eq!(status(77).0, 1);
        assert_ne!(status(77).1, 0);
        let mut asked = 9;
        cuStreamIsCapturing(77, &raw mut asked);
        assert_eq!(asked, 1);
        assert_eq!(status(78), (0, 0));
        let mut graph = 0;
        cudaStreamEndCapture(77, &raw mut graph);
        assert_ne!(graph, 0);
        assert_eq!(status(77), (0, 0));
    }
}
