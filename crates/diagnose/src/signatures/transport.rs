//! What connects processes: collectives, rendezvous, the network.

use super::row::{CONSEQUENCE, Role, SPECIFIC, Signature, weight};

const NETWORK: Signature = Signature {
    kind: "network",
    weight: weight::NETWORK,
    ..SPECIFIC
};

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "nccl_watchdog",
        kind: "nccl_timeout",
        role: Role::Consequence,
        weight: weight::SCHEDULER,
        literals: &[
            "Watchdog caught collective",
            "Timeout at NCCL work",
            "Heartbeat monitor timed out",
            "due to a collective timeout",
            "watchdog got stuck for",
        ],
        any_level: true,
        source: "PyTorch ProcessGroupNCCL.cpp, 1.8 to 2.9",
        example: "[rank1]:[E302 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
        ..SPECIFIC
    },
    Signature {
        id: "nccl_failed_or_timed_out",
        kind: "nccl_timeout",
        weight: weight::NETWORK,
        literals: &["NCCL operations have failed or timed out"],
        phase: Some("nccl"),
        retry: Some(true),
        source: "PyTorch ProcessGroupNCCL.cpp, 1.9 to 2.x: behind the watchdog's own words",
        example: "[E ProcessGroupNCCL.cpp:414] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        ..CONSEQUENCE
    },
    Signature {
        id: "nccl_cuda_error",
        weight: weight::NETWORK,
        literals: &[
            "unhandled cuda error",
            "ncclUnhandledCudaError",
            "NCCL WARN Cuda failure",
        ],
        unless: Some(r"out of memory|illegal memory access|ECC"),
        phase: Some("nccl"),
        source: "NCCL 2.x: a CUDA call failed inside it, mostly for a reason that stands elsewhere",
        example: "ncclUnhandledCudaError: Call to CUDA function failed.",
        ..CONSEQUENCE
    },
    Signature {
        id: "gloo_timeout",
        kind: "nccl_timeout",
        literals: &[
            "Timed out waiting",
            "Socket Timeout",
            "wait timeout after",
            "Timed out initializing process group",
            " seconds waiting for clients",
        ],
        pattern: Some(r"gloo|process group|[Ss]tore|recvValue|c10d|waiting for clients"),
        source: "PyTorch gloo and TCPStore, 1.8 to 2.9",
        example: "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
        ..NETWORK
    },
    Signature {
        id: "network_address_in_use",
        weight: weight::SPECIFIC,
        literals: &["ddress already in use", "EADDRINUSE"],
        source: "torch.distributed TCPStore, Ray, vLLM: port taken",
        example: "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ..NETWORK
    },
    Signature {
        id: "rendezvous_failed",
        weight: weight::EXCEPTION + 1,
        literals: &[
            "client socket has timed out after",
            "failed to connect to any network address",
            "connection to the C10d store has failed",
        ],
        source: "PyTorch torch/csrc/distributed/c10d/socket.cpp and torchrun's rendezvous, 1.9 to 2.x",
        example: "[E socket.cpp:793] [c10d] The client socket has timed out after 1800s while trying to connect to (192.0.2.7, 43771).",
        ..NETWORK
    },
    Signature {
        id: "network_unreachable",
        weight: weight::EXCEPTION + 1,
        literals: &[
            "Max retries exceeded with url",
            "couldn't connect to 'https://",
            "Connection error, and we cannot find the requested files",
            "Temporary failure in name resolution",
            "Name or service not known",
            "LocalEntryNotFoundError",
            "Could not resolve host",
            "Network is unreachable",
            "No route to host",
        ],
        phase: Some("load"),
        source: "requests, huggingface_hub, curl, git; EHOSTUNREACH and ENETUNREACH",
        example: "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /api/models/x (Caused by NewConnectionError)",
        ..NETWORK
    },
    Signature {
        id: "network_connection",
        weight: weight::CONSEQUENCE + 1,
        literals: &[
            "Connection refused",
            "Connection timed out",
            "Connection reset by peer",
            "Connection closed by peer [",
            "NET/IB : Got completion",
            "NCCL WARN Net : ",
        ],
        source: "ECONNREFUSED, ETIMEDOUT, ECONNRESET; NCCL 2.x transport/net_ib.cc: often the peer has died of something else",
        example: "gpu07:4711:4790 [2] misc/socket.cc:456 NCCL WARN socketStartConnect: Connect to 192.0.2.7<40223> failed : Connection refused",
        ..NETWORK
    },
    Signature {
        id: "network_tracker",
        weight: weight::EXCEPTION + 1,
        literals: &["Connection to wandb service failed"],
        source: "wandb sdk, 0.13 to 0.2x: the tracker's own process is gone",
        example: "wandb.sdk.wandb_manager.ManagerConnectionRefusedError: Connection to wandb service failed since the process is not available.",
        ..NETWORK
    },
    Signature {
        id: "network_retry",
        literals: &["entering retry loop"],
        handled: true,
        source: "wandb sdk, 0.10 to 0.2x: the tracker waits, training may go on",
        example: "wandb: Network error (ConnectTimeout), entering retry loop.",
        ..NETWORK
    },
    Signature {
        id: "nccl_system_error",
        kind: "network",
        weight: weight::NETWORK,
        literals: &[
            "ncclSystemError",
            "ncclRemoteError",
            "Connection closed by remote peer",
            "unhandled system error",
        ],
        phase: Some("nccl"),
        retry: Some(true),
        source: "NCCL 2.x through PyTorch: the peer's own error is the cause",
        example: "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        ..CONSEQUENCE
    },
    Signature {
        id: "nccl_connection_closed",
        literals: &[
            "Connection closed by localRank",
            "NCCL communicator was aborted",
            "Exception (either an error or timeout) detected by watchdog",
            "remote process exited or there was a network error",
        ],
        kind: "network",
        phase: Some("nccl"),
        retry: Some(true),
        source: "NCCL 2.x, PyTorch ProcessGroupNCCL.cpp",
        example: "gpu07:4711:4790 [2] NCCL INFO [Service thread] Connection closed by localRank 2",
        ..CONSEQUENCE
    },
];
