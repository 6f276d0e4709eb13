"""oomctl.submit and Run, against the real program with its local backend and the example's simulated trainer."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import oomctl

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "diamonds-grpo"
PROGRAM = os.environ.get("OOMCTL_PROGRAM", "")
LOCAL = ["--backend", "local", "--dataset", "diamonds-seed0"]


class Version(unittest.TestCase):
    def test_it_is_the_programs(self):
        manifest = pathlib.Path(__file__).resolve().parents[2] / "Cargo.toml"
        self.assertIn('\nversion = "{}"\n'.format(oomctl.__version__), manifest.read_text(encoding="utf-8"))


@unittest.skipUnless(PROGRAM, "needs the program: OOMCTL_PROGRAM is its path")
class ARun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "example"
        shutil.copytree(EXAMPLE, self.folder, ignore=shutil.ignore_patterns(".oomctl", "logs"))
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(SIM_START_S="0.1", SIM_STEP_S="0.05")
        os.environ.pop("OOMCTL_SITE_CONFIG", None)

    def submit(self, **more):
        return oomctl.submit(options=LOCAL, folder=self.folder, program=PROGRAM, **more)

    def test_it_is_waited_for_and_its_attempts_say_what_changed(self):
        run = self.submit()
        self.assertEqual(run.name, "diamonds-seed0-1")
        self.assertIn("diamonds-seed0-1", repr(run))
        self.assertEqual(run.wait(), "succeeded")
        self.assertEqual((run.state, run.exit_code, run.done), ("succeeded", 0, True))
        first, second, third = run.attempts
        self.assertEqual((first.number, first.state, first.kind), (1, "FAILED", "cuda_oom"))
        self.assertIn("ran out of memory in actor_update", first.headline)
        self.assertEqual(first.rungs, ["halve-batches"])
        self.assertEqual(first.changes["train_batch_size"], 512)
        self.assertEqual((second.rungs, third.state, third.rungs), (["offload"], "COMPLETED", []))
        self.assertEqual(oomctl.Run(run.name, self.folder, PROGRAM).attempts, run.attempts)

    def test_a_wait_that_takes_too_long_leaves_the_job_alone(self):
        os.environ["SIM_START_S"] = "600"
        run = self.submit()
        with self.assertRaises(subprocess.TimeoutExpired):
            run.wait(timeout_s=0.1)
        self.assertFalse(run.done)
        self.assertEqual(len(run.attempts), 1)
        run.cancel()
        self.assertEqual(run.state, "cancelled")

    def test_a_script_of_ones_own_is_submitted_with_its_arguments(self):
        script = self.folder / "job.sh"
        script.write_text('#!/bin/bash\necho "$@" > said.txt\n', encoding="utf-8")
        run = oomctl.submit(
            script, "--lr", "1e-6", options=["--backend", "local"], folder=self.folder, program=PROGRAM
        )
        self.assertEqual(run.wait(), "succeeded")
        self.assertEqual((self.folder / "said.txt").read_text(encoding="utf-8"), "--lr 1e-6\n")

    def test_what_is_refused_says_why_with_its_exit_code(self):
        with self.assertRaises(oomctl.OomctlError) as caught:
            self.submit(knobs={"train_batch_size": 7})
        self.assertEqual(caught.exception.exit_code, 5)
        self.assertIn("train_batch_size", str(caught.exception))
        with self.assertRaises(oomctl.OomctlError):
            oomctl.Run("no-such-run", self.folder, PROGRAM).state


if __name__ == "__main__":
    unittest.main()
