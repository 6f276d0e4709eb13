"""In the place of flash-attn's extension for CUDA, whose Python needs no compiler (FLASH_ATTENTION_SKIP_CUDA_BUILD): tensors as large as its own, and no values."""

import torch


def rounded(number, to):
    return -(-number // to) * to


def varlen_fwd(q, k, v, *_more):
    total, heads, _ = q.shape
    lse = torch.empty(heads, total, dtype=torch.float32, device=q.device)
    return torch.empty_like(q), lse, torch.empty(0, dtype=q.dtype, device=q.device), torch.empty(2, dtype=torch.int64, device=q.device)


def varlen_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, *_more):
    total, heads, size = q.shape
    total += 128 * (len(cu_seqlens_q) - 1)
    sums = torch.empty(heads, total, dtype=torch.float32, device=q.device)
    # While it runs: the queries' gradients in fp32, and those of keys and values once for each head.
    held = [torch.empty(total, heads, rounded(size, 32), dtype=torch.float32, device=q.device)]
    if k.shape[1] != heads:
        held += [torch.empty(k.shape[0], heads, size, dtype=k.dtype, device=k.device) for _ in range(2)]
    return dq, dk, dv, sums
