//! What a decision rests on: the way that a script takes, whose value a word is, whose memory ran out.

use super::place::Place;

/// Out of memory in these frames, each with its line of source: what was asked for and what was free of 80 GiB.
fn log(head: &str, frames: &[(&str, &str, &str)], asked: f64, free: f64) -> String {
    let mut text = format!("{head}Traceback (most recent call last):\n");
    for (file, function, source) in frames {
        text += &format!("  File \"{file}\", line 100, in {function}\n    {source}\n");
    }
    let (used, allocated) = (79.0 - free, 77.0 - free);
    text + &format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked:.2} GiB. GPU 0 has a total capacity of 79.00 GiB of which {free:.2} GiB is free. Including non-PyTorch memory, this process has {used:.2} GiB memory in use. Of the allocated memory {allocated:.2} GiB is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.\n"
    )
}

const PACKAGES: &str = "/env/lib/python3.12/site-packages";

fn in_backward() -> String {
    let trainer = format!("{PACKAGES}/transformers/trainer.py");
    let frames = [
        ("/home/me/train.py", "<module>", "trainer.train()"),
        (
            trainer.as_str(),
            "training_step",
            "self.accelerator.backward(loss)",
        ),
    ];
    log("", &frames, 2.0, 1.0)
}

#[test]
fn the_way_that_a_known_test_takes_is_the_one_that_is_changed() {
    let common = "data.train_batch_size=128 actor_rollout_ref.model.path=Qwen/Qwen2.5-3B algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8";
    let run = format!(
        "#!/bin/bash\nBACKEND=${{BACKEND:-fsdp}}\nif [[ \"$BACKEND\" == \"fsdp\" ]]; then\n  python3 -m verl.trainer.main_ppo {common} actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8\n\
        else\n  python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml {common} actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16\nfi\n"
    );
    let frames = [(
        "/env/lib/python3.12/site-packages/verl/workers/actor/dp_actor.py",
        "update_policy",
        "loss.backward()",
    )];
    let place = Place::bare();
    place.write("run.sh", &run);
    place.write("slurm.err", &log("", &frames, 4.0, 1.0));
    for (job, line) in [
        ("bash run.sh", "8 -> 4"),
        ("BACKEND=megatron bash run.sh", "16 -> 8"),
    ] {
        place.write(
            "job.sh",
            &format!("#!/bin/bash\n#SBATCH --gres=gpu:8\n{job}\n"),
        );
        let done = place.run("fix slurm.err job.sh").ends(0);
        done.says(&["ppo_micro_batch_size_per_gpu", line]);
    }
}

#[test]
fn each_file_of_a_list_is_data_of_its_option() {
    let place = Place::bare();
    place.write(
        "train.py",
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n@dataclass\nclass Data:\n    rows: list[str]\n\
        args, data = HfArgumentParser((TrainingArguments, Data)).parse_args_into_dataclasses()\ntrainer = Trainer(model, args)\ntrainer.train()\n",
    );
    place.write("slurm.err", &in_backward());
    let own = "--output_dir out --per_device_train_batch_size 8 --gradient_accumulation_steps 2";
    for rows in ["--rows a/1.json a/2.json a/3.json", "--rows mixed a/2.json"] {
        let job = format!(
            "#!/bin/bash\n#SBATCH --gres=gpu:a100:2\ntorchrun --nproc_per_node 2 train.py {rows} {own}\n"
        );
        place.write("job.sh", &job);
        let done = place.run("fix slurm.err job.sh").ends(0);
        done.says(&["per_device_train_batch_size  8 -> 4", "2 -> 4"]);
        place.run("plan job.sh").ends(0).says(&["8 -> 4"]);
        let plan = place.run("plan job.sh");
        assert!(!plan.out.contains("file not found"), "{}", plan.out);
    }
}

/// A file of DeepSpeed that is not read leaves open whether a fused loss helps; it keeps training as it is, so it is tried.
#[test]
fn what_may_help_and_keeps_training_goes_before_what_changes_it() {
    let place = Place::bare();
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:h100:4\naccelerate launch --num_processes 4 --use_deepspeed --deepspeed_config_file conf/own.conf open_instruct/finetune.py \
        --model_name_or_path Qwen/Qwen2.5-7B --dataset_mixer_list me/rows 1.0 --max_seq_length 8192 --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --gradient_checkpointing\n",
    );
    place.write("slurm.err", &in_backward());
    let done = place.run("fix slurm.err job.sh").ends(0);
    done.says(&["use_liger_kernel", "whether it helps depends on"]);
    assert!(!done.out.contains("8192 -> "), "{}", done.out);
}

#[test]
fn an_engine_that_a_trainer_of_trl_starts_beside_itself_gets_less() {
    let trainer = format!("{PACKAGES}/trl/trainer/grpo_trainer.py");
    let engine = format!("{PACKAGES}/vllm/worker/cache_engine.py");
    let frames = [
        ("/home/me/rl.py", "<module>", "trainer = GRPOTrainer("),
        (trainer.as_str(), "__init__", "self.llm = LLM("),
        (engine.as_str(), "_allocate_kv_cache", "torch.zeros(shape,"),
    ];
    let warning = format!(
        "{trainer}:375: UserWarning: The requested device cuda:0 is also used for training. This may lead to unexpected behavior.\n"
    );
    let place = Place::bare();
    place.write("slurm.err", &log(&warning, &frames, 2.0, 1.0));
    place.write(
        "rl.py",
        "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(output_dir=\"out\", use_vllm=True, vllm_device=\"cuda:0\", per_device_train_batch_size=2, bf16=True)\n\
        trainer = GRPOTrainer(model=\"Qwen/Qwen2.5-1.5B\", args=args, train_dataset=rows)\ntrainer.train()\n",
    );
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:h100:4\naccelerate launch --num_processes 4 rl.py\n",
    );
    let done = place.run("fix slurm.err job.sh").ends(0);
    done.says(&["TRL 0.15.2 or older", "0.9 -> 0.7", "--num_processes"]);
}

/// 20000 tokens of 151936 words on two GPUs ask for 5.66 GiB in FP32.
#[test]
fn a_sample_above_the_budget_is_not_made_smaller_by_half_the_budget() {
    let loss = "/root/slime/slime/utils/ppo_utils.py";
    let frames = [
        (
            "/root/slime/slime/backends/megatron_utils/loss.py",
            "policy_loss_function",
            "found = get_log_probs_and_entropy(",
        ),
        (
            loss,
            "compute_entropy_from_logits",
            "softmax = logits - logits_max",
        ),
    ];
    let job = |vocab: &str, generate: &str| {
        format!(
            "#!/bin/bash\n#SBATCH --gres=gpu:4\npython3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 4 {vocab} {generate} --tensor-model-parallel-size 2 \
            --rollout-batch-size 16 --n-samples-per-prompt 8 --global-batch-size 128 --rollout-max-response-len 4096 --rollout-max-context-len 32768 --use-dynamic-batch-size --max-tokens-per-gpu 8192\n"
        )
    };
    let place = Place::bare();
    let first = |vocab: &str, generate: &str, asked: f64| {
        place.write("job.sh", &job(vocab, generate));
        place.write("slurm.err", &log("", &frames, asked, 1.0));
        place.run("fix slurm.err job.sh").ends(0).out
    };
    let halved = "--max-tokens-per-gpu  8192 -> 4096";
    let small = first("--vocab-size 151936", "", 1.0);
    assert!(small.contains(halved), "{small}");
    let large = first("--vocab-size 151936", "", 5.66);
    assert!(!large.contains(halved), "{large}");
    assert!(
        large.contains("a sample with more tokens than the budget"),
        "{large}"
    );
    let turns = first("", "--custom-generate-function-path own.turns", 5.66);
    assert!(!turns.contains(halved), "{turns}");
}

#[test]
fn pictures_without_a_limit_get_the_one_of_the_examples() {
    let tower = format!("{PACKAGES}/transformers/models/qwen2_vl/modeling_qwen2_vl.py");
    let frames = [(
        tower.as_str(),
        "forward",
        "hidden = self.patch_embed(pixels)",
    )];
    let place = Place::bare();
    let swift = |more: &str| {
        format!(
            "#!/bin/bash\n#SBATCH --gres=gpu:1\nswift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset rows.jsonl --tuner_type lora {more}\n"
        )
    };
    place.write("slurm.err", &log("", &frames, 2.0, 1.0));
    place.write("job.sh", &swift(""));
    let done = place.run("fix slurm.err job.sh").ends(0);
    done.says(&[
        "unset -> 1003520",
        "+MAX_PIXELS=1003520 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct",
    ]);
    // Attention with a mask that asks for most of the GPU holds all scores.
    let frames = [(
        tower.as_str(),
        "forward",
        "out = F.scaled_dot_product_attention(q, k, v, mask)",
    )];
    place.write("slurm.err", &log("", &frames, 60.0, 50.0));
    let done = place.run("fix slurm.err job.sh").ends(0);
    done.says(&["attn_impl", "flash_attn"]);
}

#[test]
fn a_pipeline_passes_smaller_parts_and_stays_full() {
    let frames = [("/opt/Automodel/recipe.py", "step", "loss.backward()")];
    let place = Place::bare();
    place.write("slurm.err", &log("", &frames, 2.0, 1.0));
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gres=gpu:h100:8\nautomodel my.yaml --nproc-per-node 8\n",
    );
    let recipe = |pipeline: &str| {
        format!(
            "step_scheduler:\n  global_batch_size: 64\n  local_batch_size: 16\ndistributed:\n  activation_checkpointing: true\n{pipeline}model:\n  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n"
        )
    };
    for (pipeline, said) in [
        (
            "  pp_size: 4\n  pipeline:\n    pp_microbatch_size: 2\n",
            ["pp_microbatch_size", "2 -> 1"],
        ),
        (
            "  pp_size: 4\n  pipeline:\n    pp_microbatch_size: 1\n    pp_schedule: GPipe\n",
            ["local_batch_size", "16 -> 8"],
        ),
        ("", ["local_batch_size", "16 -> 8"]),
    ] {
        place.write("my.yaml", &recipe(pipeline));
        place.run("fix slurm.err job.sh").ends(0).says(&said);
    }
    let full = "  pp_size: 16\n  pipeline:\n    pp_microbatch_size: 1\n";
    place.write("my.yaml", &recipe(full));
    let done = place.run("fix slurm.err job.sh").ends(0);
    assert!(!done.out.contains("16 -> 8"), "{}", done.out);
}

#[test]
fn a_scheduler_of_sglang_that_computes_a_batch_is_in_a_rollout() {
    let frames = [
        (
            "/sgl/sglang/srt/managers/scheduler.py",
            "run_scheduler_process",
            "scheduler.event_loop_normal()",
        ),
        (
            "/sgl/sglang/srt/managers/scheduler.py",
            "run_batch",
            "self.tp_worker.forward_batch_generation(batch)",
        ),
    ];
    let place = Place::bare();
    place.write("slurm.err", &log("", &frames, 2.0, 1.0));
    place
        .run("diagnose slurm.err")
        .ends(0)
        .says(&["in rollout"]);
}
