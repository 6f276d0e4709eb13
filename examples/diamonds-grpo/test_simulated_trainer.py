"""Tests of the simulated trainer: python3 -m unittest, from this folder."""

import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from sim import messages, rules
from sim.memory import Memory, Model
from sim.overrides import OverrideError, compose, load_keys, parse_value
from sim.setup import read_setup
from sim.story import BANNER, Story, oom_figures
from sim.switches import SwitchError, Switches, read_switches
from sim.table import ACTOR, ROLLOUT, markdown, overrides, rows

HERE = Path(__file__).parent
HALVED = {
    "data.train_batch_size": 512,
    ACTOR + "ppo_mini_batch_size": 128,
    ACTOR + "ppo_micro_batch_size_per_gpu": 16,
}
HALVED |= {
    ROLLOUT + "log_prob_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 16,
}
ONES = {key: 1 for key in HALVED if "micro" in key}
OFFLOAD = {ACTOR + "fsdp_config.param_offload": True, ACTOR + "fsdp_config.optimizer_offload": True}
SMALL = HALVED | OFFLOAD | {"trainer.resume_mode": "disable"}


def run(changes=None, attempt=1, version="0.9.1", extra=(), **switches):
    """(exit code, stdout, stderr, seconds slept) of one run that does not really wait."""
    out, err, slept = io.StringIO(), io.StringIO(), []
    choice = Switches(verl_version=version, **switches)
    arguments = [*overrides(changes or {}), *extra]
    code = Story(arguments, choice, attempt, out, err, slept.append).run()
    return code, out.getvalue(), err.getvalue(), sum(slept)


def setup_of(changes=None, version="0.9.1"):
    return read_setup(compose(overrides(changes or {}), version), version)


class Overrides(unittest.TestCase):
    def test_values_are_read_as_hydra_reads_them(self):
        cases = {
            "1": 1,
            "0.5": 0.5,
            "1e-6": 1e-6,
            "True": True,
            "null": None,
            "'a, b'": "a, b",
            "text": "text",
        }
        cases |= {
            "[console,wandb]": ["console", "wandb"],
            '["a,b",2]': ["a,b", 2],
            "{a: 1}": {"a": 1},
            "": "",
        }
        for text, value in cases.items():
            self.assertEqual(parse_value(text), value, text)

    def test_an_unknown_key_is_refused_in_hydras_words(self):
        with self.assertRaisesRegex(
            OverrideError, r"Could not override 'data\.batch'(.|\n)*Key 'batch' is not in struct"
        ):
            compose(["data.batch=1"], "0.9.1")

    def test_plus_on_a_key_that_exists_is_refused_and_two_pluses_are_not(self):
        with self.assertRaisesRegex(OverrideError, "An item is already at 'data.train_batch_size'"):
            compose(["+data.train_batch_size=1"], "0.9.1")
        self.assertEqual(compose(["++data.train_batch_size=1", "++data.new=2"], "0.9.1").get("data.new"), 2)

    def test_a_key_exists_from_its_version_on(self):
        key = ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes"
        self.assertEqual(compose([], "0.9.1").get(key), 2048)
        with self.assertRaises(OverrideError):
            compose([key + "=512"], "0.5.0")

    def test_defaults_follow_links(self):
        config = compose([ACTOR + "use_dynamic_bsz=True"], "0.9.1")
        self.assertIs(config.get(ROLLOUT + "log_prob_use_dynamic_bsz"), True)

    def test_every_version_of_the_key_file_loads(self):
        counts = {
            version: len(load_keys(version)[0]) for version in ("0.4.0", "0.5.0", "0.7.1", "0.8.0", "0.9.1")
        }
        self.assertTrue(all(count > 140 for count in counts.values()), counts)

    def test_broken_quoting_is_refused(self):
        for broken in ("data.shuffle='x", "data.shuffle=[1", "data.shuffle", "=1"):
            with self.assertRaises(OverrideError, msg=broken):
                compose([broken], "0.9.1")


class Rules(unittest.TestCase):
    def refused(self, changes, version, text):
        code, _, err, _ = run(changes, version=version)
        self.assertEqual(code, 1)
        self.assertIn(text, err)

    def test_each_rule_refuses_one_illegal_configuration(self):
        engine = "data size must be divisible by force_group_size * micro_batch_size_per_gpu"
        mini, micro, sp = (
            ACTOR + "ppo_mini_batch_size",
            ACTOR + "ppo_micro_batch_size_per_gpu",
            ACTOR + "ulysses_sequence_parallel_size",
        )
        dynamic = {ACTOR + "use_dynamic_bsz": True, ACTOR + "ppo_max_token_len_per_gpu": 2047}
        cases = [
            (
                {"data.max_prompt_length": 9000},
                "0.6.0",
                "Enable chunked prefill, max_num_batched_tokens is smaller than",
            ),
            (
                {"data.train_batch_size": 1025},
                "0.9.1",
                "real_train_batch_size (5125) must be divisible by minimal possible",
            ),
            (
                {"data.train_batch_size": 128},
                "0.9.1",
                "ValueError: train_batch_size (128) must be >= actor.ppo_mini_batch_size (256)",
            ),
            ({"data.train_batch_size": 128}, "0.5.0", "AssertionError"),
            ({micro: "null"}, "0.9.1", "[actor] Please set at least one of"),
            ({micro: "null"}, "0.5.0", "[actor_rollout_ref.actor] Please set at least one of"),
            (
                {ROLLOUT + "log_prob_micro_batch_size_per_gpu": "null"},
                "0.9.1",
                "[actor_rollout_ref.rollout] Please set at least one",
            ),
            (
                {sp: 2, "actor_rollout_ref.model.use_remove_padding": False},
                "0.9.1",
                "you must enable `use_remove_padding`",
            ),
            (
                ONES | {mini: 2, "data.train_batch_size": 8},
                "0.9.1",
                "Got mini_batch_size=10 and self.engine.get_data_parallel_size()=4",
            ),
            ({micro: 7}, "0.9.1", engine),
            ({ROLLOUT + "log_prob_micro_batch_size_per_gpu": 7}, "0.8.0", engine),
            (
                {micro: 7},
                "0.7.1",
                "normalized ppo_mini_batch_size 320 should be divisible by ppo_micro_batch_size_per_gpu 7",
            ),
            (
                {"data.train_batch_size": 300},
                "0.8.0",
                "only support equal chunk. Got size of DataProto 1500 and chunk 8.",
            ),
            ({"data.train_batch_size": 320}, "0.8.0", "% 1280 != 0"),
            (
                {ROLLOUT + "tensor_model_parallel_size": 3},
                "0.9.1",
                "rollout world_size: 4 is not divisible by infer_world_size: 3",
            ),
            ({ROLLOUT + "mode": "sync"}, "0.9.1", "Rollout mode 'sync' has been removed"),
            ({sp: 3}, "0.9.1", "num_attention_heads 28 must be divisible by ulysses_sp_size 3"),
            (
                dynamic,
                "0.9.1",
                "max_token_len must be greater than the sequence length. Got max_token_len=2047",
            ),
            (
                {"data.max_prompt_length": 40000, ROLLOUT + "enable_chunked_prefill": False},
                "0.6.0",
                "model context length should be greater",
            ),
            ({"trainer.n_gpus_per_node": 3}, "0.9.1", "real_train_batch_size"),
        ]
        for changes, version, text in cases:
            with self.subTest(changes=changes, version=version):
                self.refused(changes, version, text)

    def test_rollout_name_is_mandatory_from_0_6(self):
        with self.assertRaisesRegex(rules.Refusal, "rollout.name"):
            config = compose([], "0.9.1")
            rules.check_driver(read_setup(config, "0.9.1"), config.get)

    def test_a_driver_refusal_costs_no_start_and_a_step_refusal_does(self):
        *_, driver = run({"data.train_batch_size": 1025})
        *_, step = run({ACTOR + "ppo_micro_batch_size_per_gpu": 7})
        self.assertEqual(driver, 0)
        self.assertGreater(step, 2)

    def test_the_start_and_its_first_rung_are_legal_on_every_version(self):
        for version in ("0.4.0", "0.5.0", "0.6.0", "0.7.1", "0.8.0", "0.9.1"):
            code, _, err, _ = run(SMALL, version=version, extra=[f"{ROLLOUT}name=vllm"], steps=1)
            self.assertEqual(code, 0, f"{version}: {err[-300:]}")


class MemoryModel(unittest.TestCase):
    def test_the_model_has_the_published_number_of_parameters(self):
        self.assertEqual(Model().parameters, 7_615_616_512)

    def test_the_case_of_the_story_needs_about_100_gib(self):
        need = Memory(setup_of(), 79.18).actor_update()
        self.assertAlmostEqual(need.total_gib, 100, delta=2)

    def test_the_ladder_fits_on_the_third_attempt_and_stays_there(self):
        verdicts = [all(gib <= 79.18 for gib in needs.values()) for _, needs, _, _ in rows("0.9.1", 79.18)]
        self.assertEqual(verdicts, [False, False, True, True, True, True, True])

    def test_offload_frees_the_wake_up_and_not_the_update(self):
        before, after = Memory(setup_of(HALVED), 79.18), Memory(setup_of(HALVED | OFFLOAD), 79.18)
        self.assertEqual(before.actor_update(), after.actor_update())
        self.assertLess(after.wake_up().total_gib, before.wake_up().total_gib - 20)

    def test_offload_moves_the_states_to_the_host(self):
        moved = Memory(setup_of(OFFLOAD), 79.18).host_gib() - Memory(setup_of(), 79.18).host_gib()
        self.assertAlmostEqual(moved, 12 * Model().parameters / 2**30)

    def test_utilization_does_not_touch_the_update_while_the_engine_sleeps(self):
        lower = {ROLLOUT + "gpu_memory_utilization": 0.4}
        self.assertEqual(
            Memory(setup_of(), 79.18).actor_update(), Memory(setup_of(lower), 79.18).actor_update()
        )
        awake = {ROLLOUT + "free_cache_engine": False}
        high, low = Memory(setup_of(awake), 79.18), Memory(setup_of(awake | lower), 79.18)
        self.assertGreater(high.actor_update().total_gib, low.actor_update().total_gib + 15)

    def test_train_and_mini_batch_free_nothing(self):
        smaller = {"data.train_batch_size": 512, ACTOR + "ppo_mini_batch_size": 128}
        self.assertEqual(Memory(setup_of(), 79.18).phases(), Memory(setup_of(smaller), 79.18).phases())

    def test_every_other_knob_moves_the_update_the_right_way(self):
        base = Memory(setup_of(), 79.18).actor_update().total_gib
        less = [
            {"trainer.n_gpus_per_node": 8},
            {"data.max_response_length": 512},
            {ACTOR + "ulysses_sequence_parallel_size": 2},
            {ACTOR + "fsdp_config.model_dtype": "bfloat16"},
            {"actor_rollout_ref.model.use_fused_kernels": True},
            {"actor_rollout_ref.model.enable_activation_offload": True},
            {ACTOR + "entropy_from_logits_with_chunking": True},
            {ACTOR + "use_dynamic_bsz": True, ACTOR + "ppo_max_token_len_per_gpu": 4096},
        ]
        for changes in less:
            self.assertLess(Memory(setup_of(changes), 79.18).actor_update().total_gib, base, changes)
        for changes in (
            {"actor_rollout_ref.model.enable_gradient_checkpointing": False},
            {"actor_rollout_ref.model.use_remove_padding": False},
        ):
            self.assertGreater(Memory(setup_of(changes), 79.18).actor_update().total_gib, base, changes)

    def test_0_8_ignores_chunked_entropy_under_actor(self):
        changes = {ACTOR + "entropy_from_logits_with_chunking": True}
        self.assertFalse(setup_of(changes, "0.8.0").actor_chunked_entropy)
        self.assertTrue(setup_of(changes, "0.7.1").actor_chunked_entropy)

    def test_the_figures_of_a_message_add_up(self):
        memory = Memory(setup_of(), 79.18)
        figures = oom_figures(memory.actor_update(), memory)
        self.assertLess(figures.free, figures.requested)
        whole = figures.free + figures.in_use + sum(gib for _, gib in figures.others)
        self.assertAlmostEqual(whole, figures.total)
        self.assertLessEqual(
            figures.allocated + figures.requested, memory.actor_update().allocated_gib + 0.01
        )


class Messages(unittest.TestCase):
    def setUp(self):
        memory = Memory(setup_of(), 79.18)
        self.figures = oom_figures(memory.actor_update(), memory)

    def test_generations_of_pytorchs_message(self):
        old = messages.oom_text((1, 13), self.figures, 0)
        self.assertRegex(
            old,
            r"Tried to allocate [\d.]+ GiB \(GPU 0; 79\.18 GiB total capacity; [\d.]+ GiB already allocated; ",
        )
        new = messages.oom_text((2, 6), self.figures, 0)
        self.assertRegex(
            new,
            r"GPU 0 has a total capacity of 79\.18 GiB of which [\d.]+ GiB is free\. Process \d+ has 3\.00 GiB memory in use\. Including non-PyTorch memory, this process has [\d.]+ GiB",
        )
        self.assertIn("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", new)
        self.assertIn(
            "PYTORCH_ALLOC_CONF=expandable_segments:True", messages.oom_text((2, 10), self.figures, 0)
        )

    def test_class_names_follow_the_generation(self):
        names = [messages.oom_class(torch) for torch in ((1, 12), (2, 4), (2, 6))]
        self.assertEqual(names, ["RuntimeError", "torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"])

    def test_small_sizes_are_in_mib(self):
        self.assertEqual([messages.size(0.5), messages.size(1.0)], ["512.00 MiB", "1.00 GiB"])

    def test_the_progress_bar_is_tqdms(self):
        self.assertEqual(
            messages.progress_bar(1, 60, 1.19),
            "Training Progress:   2%|▏         | 1/60 [00:01<01:10,  1.19s/it]",
        )
        self.assertEqual(
            messages.progress_bar(0, 60, 0.0), "Training Progress:   0%|          | 0/60 [00:00<?, ?it/s]"
        )
        self.assertEqual(
            messages.progress_bar(60, 60, 30.0),
            "Training Progress: 100%|██████████| 60/60 [00:30<00:00,  2.00it/s]",
        )


class Runs(unittest.TestCase):
    def test_the_first_line_says_that_it_is_simulated(self):
        _, _, err, _ = run()
        self.assertEqual(err.splitlines()[0], BANNER)

    def test_the_first_attempt_dies_of_an_oom_in_the_actor_update(self):
        code, out, err, seconds = run()
        self.assertEqual(code, 1)
        self.assertIn("ray::WorkerDict.actor_rollout_ref_update_actor()", err)
        self.assertIn("\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate ", err)
        self.assertNotIn("step:1 ", out)
        self.assertLess(seconds, 5)

    def test_an_error_begins_a_line_also_after_a_progress_bar(self):
        for line in run()[2].split("\n"):
            self.assertFalse("Training Progress" in line and "rror" in line, line)

    def test_the_second_attempt_dies_when_vllm_wakes_up(self):
        code, out, err, _ = run(HALVED)
        self.assertEqual(code, 1)
        self.assertIn("CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp", err)
        self.assertIn('self.rollout.resume(tags=["kv_cache"])', err)
        self.assertNotIn("step:1 ", out)

    def test_the_third_attempt_trains_to_the_end_in_time(self):
        code, out, err, seconds = run(SMALL)
        self.assertEqual(code, 0)
        self.assertIn("step:12 - global_seqlen/mean:", out)
        self.assertRegex(out, r"perf/max_memory_allocated_gb:[\d.]+ - perf/max_memory_reserved_gb:[\d.]+")
        self.assertIn("\r", err)
        self.assertIn("12/12", err)
        self.assertEqual(err.splitlines()[-1], "[simulated trainer] trained to the end")
        self.assertLess(seconds, 15)

    def test_frames_follow_the_worker_generation(self):
        for version, frame in (
            ("0.9.1", "engine_workers.py"),
            ("0.7.1", "fsdp_workers.py"),
            ("0.5.0", "dp_actor.py"),
        ):
            _, _, err, _ = run(version=version)
            self.assertIn(frame, err, version)

    def test_a_late_oom_strikes_at_its_step_and_only_on_its_attempts(self):
        code, out, err, _ = run(SMALL, oom_at_step=7)
        self.assertEqual(code, 1)
        self.assertIn("step:6 ", out)
        self.assertNotIn("step:7 ", out)
        self.assertIn("CUDA out of memory", err)
        switches = read_switches({"SIM_OOM_AT_STEP": "7", "SIM_ONLY_ATTEMPTS": "1"}, attempt=2)
        self.assertEqual(switches.oom_at_step, 0)

    def test_a_survived_oom_is_printed_and_the_run_ends_well(self):
        code, _, err, _ = run(SMALL, survived_oom=True)
        self.assertEqual(code, 0)
        self.assertIn("caught an OOM", err)
        self.assertIn("CUDA out of memory. Tried to allocate", err)

    def test_another_failure_names_no_memory(self):
        code, _, err, _ = run(SMALL, fail_at_step=2)
        self.assertEqual(code, 1)
        self.assertIn("KeyError: 'old_log_probs'", err)
        self.assertNotIn("out of memory", err)

    def test_a_hang_prints_the_oom_first_and_then_waits(self):
        code, _, err, seconds = run(hang_s=600.0)
        self.assertEqual(code, 1)
        self.assertGreater(seconds, 600)
        self.assertLess(
            err.index("CUDA out of memory"), err.index("Watchdog caught collective operation timeout")
        )

    def test_nccl_noise_is_decided_by_seed_and_attempt(self):
        noisy = ["Connection closed by remote peer" in run(attempt=attempt)[2] for attempt in range(1, 21)]
        again = ["Connection closed by remote peer" in run(attempt=attempt)[2] for attempt in range(1, 21)]
        self.assertEqual(noisy, again)
        self.assertEqual({True, False}, set(noisy))
        self.assertNotIn("Connection closed", run(nccl_noise="0")[2])

    def test_vllm_asks_for_a_larger_share_when_its_own_is_too_small(self):
        _, _, err, _ = run({ROLLOUT + "gpu_memory_utilization": 0.1})
        self.assertIn(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", err
        )

    def test_without_max_model_len_vllm_wants_the_models_own_length(self):
        changes = {ROLLOUT + "max_model_len": "null", ROLLOUT + "gpu_memory_utilization": 0.16}
        self.assertIn("max seq len (32768)", run(changes)[2])
        self.assertEqual(run(changes | SMALL | {ROLLOUT + "max_model_len": 2048})[0], 0)

    def test_a_foreign_process_is_named_on_the_card(self):
        _, _, err, _ = run(foreign_gib=20.0)
        self.assertIn("Process 31337 has 20.00 GiB memory in use", err)

    def test_too_few_gpus_are_refused_in_verls_words(self):
        _, _, err, _ = run(gpus=2)
        self.assertIn("ValueError: Total available GPUs 2 is less than total desired GPUs 4", err)

    def test_host_oom_needs_a_limit_to_aim_at(self):
        _, _, err, _ = run(SMALL, host_oom=True)
        self.assertIn("SIM_HOST_OOM_MIB", err)

    def test_host_oom_really_takes_memory_and_prints_nothing_of_slurms(self):
        code, _, err, _ = run(SMALL, host_oom=True, host_oom_mib=32)
        self.assertEqual(code, 1)
        self.assertIn("took 32 MiB of host memory", err)
        self.assertNotIn("slurmstepd", err)

    def test_a_checkpoint_resumes_on_the_same_gpus_and_not_on_others(self):
        with tempfile.TemporaryDirectory() as folder:
            keep = SMALL | {
                "trainer.save_freq": 4,
                "trainer.default_local_dir": folder,
                "trainer.resume_mode": "auto",
            }
            self.assertEqual(run(keep, oom_at_step=7)[0], 1)
            code, out, _, _ = run(keep)
            self.assertEqual(code, 0)
            self.assertIn("Setting global step to 4", out)
            self.assertNotIn("step:4 ", out)
            _, _, err, _ = run(keep | {"trainer.n_gpus_per_node": 8})
            self.assertIn("FileNotFoundError", err)
            self.assertIn("model_world_size_8_rank_0.pt", err)

    def test_an_unknown_or_malformed_switch_is_an_error(self):
        for wrong in ({"SIM_TYPO": "1"}, {"SIM_STEPS": "many"}):
            with self.assertRaises(SwitchError):
                read_switches(wrong, 1)

    def test_the_readme_shows_the_table_that_the_formulas_give(self):
        self.assertIn(markdown("0.9.1", 79.18), (HERE / "README.md").read_text(encoding="utf-8"))

    def test_the_readme_names_every_switch(self):
        readme = (HERE / "README.md").read_text(encoding="utf-8")
        for name in Switches.__dataclass_fields__:
            self.assertIn(f"`SIM_{name.upper()}`", readme)


class Program(unittest.TestCase):
    """The real process, and the simulated ray beside it."""

    def call(self, *command, **environ):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("SIM_", "OOMCTL_"))}
        return subprocess.run(
            command, cwd=HERE, env=clean | environ, capture_output=True, text=True, timeout=60
        )

    def trainer(self, changes, **environ):
        return self.call(
            sys.executable,
            "simulated_trainer.py",
            *overrides(changes),
            SIM_STEP_S="0",
            SIM_START_S="0",
            **environ,
        )

    def test_exit_codes_of_the_process(self):
        self.assertEqual(self.trainer(SMALL).returncode, 0)
        self.assertEqual(self.trainer({}).returncode, 1)
        self.assertEqual(self.trainer({}, SIM_TYPO="1").returncode, 2)

    def test_ray_nodes_meet_and_the_trainer_counts_their_gpus(self):
        two_nodes = SMALL | {"trainer.nnodes": 2}
        ray = str(HERE / "bin" / "ray")
        with tempfile.TemporaryDirectory() as folder:
            place = {"OOMCTL_ATTEMPT_DIR": folder, "PATH": f"{HERE / 'bin'}:{os.environ['PATH']}"}
            self.assertEqual(self.call(ray, "status", **place).returncode, 1)
            self.call(
                ray, "start", "--head", "--port", "6380", "--num-gpus", "4", "--num-cpus", "16", **place
            )
            self.assertIn(
                "Total available GPUs 4 is less than total desired GPUs 8",
                self.trainer(two_nodes, **place).stderr,
            )
            self.call(
                ray, "start", "--address", "10.0.0.1:6380", "--num-gpus", "4", "--num-cpus", "16", **place
            )
            shown = self.call(ray, "status", **place).stdout
            self.assertEqual(len(re.findall(r"^ 1 node_[0-9a-f]{56}$", shown, re.MULTILINE)), 2)
            self.assertIn("\n 0.0/8.0 GPU\n", shown)
            self.assertEqual(self.trainer(two_nodes, **place).returncode, 0)
            self.assertIn("Stopped all 2 Ray processes", self.call(ray, "stop", **place).stdout)

    def test_a_blocking_node_leaves_when_ray_stops(self):
        ray = str(HERE / "bin" / "ray")
        with tempfile.TemporaryDirectory() as folder:
            place = os.environ | {"OOMCTL_ATTEMPT_DIR": folder}
            head = subprocess.Popen(
                [ray, "start", "--head", "--num-gpus", "2", "--block"],
                env=place,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.assertTrue(any("block forever" in line for line in head.stdout), "the head ended early")
            self.assertIn("0.0/2.0 GPU", self.call(ray, "status", OOMCTL_ATTEMPT_DIR=folder).stdout)
            self.call(ray, "stop", OOMCTL_ATTEMPT_DIR=folder)
            self.assertEqual(head.wait(timeout=10), 0)
            head.stdout.close()

    def test_a_worker_without_a_head_gives_up(self):
        with tempfile.TemporaryDirectory() as folder:
            place = {"OOMCTL_ATTEMPT_DIR": folder, "SIM_RAY_JOIN_S": "0"}
            done = self.call(str(HERE / "bin" / "ray"), "start", "--address", "10.0.0.1:6379", **place)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Failed to connect to GCS", done.stderr)


if __name__ == "__main__":
    unittest.main()
