//! cuBLAS, cuDNN, cuSOLVER, cuFFT and NCCL as far as a call must answer with something: handles, modes, one algorithm, no workspace.

use std::ffi::{c_char, c_int, c_void};

use super::runtime::{allocate, cudaFree};
use super::state::{SUCCESS, cleared, give, given, token};

/// Functions that make a handle and put it into their first argument.
macro_rules! handles {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)] extern "C" fn $name(to: *mut usize) -> c_int {
            give(to, token());
            SUCCESS
        })*
    };
}

/// Functions that answer a handle's mode: the first of its kind.
macro_rules! modes {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)] extern "C" fn $name(_handle: usize, to: *mut c_int) -> c_int {
            give(to, 0);
            SUCCESS
        })*
    };
}

/// Functions that answer how much room an operation wants: none. The brackets hold the arguments before it; `two` sizes are
/// the device's and the host's. PyTorch allocates what stands there, and puts nothing there before.
macro_rules! room {
    (@ $name:ident [$($before:ident)*] int) => {
        #[unsafe(no_mangle)] extern "C" fn $name($($before: usize,)* to: *mut c_int) -> c_int {
            give(to, 0);
            SUCCESS
        }
    };
    (@ $name:ident [$($before:ident)*] one) => {
        #[unsafe(no_mangle)] extern "C" fn $name($($before: usize,)* to: *mut usize) -> c_int {
            give(to, 0);
            SUCCESS
        }
    };
    (@ $name:ident [$($before:ident)*] two) => {
        #[unsafe(no_mangle)] extern "C" fn $name($($before: usize,)* device: *mut usize, host: *mut usize) -> c_int {
            give(device, 0);
            give(host, 0);
            SUCCESS
        }
    };
    ($($before:tt $size:ident: $($name:ident)*;)*) => { $($(room! { @ $name $before $size })*)* };
}

handles! {
    cublasCreate_v2 cublasLtCreate cublasLtMatmulDescCreate cublasLtMatrixLayoutCreate
    cublasLtMatmulPreferenceCreate cusolverDnCreate cusolverDnCreateParams cusolverDnCreateSyevjInfo
    cusolverDnCreateGesvdjInfo cusparseCreate cusparseCreateDnMat cusparseCreateDnVec cusparseCreateMatDescr
    cudnnCreate cudnnCreateTensorDescriptor cudnnCreateFilterDescriptor cudnnCreateConvolutionDescriptor
    cudnnCreateActivationDescriptor cudnnCreateDropoutDescriptor cudnnCreatePoolingDescriptor
    cudnnCreateRNNDescriptor cudnnCreateRNNDataDescriptor cudnnCreateCTCLossDescriptor
    cudnnCreateSpatialTransformerDescriptor
    ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable
}

modes! { cublasGetMathMode cublasGetPointerMode_v2 cublasGetAtomicsMode ncclCommGetAsyncError }

room! {
    [_a _b _c] int: cusolverDnSgesvd_bufferSize cusolverDnDgesvd_bufferSize cusolverDnCgesvd_bufferSize
        cusolverDnZgesvd_bufferSize;
    [_a _b _c _d] int: cusolverDnSsytrf_bufferSize cusolverDnDsytrf_bufferSize cusolverDnCsytrf_bufferSize
        cusolverDnZsytrf_bufferSize;
    [_a _b _c _d _e] int: cusolverDnSgeqrf_bufferSize cusolverDnDgeqrf_bufferSize cusolverDnCgeqrf_bufferSize
        cusolverDnZgeqrf_bufferSize cusolverDnSgetrf_bufferSize cusolverDnDgetrf_bufferSize
        cusolverDnCgetrf_bufferSize cusolverDnZgetrf_bufferSize cusolverDnSpotrf_bufferSize
        cusolverDnDpotrf_bufferSize cusolverDnCpotrf_bufferSize cusolverDnZpotrf_bufferSize;
    [_a _b _c _d _e _f _g] int: cusolverDnSsyevd_bufferSize cusolverDnDsyevd_bufferSize cusolverDnCheevd_bufferSize
        cusolverDnZheevd_bufferSize cusolverDnSsyevj_bufferSize cusolverDnDsyevj_bufferSize
        cusolverDnCheevj_bufferSize cusolverDnZheevj_bufferSize cusolverDnSsyevjBatched_bufferSize
        cusolverDnDsyevjBatched_bufferSize cusolverDnCheevjBatched_bufferSize cusolverDnZheevjBatched_bufferSize
        cusolverDnSorgqr_bufferSize cusolverDnDorgqr_bufferSize cusolverDnCungqr_bufferSize
        cusolverDnZungqr_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j _k] int: cusolverDnSgesvdjBatched_bufferSize cusolverDnDgesvdjBatched_bufferSize
        cusolverDnCgesvdjBatched_bufferSize cusolverDnZgesvdjBatched_bufferSize cusolverDnSormqr_bufferSize
        cusolverDnDormqr_bufferSize cusolverDnCunmqr_bufferSize cusolverDnZunmqr_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j _k _l] int: cusolverDnSgesvdj_bufferSize cusolverDnDgesvdj_bufferSize
        cusolverDnCgesvdj_bufferSize cusolverDnZgesvdj_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j _k _l _m _n _o _p] int: cusolverDnSgesvdaStridedBatched_bufferSize
        cusolverDnDgesvdaStridedBatched_bufferSize cusolverDnCgesvdaStridedBatched_bufferSize
        cusolverDnZgesvdaStridedBatched_bufferSize;
    [_a _b _c _d _e _f _g _h] two: cusolverDnXpotrf_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j] two: cusolverDnXgeqrf_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j _k] two: cusolverDnXsyevd_bufferSize cusolverDnXsyevBatched_bufferSize
        cusolverDnXsytrs_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j _k _l _m _n _o _p _q] two: cusolverDnXgeev_bufferSize;
    [_a _b _c _d _e _f] one: cusparseXcoosort_bufferSizeExt cusparseXcsrsort_bufferSizeExt;
    [_a _b _c _d _e _f _g _h _i] one: cusparseSpMV_bufferSize cusparseSpSV_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j] one: cusparseSpMM_bufferSize cusparseSpSM_bufferSize cusparseSDDMM_bufferSize;
    [_a _b _c _d _e _f _g _h _i _j _k _l] one: cufftXtMakePlanMany;
}

/// cuBLASLt's result: an algorithm of 64 bytes, its workspace, its state, waves and room, 96 bytes in all.
#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _handle: usize,
    _operation: usize,
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _preference: usize,
    wanted: c_int,
    results: *mut u8,
    count: *mut c_int,
) -> c_int {
    if wanted > 0 {
        cleared(results, 96);
    }
    give(count, c_int::from(wanted > 0));
    SUCCESS
}

exports! {
    /// The stream that a handle works on: the default one.
    extern "C" fn cudnnGetStream(_handle: usize, to: *mut usize) = given(to, 0);
    /// A descriptor of cuDNN's graphs.
    extern "C" fn cudnnBackendCreateDescriptor(_kind: c_int, to: *mut usize) = given(to, token());
}

/// `CUDNN_TYPE_BACKEND_DESCRIPTOR`, `CUDNN_TYPE_INT64` and `CUDNN_TYPE_INT32`.
const DESCRIPTOR: c_int = 15;
const INT64: c_int = 3;
const INT32: c_int = 23;

/// What a descriptor says: one descriptor where descriptors are asked for (the engine that a heuristic proposes; the caller
/// made it, and asks how many there are first), zero where a number is (no workspace, no shared memory), else nothing.
#[unsafe(no_mangle)]
extern "C" fn cudnnBackendGetAttribute(
    _descriptor: usize,
    _name: c_int,
    kind: c_int,
    wanted: i64,
    count: *mut i64,
    to: *mut c_void,
) -> c_int {
    match kind {
        DESCRIPTOR => give(count, 1),
        INT64 | INT32 => {
            give(count, 1);
            match kind {
                _ if wanted < 1 => (),
                INT64 => give(to.cast::<i64>(), 0),
                _ => give(to.cast::<i32>(), 0),
            }
        }
        _ => give(count, 0),
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cudnnGetConvolutionForwardWorkspaceSize(
    _handle: usize,
    _input: usize,
    _filter: usize,
    _convolution: usize,
    _output: usize,
    _algorithm: c_int,
    to: *mut usize,
) -> c_int {
    give(to, 0);
    SUCCESS
}

exports! {
    extern "C" fn cudnnDropoutGetStatesSize(_handle: usize, to: *mut usize) = given(to, 0);
    /// The bytes by which processes find each other.
    extern "C" fn ncclGetUniqueId(to: *mut u8) = { cleared(to, 128).fill(1); SUCCESS };
    extern "C" fn ncclCommSplit(_from: usize, _color: c_int, _key: c_int, to: *mut usize) = given(to, token());
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_communicator: usize) -> *const c_char {
    c"".as_ptr()
}

exports! {
    extern "C" fn ncclMemAlloc(to: *mut *mut c_void, bytes: usize) = allocate(to, bytes);
    extern "C" fn ncclMemFree(address: *mut c_void) = cudaFree(address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_wants_no_room_whatever_stood_there() {
        let (mut one, mut device, mut host) = (7, 8_usize, 9_usize);
        assert_eq!(cusolverDnSgesvd_bufferSize(0, 0, 0, &raw mut one), SUCCESS);
        let answer = cusolverDnXgeqrf_bufferSize(
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            &raw mut device,
            &raw mut host,
        );
        assert_eq!(answer, SUCCESS);
        assert_eq!((one, device, host), (0, 0, 0));
    }
}
