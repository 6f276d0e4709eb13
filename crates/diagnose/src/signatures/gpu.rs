//! Device memory: PyTorch's allocator, the driver, libraries, other frameworks.
//!
//! A bare message counts where it stands alone or behind the name of an exception, never inside a
//! sentence, a script or a configuration.

use super::row::{ADVICE, CAUSE, Signature, weight};
use crate::class::Tri;

const DEVICE: &str = "device, caching allocator";

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "torch_absurd_size",
        kind: "cuda_oom",
        weight: weight::NETWORK,
        literals: &["Tried to allocate more than 1EB"],
        gpu: Some(Tri::Ambiguous),
        pool: "none: the size is corrupt, mostly behind a collective that timed out",
        source: "PyTorch c10/cuda/CUDACachingAllocator.cpp, 1.12 to 2.x",
        example: "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        ..CAUSE
    },
    Signature {
        id: "torch_fsdp_clone_warning",
        kind: "cuda_oom",
        literals: &[
            "Failed to clone() tensor with name",
            "state_dict entry could point to invalid memory",
        ],
        pattern: Some(r"out of memory"),
        handled: true,
        wraps: true,
        phase: Some("checkpoint"),
        pool: "device, while a full state dict is gathered; training goes on, the checkpoint is broken",
        source: "PyTorch torch/distributed/fsdp, 1.13 to 2.0",
        example: "fully_sharded_data_parallel.py:2224: UserWarning: Failed to clone() tensor with name model.norm.weight. This may mean that this state_dict entry could point to invalid memory regions after returning from state_dict() call if this parameter is managed by FSDP. Error: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 2; 39.59 GiB total capacity; 36.00 GiB already allocated; 40.00 MiB free; 37.50 GiB reserved in total by PyTorch)",
        ..CAUSE
    },
    Signature {
        id: "torch_cuda_oom",
        quotable: true,
        kind: "cuda_oom",
        literals: &["CUDA out of memory", "CUDA out of", "CUDA out"],
        pattern: Some(
            r"CUDA\s*out\s*of\s*memory[.:]?\s*Tried\s*to\s*alloc|(?:^\s*|[:)|\]] ?|[✗✘×] )CUDA\s*out\s*of\s*memory\s*(?:$|[.;!]|occurred)",
        ),
        unless: Some(r#"grep |["']CUDA out of memory\.?["']"#),
        wraps: true,
        pool: DEVICE,
        source: "PyTorch c10/cuda/CUDACachingAllocator.cpp, 1.0 to 2.9",
        example: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of which 1.10 GiB is free. Process 4321 has 78.07 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 6.02 GiB is reserved by PyTorch but unallocated.",
        ..CAUSE
    },
    Signature {
        id: "torch_async_oom",
        kind: "cuda_oom",
        literals: &["would exceed allowed memory"],
        wraps: true,
        pool: "device, the driver's own pool (backend:cudaMallocAsync)",
        source: "PyTorch c10/cuda/CUDAMallocAsyncAllocator.cpp, 1.13 to 2.9",
        example: "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)",
        ..CAUSE
    },
    Signature {
        id: "torch_hip_oom",
        quotable: true,
        kind: "hip_oom",
        literals: &["HIP out of memory", "HIP error: out of memory"],
        pattern: Some(
            r"HIP out of memory[.:]?\s*Tried|(?:^\s*|[:)|\]] ?)HIP (?:error: )?out of memory",
        ),
        wraps: true,
        pool: DEVICE,
        source: "PyTorch on ROCm, 1.x to 2.9",
        example: "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.25 GiB. GPU 2 has a total capacity of 63.98 GiB of which 800.00 MiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
        ..CAUSE
    },
    Signature {
        id: "torch_other_device_oom",
        kind: "device_oom",
        literals: &[
            "XPU out of memory",
            "NPU out of memory",
            "MUSA out of memory",
            "MLU out of memory",
            "MPS backend out of memory",
            "ERROR_OUT_OF_DEVICE_MEMORY",
            "kIOGPUCommandBufferCallbackErrorOutOfMemory",
            "Out of GPU memory trying to allocate",
            "ggml_vulkan: Device memory allocation of size",
        ],
        wraps: true,
        pool: "device, allocator of another maker or language",
        source: "PyTorch for Intel, Ascend, Moore Threads, Cambricon, Apple; 2.x; status names of SYCL, Level Zero and Metal; CUDA.jl src/pool.jl (Flux.jl), 1 to 5; llama.cpp ggml-vulkan",
        example: "RuntimeError: NPU out of memory. Tried to allocate 3.50 GiB (NPU 0; 60.97 GiB total capacity; 55.00 GiB already allocated; 1.20 GiB free; 58.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
        ..CAUSE
    },
    Signature {
        id: "torch_oom_class",
        quotable: true,
        kind: "cuda_oom",
        weight: weight::NAMED,
        literals: &["OutOfMemoryError"],
        pattern: Some(
            r"^\s*(?:torch\.)?(?:cuda\.)?OutOfMemoryError\b\s*(?:$|:)|RayTaskError\(OutOfMemoryError\)",
        ),
        unless: Some(
            r"Task was killed|except |low on memory|[Hh]eap|Metaspace|allocating [\d,]+ bytes",
        ),
        pool: DEVICE,
        source: "PyTorch 1.13 to 2.9 (class name); Ray 2.x around a worker's method",
        example: "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=4321, ip=192.0.2.7, actor_id=0f, repr=<verl.single_controller.ray.base.WorkerDict object at 0x7f>)",
        ..CAUSE
    },
    Signature {
        id: "accelerate_no_batch_size",
        kind: "cuda_oom",
        weight: weight::NAMED,
        literals: &["No executable batch size found, reached zero"],
        pool: "device; every batch size down to 1 failed, so it is not the batch",
        source: "accelerate utils/memory.py, 0.5 to 1.x",
        example: "RuntimeError: No executable batch size found, reached zero.",
        ..CAUSE
    },
    Signature {
        id: "vllm_cumem_oom",
        kind: "cuda_driver_oom",
        literals: &["CUDA Error: out of memory at"],
        phase: Some("wake_up"),
        pool: "device, mapped outside PyTorch's allocator when a sleeping engine wakes up",
        source: "vLLM csrc/cumem_allocator.cpp, 0.7 to 0.13",
        example: "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
        ..CAUSE
    },
    Signature {
        id: "cuda_driver_oom",
        quotable: true,
        kind: "cuda_driver_oom",
        literals: &[
            "Triton Error [CUDA]: out of memory",
            "CUDA error: out of memory",
            "cuda runtime error (2) : out of memory",
            "CUDA runtime error: out of memory",
            "CUDA error(2), out of memory",
            "cudaError_t 2 : \"out of memory\"",
        ],
        pattern: Some(
            r"(?:^\s*|[:)|\]] ?)CUDA (?:runtime )?error(?::|\(2\),) out of memory|cuda runtime error \(2\)|Triton Error|cudaError_t 2",
        ),
        pool: "device, outside the caching allocator (context, graphs, pinned buffers); the frame may be wrong",
        source: "PyTorch c10/cuda/CUDAException.cpp, any; THC up to 1.4; PaddlePaddle; Kaldi cudamatrix; LMDeploy",
        example: "torch.AcceleratorError: CUDA error: out of memory",
        ..CAUSE
    },
    Signature {
        id: "cuda_expandable_driver_oom",
        kind: "cuda_driver_oom",
        literals: &["CUDA driver error: out of memory"],
        gpu: Some(Tri::Ambiguous),
        pool: "device mapping of expandable segments",
        source: "PyTorch c10/cuda/driver_api, 2.1 to 2.9",
        example: "RuntimeError: CUDA driver error: out of memory",
        ..CAUSE
    },
    Signature {
        id: "cuda_memory_allocation",
        kind: "cuda_driver_oom",
        literals: &[
            "cudaErrorMemoryAllocation",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "hipErrorOutOfMemory",
        ],
        unless: Some(
            r"Search for `cudaError|\bI (?:tensorflow|external|0000)|failed to allocate [\d.]+\w+ .*from device|will be retried|may not be an issue|^\s*(?:if|except|raise)\b",
        ),
        pool: "device, as the runtime and the driver name it",
        source: "CUDA runtime and driver API names; numba, TensorFlow, Triton, custom kernels",
        example: "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        ..CAUSE
    },
    Signature {
        id: "cuda_malloc_failed",
        kind: "cuda_driver_oom",
        literals: &[
            "cudaMalloc failed: out of memory",
            "cudaMalloc retry failed: out of memory",
            "cudaMallocAsync failed",
            "Cuda Runtime (out of memory)",
            "CUDA failure 2: out of memory",
            "CUDA error 2 at ",
            "failed to allocate CUDA",
            "failed to allocate ROCm",
            "unable to allocate CUDA",
            "unable to allocate ROCm",
        ],
        unless: Some(r"CUDA_Host|ROCm_Host"),
        pool: "device",
        source: "llama.cpp ggml-cuda, ggml-alloc.c and src/llama-model.cpp, TensorRT 8 and later, ONNX Runtime",
        example: "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 5120.00 MiB on device 0: cudaMalloc failed: out of memory",
        ..CAUSE
    },
    Signature {
        id: "tensorrt_llm_oom",
        kind: "cuda_driver_oom",
        literals: &["CUDA runtime error in "],
        pattern: Some(r"CUDA runtime error in .+: out of memory"),
        pool: "device, the engine's buffers and its KV cache",
        source: "TensorRT-LLM cpp/tensorrt_llm/common/cudaUtils.h, 0.5 to 1.x",
        example: "RuntimeError: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/app/cpp/tensorrt_llm/runtime/tllmBuffers.h:118)",
        ..CAUSE
    },
    Signature {
        id: "onnxruntime_arena",
        kind: "cuda_driver_oom",
        literals: &["Failed to allocate memory for requested buffer of size"],
        gpu: Some(Tri::Ambiguous),
        pool: "mostly device: the host's arena says the same",
        source: "ONNX Runtime core/framework/bfc_arena.cc, 1.x",
        example: "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 1073741824",
        ..CAUSE
    },
    Signature {
        id: "rmm_oom",
        kind: "cuda_driver_oom",
        literals: &["std::bad_alloc: out_of_memory", "RMM failure at"],
        pattern: Some(r"bad_alloc: out_of_memory|Maximum pool size exceeded"),
        pool: "device, RAPIDS' pool; the C++ name is that of host memory",
        source: "RMM include/rmm/error.hpp, 0.15 to 26.x",
        example: "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/env/include/rmm/mr/device/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory",
        ..CAUSE
    },
    Signature {
        id: "hip_runtime_oom",
        kind: "hip_oom",
        literals: &[
            "Allocation failed : Device memory : required",
            "Memory not available to allocate buffer",
            "miopenStatusAllocFailed",
            "ROCm error: out of memory",
        ],
        pool: "device, as the HIP runtime and MIOpen see it",
        source: "ROCm clr hipamd/src/hip_memory.cpp, 4 to 7; MIOpen src/hip/handlehip.cpp",
        example: ":1:hip_memory.cpp           :303 : 961677 us: 4277 : [tid:0x7f2a] Allocation failed : Device memory : required :2097152 | free :1048576 | total :17163091968",
        ..CAUSE
    },
    Signature {
        id: "hip_queue_out_of_resources",
        kind: "hip_oom",
        literals: &["HSA_STATUS_ERROR_OUT_OF_RESOURCES"],
        pattern: Some(r"(?i:aborting with error)|Available Free mem"),
        gpu: Some(Tri::Ambiguous),
        pool: "device, or another resource of the runtime (threads, events)",
        source: "ROCm clr rocclr/device/rocm/rocdevice.cpp, 4 to 7",
        example: ":0:rocdevice.cpp            :3672: 961677 us:  Callback: Queue 0x7f2a aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. Available Free mem : 62 MB",
        ..CAUSE
    },
    Signature {
        id: "cuda_library_alloc_failed",
        kind: "cuda_driver_oom",
        literals: &[
            "CUFFT_ALLOC_FAILED",
            "CUSOLVER_STATUS_ALLOC_FAILED",
            "CUSPARSE_STATUS_ALLOC_FAILED",
            "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES",
        ],
        pool: "device, workspace of a CUDA library",
        source: "cuFFT, cuSOLVER and cuSPARSE status names, CUDA 9 to 13",
        example: "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED",
        ..CAUSE
    },
    Signature {
        id: "cupy_oom",
        kind: "cuda_driver_oom",
        literals: &["ut of memory to allocate", "ut of memory allocating"],
        pattern: Some(r"ut of memory (?:to allocate|allocating) [\d,]+ bytes"),
        unless: Some(r"(?i)resource.exhausted"),
        pool: "device, CuPy's own pool",
        source: "CuPy cupy/cuda/memory.pyx, 4 to 13",
        example: "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,147,483,648 bytes (allocated so far: 9,663,676,416 bytes).",
        ..CAUSE
    },
    Signature {
        id: "nccl_oom",
        kind: "nccl_oom",
        literals: &["Cuda failure", "CUDA failure", "Failed to CUDA calloc"],
        pattern: Some(r"C(?:uda|UDA) failure (?:\d+ )?'out of memory'|Failed to CUDA calloc"),
        any_level: true,
        pool: "device, NCCL's buffers, outside PyTorch's pool",
        source: "NCCL 2.x src/include/checks.h",
        example: "node7:4711:4790 [2] include/alloc.h:185 NCCL WARN Cuda failure 2 'out of memory'",
        ..CAUSE
    },
    Signature {
        id: "cublas_alloc_failed",
        kind: "cublas_alloc",
        literals: &["CUBLAS_STATUS_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED"],
        pool: "device, cuBLAS workspace or handle; version mismatches are reported as well",
        source: "cuBLAS status, PyTorch 1.x to 2.x",
        example: "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ..CAUSE
    },
    Signature {
        id: "cublas_not_initialized",
        kind: "cublas_not_initialized",
        literals: &["CUBLAS_STATUS_NOT_INITIALIZED"],
        pool: "device or none: an index outside the vocabulary gives the same message",
        source: "cuBLAS status, PyTorch 1.x to 2.x",
        example: "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        ..CAUSE
    },
    Signature {
        id: "cudnn_alloc_failed",
        kind: "cudnn_alloc",
        literals: &[
            "CUDNN_STATUS_ALLOC_FAILED",
            "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        ],
        pool: "device, cuDNN workspace",
        source: "cuDNN status, 7 to 9",
        example: "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        ..CAUSE
    },
    Signature {
        id: "cudnn_no_engine",
        kind: "cudnn_alloc",
        weight: weight::SPECIFIC,
        literals: &[
            "was unable to find an engine to execute",
            "nable to find a valid cuDNN algorithm",
        ],
        gpu: Some(Tri::Ambiguous),
        pool: "mostly device: every algorithm wanted more workspace than was free; a card that cuDNN does not know says the same",
        source: "PyTorch aten/src/ATen/native/cudnn/Conv_v7.cpp and Conv_v8.cpp, 1.5 to 2.x",
        example: "RuntimeError: GET was unable to find an engine to execute this computation",
        ..CAUSE
    },
    Signature {
        id: "cudnn_not_initialized",
        kind: "cudnn_alloc",
        literals: &[
            "CUDNN_STATUS_NOT_INITIALIZED",
            "Could not create cudnn handle",
            "cuDNN failed to initialize",
            "DNN library initialization failed",
        ],
        gpu: Some(Tri::Ambiguous),
        pool: "mostly device: cuDNN found no memory for its handle; a broken installation says the same",
        source: "cuDNN status, 7 to 9; TensorFlow and XLA stream_executor/cuda/cuda_dnn.cc",
        example: "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        ..CAUSE
    },
    Signature {
        id: "bnb_oom",
        kind: "bnb_oom",
        literals: &["Error out of memory at line"],
        pool: "device, managed or paged memory",
        source: "bitsandbytes csrc/pythonInterface, 0.35 to 0.4x",
        example: "Error out of memory at line 380 in file /src/csrc/pythonInterface.cpp",
        ..CAUSE
    },
    Signature {
        id: "xla_oom",
        kind: "jax_oom",
        literals: &[
            "RESOURCE_EXHAUSTED: Attempting to",
            "Ran out of memory in memory space",
            "RESOURCE_EXHAUSTED: Out",
            "Resource exhausted: Out",
            "RESOURCE_EXHAUSTED: Failed to allocate request",
            "RESOURCE_EXHAUSTED: Error allocating device buffer",
            "RESOURCE_EXHAUSTED: Error loading program",
        ],
        pattern: Some(
            r"(?i:resource.exhausted): (?:Out\s*of\s*memory|Failed to allocate request|Error allocating|Error loading program|Attempting to|[^.]{0,80}\.? ?Ran out of memory)",
        ),
        wraps: true,
        pool: "device, XLA's BFC pool (a share of the card is taken at start)",
        source: "jaxlib and XLA, 2019 to 0.7",
        example: "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
        ..CAUSE
    },
    Signature {
        id: "xla_constant",
        kind: "jax_oom",
        literals: &["INTERNAL: Failed to allocate "],
        pattern: Some(r"Failed to allocate \d+ bytes for new constant"),
        phase: Some("load"),
        pool: "device, XLA's BFC pool: a constant of the compiled program",
        source: "XLA service/gpu/gpu_executable.cc, 2022 to 0.7",
        example: "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to allocate 8589934592 bytes for new constant",
        ..CAUSE
    },
    Signature {
        id: "tf_oom",
        kind: "tf_oom",
        literals: &["OOM when allocating tensor with shape"],
        unless: Some(r"device:CPU|by allocator (?:cpu|mklcpu)"),
        any_level: true,
        wraps: true,
        phase: Some("forward"),
        pool: "device, TensorFlow's BFC pool",
        source: "TensorFlow core/framework/op_kernel.cc, 1.x to 2.x",
        example: "ResourceExhaustedError: OOM when allocating tensor with shape[64,2048,7,7] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
        ..CAUSE
    },
    Signature {
        id: "tf_device_retry",
        kind: "tf_oom",
        literals: &[
            "from device: CUDA_ERROR_OUT_OF_MEMORY",
            "from device: HIP_ERROR_OutOfMemory",
            "from device: RESOURCE_EXHAUSTED",
        ],
        unless: Some(r"\bI (?:tensorflow|external|0000)"),
        handled: true,
        pool: "device: TensorFlow asks again for less",
        source: "TensorFlow stream_executor/cuda/cuda_driver.cc and rocm/rocm_driver.cc, 1.x to 2.x",
        example: "2026-03-02 10:00:00.000000: E tensorflow/stream_executor/cuda/cuda_driver.cc:936] failed to allocate 2.00G (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        ..CAUSE
    },
    Signature {
        id: "tf_bfc_ran_out",
        kind: "tf_oom",
        weight: weight::NAMED,
        literals: &["ran out of memory trying to allocate"],
        pattern: Some(r"Allocator \(GPU_\d+_bfc\)"),
        unless: Some(r"The caller indicates"),
        any_level: true,
        pool: "device, BFC pool",
        source: "TensorFlow and XLA bfc_allocator.cc, 1.x to 2.x",
        example: "W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25GiB (rounded to 1342177280)requested by op gradients/conv2d",
        ..CAUSE
    },
    Signature {
        id: "tf_no_destination",
        kind: "tf_oom",
        literals: &["Dst tensor is not initialized"],
        pool: "device: a copy found no room",
        source: "TensorFlow core/common_runtime/gpu, 1.x to 2.x",
        example: "tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized.",
        ..CAUSE
    },
    Signature {
        id: "torch_replica",
        literals: &["Error in replica "],
        pattern: Some(r"Caught \w+ in replica \d+ on device \d+"),
        pool: "none: names the copy of the model in which something failed",
        source: "PyTorch nn/parallel/parallel_apply.py and _utils.py (ExceptionWrapper), 1.1 to 2.9",
        example: "torch.OutOfMemoryError: Caught OutOfMemoryError in replica 0 on device 0.",
        ..ADVICE
    },
    Signature {
        id: "torch_replica_scalars",
        literals: &["Was asked to gather along dimension 0"],
        pool: "none: says that one process gathers what all GPUs computed",
        source: "PyTorch nn/parallel/_functions.py (Gather), 0.4 to 2.9",
        example: "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/_functions.py:70: UserWarning: Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.",
        ..ADVICE
    },
    Signature {
        id: "torch_replica_imbalance",
        literals: &["There is an imbalance between your GPUs"],
        pool: "device: GPUs of different sizes in one process",
        source: "PyTorch nn/parallel/data_parallel.py (_check_balance), 0.4 to 2.9",
        example: "    There is an imbalance between your GPUs. You may want to exclude GPU 1 which",
        ..ADVICE
    },
    Signature {
        id: "paddle_oom",
        kind: "device_oom",
        literals: &["Out of memory error on GPU"],
        pool: "device",
        source: "PaddlePaddle fluid/memory, 1.8 to 2.6",
        example: "ResourceExhaustedError: Out of memory error on GPU 1. Cannot allocate 3.000000GB memory on GPU 1, 15.500000GB memory has been allocated and available memory is only 280.000000MB.",
        ..CAUSE
    },
    Signature {
        id: "tf_exhausted",
        kind: "tf_oom",
        weight: weight::NAMED,
        literals: &["ResourceExhaustedError: ", "failed to allocate memory [Op:"],
        pattern: Some(
            r"ResourceExhaustedError: (?:Graph execution error|\{\{|failed to allocate|[A-Za-z ]* encountered when calling)|failed to allocate memory \[Op:",
        ),
        unless: Some(r"No space left|device:CPU|by allocator (?:cpu|mklcpu)"),
        pool: "device, BFC pool: the exception's name, the shape stands on a later line if at all",
        source: "TensorFlow and Keras, 2.7 to 2.x",
        example: "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__AddV2_device_/job:localhost/replica:0/task:0/device:GPU:0}} failed to allocate memory [Op:AddV2]",
        ..CAUSE
    },
];
