"""One illegal configuration per rule must fail, legal ones must pass, and verl must say each rule.

Run by `tests/stories/verl_legality.rs`, or by hand: `python test_legal.py` in the environment of `setup`.
"""

import unittest

from composed import FOLDER, composed, config, package
from legal import RULES, at, broken

VERSIONS = sorted((p.name for p in FOLDER.iterdir() if (p / "ready").exists() and p.name[0].isdigit()), key=at)
A = "actor_rollout_ref."


def base(version):
    """A configuration that every version takes: 8 GPUs, 1024 x 5 samples."""
    words = [
        "data.train_batch_size=1024",
        "data.max_prompt_length=1024",
        "data.max_response_length=1024",
        A + "actor.ppo_mini_batch_size=256",
        A + "actor.ppo_micro_batch_size_per_gpu=8",
        A + "actor.use_kl_loss=True",
        A + "ref.log_prob_micro_batch_size_per_gpu=8",
        A + "rollout.log_prob_micro_batch_size_per_gpu=8",
        A + "rollout.name=vllm",
        A + "rollout.n=5",
        A + "rollout.enforce_eager=True",
        A + "rollout.tensor_model_parallel_size=2",
        A + "rollout.max_model_len=2048",
        A + "model.use_remove_padding=True",
    ]
    return words


DYNAMIC = [A + "actor.use_dynamic_bsz=True", A + "actor.ppo_micro_batch_size_per_gpu=null"]
V0 = lambda v: ["trainer.use_v1=False"] if at(v) >= (0, 9, 0) else []
ASYNC = lambda v: [A + "rollout.mode=async"]
SYNC = lambda v: [A + "rollout.mode=sync"] if at(v) < (0, 7, 0) else []

# For each rule: overrides over the base, by version, and facts about the world.
ILLEGAL = {
    "mini_zero": (lambda v: [A + "actor.ppo_mini_batch_size=1", A + "actor.ppo_micro_batch_size_per_gpu=1"], {}),
    "mini_micro": (lambda v: [A + "actor.ppo_micro_batch_size_per_gpu=9"], {}),
    "ulysses_mesh": (lambda v: [A + "actor.ulysses_sequence_parallel_size=3"], {}),
    "fsdp_mesh": (lambda v: [A + "actor.fsdp_config.fsdp_size=3"], {}),
    "rollout_world": (lambda v: [A + "rollout.tensor_model_parallel_size=3"], {}),
    "replica_nodes": (
        lambda v: ASYNC(v) + ["trainer.n_gpus_per_node=6", "trainer.nnodes=4", A + "rollout.tensor_model_parallel_size=8"],
        {},
    ),
    "dynamic_mismatch": (lambda v: [A + "rollout.log_prob_use_dynamic_bsz=True"], {}),
    "micro_per_gpu": (lambda v: [A + "rollout.log_prob_micro_batch_size_per_gpu=null"], {}),
    "chunked_prefill": (lambda v: SYNC(v) + [A + "rollout.max_num_batched_tokens=2047"], {}),
    "eager_free_cache": (lambda v: [A + "rollout.enforce_eager=False"], {}),
    "sync_removed": (lambda v: [A + "rollout.mode=sync"], {}),
    "context": (lambda v: SYNC(v), {"max_position_embeddings": 2047}),
    "max_model_len": (lambda v: [], {"max_position_embeddings": 2047}),
    "ulysses_heads": (lambda v: [A + "actor.ulysses_sequence_parallel_size=8"], {"heads": 28, "kv_heads": 4}),
    "ulysses_padding": (
        lambda v: [A + "actor.ulysses_sequence_parallel_size=2", A + "model.use_remove_padding=False"],
        {},
    ),
    "weight_bucket": (lambda v: [], {"vocab": 152064, "hidden": 3584}),
    "ray_gpus": (lambda v: [], {"gpus": 4}),
    "checkpoint_world": (lambda v: [], {"checkpoint_world_size": 4}),
    "agent_workers": (lambda v: ASYNC(v) + V0(v) + [A + "rollout.agent.num_workers=7"], {}),
    "dispatch": (lambda v: V0(v) + ["data.train_batch_size=1025"], {}),
    "rollout_dispatch": (lambda v: SYNC(v) + ["data.train_batch_size=1025"], {}),
    "balance": (lambda v: ["data.train_batch_size=1025"], {}),
    "mini_ranks": (lambda v: [A + "actor.ppo_mini_batch_size=4"], {}),
    "train_mini": (lambda v: V0(v) + [A + "actor.ppo_mini_batch_size=384"], {}),
    "mini_micro_exact": (lambda v: [A + "actor.ppo_micro_batch_size_per_gpu=9"], {}),
    "rollout_micro": (lambda v: [A + "rollout.log_prob_micro_batch_size_per_gpu=9"], {}),
    "ref_micro": (lambda v: [A + "ref.log_prob_micro_batch_size_per_gpu=9"], {}),
    "actor_budget": (lambda v: DYNAMIC + [A + "actor.ppo_max_token_len_per_gpu=2047"], {}),
    "rollout_budget": (lambda v: DYNAMIC + [A + "rollout.log_prob_max_token_len_per_gpu=2047"], {}),
    "ref_budget": (lambda v: DYNAMIC + [A + "ref.log_prob_max_token_len_per_gpu=2047"], {}),
}


class Legal(unittest.TestCase):
    def test_every_rule_has_an_illegal_case(self):
        self.assertEqual({r.name for r in RULES}, set(ILLEGAL))

    def test_the_base_is_legal_in_every_version(self):
        world = {"gpus": 8, "heads": 28, "kv_heads": 4, "max_position_embeddings": 32768, "checkpoint_world_size": 8}
        for version in VERSIONS:
            with self.subTest(version=version):
                self.assertEqual(broken(version, config(version, base(version)), world), [])

    def test_one_illegal_configuration_per_rule_and_version_fails(self):
        for version in VERSIONS:
            for name in {r.name for r in RULES if r.covers(version)}:
                more, world = ILLEGAL[name]
                with self.subTest(version=version, rule=name):
                    cfg = config(version, base(version) + more(version))
                    self.assertIn(name, {b["rule"] for b in broken(version, cfg, world)})

    def test_applied_overrides_are_what_hydra_composes(self):
        for version in VERSIONS:
            with self.subTest(version=version):
                words = base(version) + DYNAMIC
                self.assertEqual(config(version, words), composed(version, words))

    def test_v1_fills_a_step_up(self):
        # 1000 x 5 samples become 5120 for mini batches of 256 x 5: 640 a rank.
        cfg = config("0.9.1", base("0.9.1") + ["data.train_batch_size=1000", A + "rollout.log_prob_micro_batch_size_per_gpu=64", A + "ref.log_prob_micro_batch_size_per_gpu=64"])
        self.assertEqual(broken("0.9.1", cfg, {}), [])

    def test_verl_says_each_rule_where_it_is_named(self):
        for version in VERSIONS:
            for r in RULES:
                if r.covers(version):
                    text = (package(version) / r.file).read_text()
                    for words in r.words:
                        with self.subTest(version=version, rule=r.name, words=words):
                            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
