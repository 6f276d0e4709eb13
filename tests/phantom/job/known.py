"""Whole numbers keep their values on a phantom GPU, whose kernels do nothing, so that a length that is read back would be zero.

While `Known` is active, a small tensor of whole numbers or truth values that comes from the host has a twin there. What is done to such tensors alone
is done to their twins too, and who reads such a tensor is told the twin's values.
"""

import functools

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

MOST = 1 << 20
aten = torch.ops.aten
READS = (aten._local_scalar_dense.default, aten.equal.default)
# How large their results are is a matter of values.
SIZED_BY_VALUES = (aten.nonzero.default, aten.repeat_interleave.Tensor, aten.masked_select.default, aten.index.Tensor)


def small(tensor):
    return not (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() <= MOST


def twin(tensor):
    """What holds its values: itself on the host, None where nobody knows them."""
    if not small(tensor):
        return None
    return getattr(tensor, "twin", None) if tensor.is_cuda else tensor


def places(index):
    """A condition as the places where it is true, which are as many as there really are."""
    if index is None or index.dtype != torch.bool or twin(index) is None:
        return [index]
    return [place.to(index.device) for place in twin(index).nonzero(as_tuple=True)]


class Known(TorchDispatchMode):
    def __enter__(self):
        # `torch.tensor` makes its tensor on the host first, and then the copy is seen.
        torch._C._set_only_lift_cpu_tensors(True)
        return super().__enter__()

    def __exit__(self, *error):
        torch._C._set_only_lift_cpu_tensors(False)
        super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if NestedTensor in types:
            # Its parts come here one by one.
            return NotImplemented
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        devices = {tensor.device.type for tensor in tensors} | {torch.device(kwargs.get("device") or "cpu").type}
        if types or func.namespace != "aten" or "cuda" not in devices:
            return func(*args, **kwargs)
        if func is aten.copy_.default and not args[0].is_cuda and twin(args[1]) is not None:
            return args[0].copy_(twin(args[1]))
        if any(twin(tensor) is None for tensor in tensors):
            if func is aten.index.Tensor:
                args = (args[0], [place for index in args[1] for place in places(index)])
            if func._schema.is_mutable and hasattr(args[0], "twin"):
                del args[0].twin
            return func(*args, **kwargs)
        words, options = tree_map_only(torch.Tensor, twin, (args, kwargs))
        to_host = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu"
        on_host = functools.partial(func, *words, **{**options, **({"device": "cpu"} if "device" in options else {})})
        if func in READS or to_host:
            return on_host()
        if func in SIZED_BY_VALUES:
            values = on_host()
            done = torch.empty_like(values, device="cuda")
        else:
            done = func(*args, **kwargs)
            if not all(isinstance(result, torch.Tensor) and small(result) for result in tree_leaves(done)):
                return done
            values = on_host()
        for result, of in zip(tree_leaves(done), tree_leaves(values)):
            result.twin = of
        return done


def aside(function):
    """The function as it runs without `Known`: beside one, torch.compile compiles nothing."""

    def run(*args, **kwargs):
        with _disable_current_modes():
            return function(*args, **kwargs)

    return run
