import unittest

import oomctl
from tests import standin


def setUpModule():
    import logging

    logging.getLogger("oomctl").setLevel(logging.ERROR)


class SmallerBatches(unittest.TestCase):
    def sizes(self, first, least):
        handler = oomctl.OOMHandler(first, least)
        batches = [handler.batch]
        while handler.reduce():
            batches.append(handler.batch)
        return [tuple(batch) for batch in batches]

    def test_halving_keeps_the_samples_of_a_step(self):
        self.assertEqual(
            self.sizes(128, 4), [(128, 1), (64, 2), (32, 4), (16, 8), (8, 16), (4, 32)]
        )
        self.assertEqual(self.sizes(96, 20), [(96, 1), (48, 2), (24, 4), (20, 5)])

    def test_a_divisor_near_the_half_is_taken(self):
        self.assertEqual(
            self.sizes(100, 5), [(100, 1), (50, 2), (25, 4), (10, 10), (5, 20)]
        )

    def test_a_prime_is_halved_and_its_last_pass_is_smaller(self):
        handler = oomctl.OOMHandler(7, 2)
        self.assertTrue(handler.reduce())
        self.assertEqual(handler.batch, (3, 3))
        self.assertEqual(list(handler.split([1, 2, 3, 4, 5, 6, 7])), [[1, 2, 3], [4, 5, 6], [7]])

    def test_bounds_that_contradict_are_refused(self):
        for first, least in [(4, 8), (8, 0), (0, 0)]:
            with self.assertRaisesRegex(ValueError, "between 1 and initial_batch_size"):
                oomctl.OOMHandler(first, least)


    def test_a_handler_shows_its_batch(self):
        self.assertEqual(
            repr(oomctl.OOMHandler(8)),
            "OOMHandler(batch_size=8, accumulation_steps=1, min_batch_size=1, retries=0)",
        )

    def test_batches_go_down_to_one_by_default(self):
        self.assertEqual(oomctl.OOMHandler(2).batch, (2, 1))
        handler = oomctl.OOMHandler(2)
        self.assertTrue(handler.reduce())
        self.assertEqual(handler.batch, (1, 2))
        self.assertFalse(handler.reduce())
        self.assertEqual(oomctl.OOMHandler(1).batch, (1, 1))


class OnAFullGpu(unittest.TestCase):
    def setUp(self):
        self.gpu = standin.Gpu(capacity=40)
        stand_in = standin.torch(self.gpu)
        stand_in.__enter__()
        self.addCleanup(stand_in.__exit__, None, None, None)

    def step(self, batch):
        activations = []
        for _ in range(batch.size):
            activations.append(self.gpu.empty(1))
        return batch.size, batch.accumulation_steps, len(activations)

    def test_the_largest_batch_that_fits_is_found_and_kept(self):
        handler = oomctl.OOMHandler(initial_batch_size=128, min_batch_size=4)
        self.assertEqual(handler.run(self.step), (32, 4, 32))
        self.assertEqual(handler.run(self.step), (32, 4, 32))
        self.assertEqual(handler.retries, 2)
        self.assertEqual(self.gpu.emptied, 2)

    def test_tensors_of_the_failed_attempt_are_gone_before_the_next(self):
        alive = []

        def step(batch):
            alive.append(self.gpu.allocated)
            return self.step(batch)

        oomctl.OOMHandler(64, 4).run(step)
        self.assertEqual(alive, [0, 0])

    def test_an_error_that_the_program_keeps_does_not_keep_the_tensors(self):
        kept, alive = [], []

        def step(batch):
            alive.append(self.gpu.allocated)
            try:
                return self.step(batch)
            except standin.OutOfMemoryError as error:
                kept.append(error)
                raise

        oomctl.OOMHandler(64, 4).run(step)
        self.assertEqual((len(kept), alive), (1, [0, 0]))

    def test_tensors_are_let_go_along_a_chain_of_errors(self):
        def step(batch):
            tensors = [self.gpu.empty(30)]
            try:
                raise KeyError("caught on the way")
            except KeyError:
                tensors.append(self.gpu.empty(batch.size))
            return len(tensors)

        self.assertEqual(oomctl.OOMHandler(16, 4).run(step), 2)

    def test_the_out_of_memory_itself_comes_out_when_nothing_fits(self):
        handler = oomctl.OOMHandler(initial_batch_size=128, min_batch_size=64)
        with self.assertRaisesRegex(standin.OutOfMemoryError, "CUDA out of memory"):
            handler.run(self.step)
        self.assertEqual(handler.batch_size, 64)
        self.assertEqual(self.gpu.allocated, 0)

    def test_other_errors_are_not_retried(self):
        calls = []

        def step(batch):
            calls.append(batch.size)
            raise KeyError("no such column")

        with self.assertRaises(KeyError):
            oomctl.OOMHandler(128, 4).run(step)
        self.assertEqual(calls, [128])

    def test_training_is_told_batch_and_accumulation(self):
        def train(batch_size, accumulation_steps):
            self.step(oomctl.Batch(batch_size, accumulation_steps))
            return "trained"

        trained = oomctl.adaptive_batch_training(train, initial_batch_size=128)
        self.assertEqual(trained, ("trained", 32, 4))
        alone = oomctl.adaptive_batch_training(lambda size: self.step(oomctl.Batch(size, 1)))
        self.assertEqual((alone.batch_size, alone.accumulation_steps), (32, 4))

    def test_the_decorator_halves_a_batch_size_and_doubles_accumulation(self):
        calls = []

        @oomctl.retry_on_oom(max_retries=3)
        def train(rate, batch_size=128, accumulation_steps=2):
            """Trains."""
            calls.append((rate, batch_size, accumulation_steps))
            return self.step(oomctl.Batch(batch_size, accumulation_steps))

        self.assertEqual(train(0.1), (32, 8, 32))
        self.assertEqual(calls, [(0.1, 128, 2), (0.1, 64, 4), (0.1, 32, 8)])
        self.assertEqual((train.__name__, train.__doc__), ("train", "Trains."))

    def test_the_decorator_needs_no_parentheses(self):
        @oomctl.retry_on_oom
        def train(batch_size=64):
            """Trains."""
            return self.step(oomctl.Batch(batch_size, 1))

        self.assertEqual(train(), (32, 1, 32))
        self.assertEqual((train.__name__, train.__doc__), ("train", "Trains."))

    def test_the_decorator_gives_up_after_its_retries(self):
        calls = []

        @oomctl.retry_on_oom(max_retries=3)
        def evaluate():
            calls.append(self.gpu.emptied)
            self.gpu.empty(41)

        with self.assertRaises(standin.OutOfMemoryError):
            evaluate()
        self.assertEqual(calls, [0, 1, 2, 3])

    def test_the_summary_counts_live_reserved_and_peak(self):
        kept = self.gpu.empty(30)
        self.gpu.empty(10)
        told = oomctl.memory_summary()
        self.assertEqual(told, [("cuda:0", 30, 40, 40)])
        oomctl.release_memory()
        self.assertEqual(oomctl.memory_summary()[0].reserved, kept.size)

    def test_the_summary_is_said_in_gib(self):
        memory = oomctl.DeviceMemory("cuda:1", 3 << 29, 2 << 30, 7 << 28)
        self.assertEqual(
            str(memory), "cuda:1: 1.50 GiB allocated, 2.00 GiB reserved, 1.75 GiB at most"
        )


class WithoutTorch(unittest.TestCase):
    def test_everything_works_and_nothing_is_known(self):
        self.assertEqual(oomctl.OOMHandler(8, 4).run(lambda batch: batch.size), 8)
        self.assertEqual(oomctl.memory_summary(), [])
        oomctl.release_memory()

    def test_an_error_in_the_words_of_another_library_is_known(self):
        handler = oomctl.OOMHandler(8, 4)

        def step(batch):
            if batch.size == 8:
                raise RuntimeError("CUDA error: out of memory")
            return batch.size

        self.assertEqual(handler.run(step), 4)


if __name__ == "__main__":
    unittest.main()
