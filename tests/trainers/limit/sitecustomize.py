"""Lets PyTorch run out of memory on a machine without a GPU: Python imports this first where this folder is on PYTHONPATH.

After FORWARDS forwards that train, one of more than ROWS sequences raises what PyTorch raises, in PyTorch's words.
"""

import importlib.machinery
import os
import sys

ROWS = int(os.environ["ROWS"])
FORWARDS = int(os.environ["FORWARDS"])


class AfterTorch:
    """Puts the limit in when torch has been imported, whoever imports it."""

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def load_and_limit(module):
            sys.meta_path.remove(self)
            load(module)
            limit(module)

        spec.loader.exec_module = load_and_limit
        return spec


def limit(torch):
    forwards = 0

    def before(module, inputs):
        nonlocal forwards
        if not (isinstance(module, torch.nn.Embedding) and torch.is_grad_enabled()):
            return
        forwards += 1
        if forwards > FORWARDS and len(inputs[0]) > ROWS:
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
                "1.00 GiB is free. Including non-PyTorch memory, this process has 78.15 GiB memory in use. Of the "
                "allocated memory 76.90 GiB is allocated by PyTorch, and 270.00 MiB is reserved by PyTorch but "
                "unallocated. If reserved but unallocated memory is large try setting "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
                "Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
            )

    torch.nn.modules.module.register_module_forward_pre_hook(before)


sys.meta_path.insert(0, AfterTorch())
