"""The code of the README runs, on the stand-in for PyTorch."""

import contextlib
import io
import logging
import os
import pathlib
import re
import types
import unittest
from unittest import mock

from oomctl import devices
from tests import standin

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


class Loss:
    """Holds the activations until its backward pass."""

    def __init__(self, activations):
        self.activations = activations

    def __mul__(self, factor):
        return self

    __truediv__ = __mul__

    def backward(self):
        self.activations = []


class Model:
    """Each sample takes a MiB."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.passes = []

    def __call__(self, part):
        loss = Loss([self.gpu.empty(1) for _ in part])
        self.passes.append(len(part))
        return loss

    def no_sync(self):
        return contextlib.nullcontext()

    def parameters(self):
        return [types.SimpleNamespace(grad=None)]


class Readme(unittest.TestCase):
    def test_every_block_does_what_its_text_says(self):
        logging.getLogger("oomctl").setLevel(logging.ERROR)
        gpu = standin.Gpu(capacity=40)
        model = Model(gpu)
        steps, trained = [], []

        def train_step(model, optimizer, batch_size, accumulation_steps):
            activations = [gpu.empty(1) for _ in range(batch_size)]
            trained.append((len(activations), accumulation_steps))

        def train_on(dataset, batch_size, accumulation_steps):
            train_step(None, None, batch_size, accumulation_steps)

        names = {
            "model": model,
            "ddp": model,
            "optimizer": types.SimpleNamespace(zero_grad=lambda: None, step=lambda: steps.append(1)),
            "loader": [list(range(128)) for _ in range(3)],
            "make_model": lambda device: (model, None),
            "train_step": train_step,
            "train_on": train_on,
            "dist": types.SimpleNamespace(
                all_reduce=lambda grad, op: None, ReduceOp=types.SimpleNamespace(AVG=None)
            ),
        }
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        # The first starts the program: test_program does so.
        submitting, *blocks = blocks
        self.assertIn("oomctl.submit(", submitting)
        compile(submitting, str(README), "exec")
        self.assertEqual(len(blocks), 5)
        printed = io.StringIO()
        gpus = [devices._Gpu("GPU-{}".format(free), "H100", free << 30) for free in (5, 9, 70)]
        driver = mock.patch.object(devices, "_gpus", lambda: gpus)
        alone = mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0,1,2"})
        with standin.torch(gpu), driver, alone, contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(compile(block, str(README), "exec"), names)
        self.assertEqual(names["device"], "cuda:2")
        self.assertEqual(len(steps), 4)
        # One step of 128, twice too much, then 32 at a time.
        self.assertEqual(model.passes, [32] * 16)
        self.assertEqual((names["batch_size"], names["accumulation_steps"]), (32, 4))
        self.assertEqual(trained, [(32, 4)] * 10 + [(32, 2)])
        self.assertIn("GiB at most", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
