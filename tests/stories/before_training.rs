//! Failures before the first step: while the data is prepared, while an engine starts. Log excerpts are written by hand in the formats
//! of datasets (`utils/py_utils.py`), vLLM (`v1/worker/gpu_model_runner.py`) and NeMo-RL.

use super::fixing::{fixed, job};
use super::place::{Place, install};

/// What datasets 2.12 to 4.x print where a process of `map` is gone.
const MAP: &str = "Running tokenizer on dataset (num_proc=64):  31%|███       | 9300/30000 [12:02<26:48, 12.87 examples/s]\n\
    Traceback (most recent call last):\n  \
    File \"/opt/venv/lib/python3.11/site-packages/datasets/arrow_dataset.py\", line 3253, in map\n    \
    for rank, done, content in iflatmap_unordered(\n  \
    File \"/opt/venv/lib/python3.11/site-packages/datasets/utils/py_utils.py\", line 710, in iflatmap_unordered\n    \
    raise RuntimeError(\n\
    RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable multiprocessing.\n";

const FACTORY: &str = "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ndataset: pairs\ncutoff_len: 2048\n\
    preprocessing_num_workers: 64\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\n";

/// Each stack has its own word for it.
#[test]
fn a_process_of_map_that_is_gone_leads_to_fewer_of_them() {
    let axolotl = "base_model: m\ndatasets: [{path: d, type: alpaca}]\nsequence_len: 2048\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n";
    let trl =
        "trl sft --model_name_or_path m --dataset_name d --output_dir o --dataset_num_proc 32";
    let swift = "swift sft --model m --train_type lora --dataset d.json --dataset_num_proc 16";
    let clm = "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path m --do_train --preprocessing_num_workers 48";
    let verl = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 actor_rollout_ref.model.path=own/model \
        actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.ppo_mini_batch_size=128 data.filter_overlong_prompts_workers=40";
    let new = &format!("{axolotl}dataset_num_proc: 24\n");
    let old = &format!("{axolotl}dataset_processes: 24\n");
    for (script, file, change) in [
        (
            "llamafactory-cli train own.yaml",
            FACTORY,
            "preprocessing_num_workers  64 -> 32",
        ),
        ("axolotl train own.yaml", new, "dataset_num_proc  24 -> 12"),
        ("axolotl train own.yaml", old, "dataset_processes  24 -> 12"),
        (trl, "", "--dataset_num_proc  32 -> 16"),
        (swift, "", "--dataset_num_proc  16 -> 8"),
        (clm, "", "--preprocessing_num_workers  48 -> 24"),
        (verl, "", "workers  40 -> 20"),
    ] {
        let script = format!("#SBATCH --mem=64G\n{script}");
        let said = fixed(&script, MAP, &[("own.yaml", file)]);
        said.says(&[
            "perhaps host memory ran out",
            &format!("{change}  "),
            "  same",
        ]);
        assert!(!said.out.contains("would end the run"), "{}", said.told());
    }
}

/// What nobody proved is no reason to ask for more memory, nor to change how training loads its data.
#[test]
fn nothing_but_the_named_remedy_is_tried_on_a_suspicion() {
    let script = "#SBATCH --mem=64G\nllamafactory-cli train own.yaml";
    let own = FACTORY.replace("preprocessing_num_workers: 64", "dataloader_num_workers: 8");
    let said = fixed(script, MAP, &[("own.yaml", &own)]);
    said.says(&["no rung of the ladder helps", "tokenized_path"]);
    // The kernel's word is one.
    let killed = format!(
        "{MAP}slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch. Some of the step tasks have been OOM Killed.\n"
    );
    fixed(script, &killed, &[("own.yaml", &own)]).says(&["mem   64G -> 128G"]);
    fixed(script, &killed, &[("own.yaml", FACTORY)]).says(&["preprocessing_num_workers  64 -> 32"]);
}

/// The watch tries it, too.
#[test]
fn a_run_goes_on_with_fewer_processes_that_prepare_its_data() {
    let place = Place::bare();
    place.write("said", MAP);
    place.write("own.yaml", FACTORY);
    let program = "#!/bin/sh\ncase $OOMCTL_ATTEMPT in 1) cat said >&2; exit 1;; esac\n";
    place.write("bin/README", "Programs of this story.\n");
    install(&place.path("bin/llamafactory-cli"), program);
    place.write(
        "job.sh",
        "#!/bin/bash\nPATH=$PWD/bin:$PATH llamafactory-cli train own.yaml\n",
    );
    place
        .run("submit --backend local --yes --watch --plain job.sh")
        .ends(0)
        .says(&["preprocessing_num_workers  64 -> 32"]);
}

/// vLLM's profiling forward and its sampler take memory by its tokens and sequences, wherever they are set.
#[test]
fn an_engine_of_any_trainer_gets_fewer_sequences_and_tokens() {
    let warmup = "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering \
        `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n";
    let nemo = "uv run examples/run_grpo.py --config own.yaml policy.train_micro_batch_size=2 policy.generation.vllm_kwargs.max_num_seqs=1024 \
        policy.generation.vllm_kwargs.max_num_batched_tokens=16384";
    fixed(
        nemo,
        warmup,
        &[("own.yaml", "policy:\n  train_global_batch_size: 64\n")],
    )
    .says(&[
        "max_num_seqs            1024 -> 512",
        "max_num_batched_tokens  16384 -> 8192",
    ]);
    // What is set inside another trainer's file is named, to be changed by hand.
    let place = job("#!/bin/bash\n", warmup, &[]);
    place.run("fix job.log --preset roll").ends(0).says(&[
        "fewer-rollout-sequences",
        "lower actor_infer.strategy_args.strategy_config.max_num_seqs",
    ]);
    // In the midst of training as well.
    let sampler = "Traceback (most recent call last):\n  File \"/opt/verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py\", line 309, in generate_sequences\n    \
        outputs = self.inference_engine.generate(\n  File \"/opt/vllm/v1/sample/sampler.py\", line 55, in forward\n    \
        logits = logits.to(torch.float32)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total \
        capacity of 79.15 GiB of which 0.90 GiB is free.\n";
    let verl = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 actor_rollout_ref.model.path=own/model \
        actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.2 actor_rollout_ref.rollout.max_num_seqs=1024 \
        actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8";
    fixed(verl, sampler, &[]).says(&["max_num_seqs  1024 -> 512"]);
}

/// An example of NeMo-RL names its file itself; what its update computes whole no length of pieces makes smaller.
#[test]
fn the_update_of_nemo_rl_needs_smaller_micro_batches() {
    let program = "import argparse, os\nfrom nemo_rl.algorithms.grpo import grpo_train\nparser = argparse.ArgumentParser()\n\
        parser.add_argument(\"--config\", type=str, default=None)\nargs, overrides = parser.parse_known_args()\nif not args.config:\n    \
        args.config = os.path.join(os.path.dirname(__file__), \"configs\", \"own.yaml\")\ngrpo_train()\n";
    let base = "grpo:\n  num_prompts_per_step: 32\n  num_generations_per_prompt: 16\npolicy:\n  train_global_batch_size: 512\n  \
        train_micro_batch_size: 4\n  logprob_batch_size: 4\n  dtensor_cfg:\n    enabled: true\n    activation_checkpointing: true\n";
    let log = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::lm_policy-0-3:DTensorPolicyWorker.train() (pid=3911, ip=10.0.0.1)\n  \
        File \"/opt/nemo_rl/models/policy/dtensor_policy_worker.py\", line 641, in train\n    loss, loss_metrics = loss_fn(\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.95 GiB. GPU 3 has a total capacity of 79.10 GiB of which 5.31 GiB is free.\n";
    let files = [
        ("examples/run_grpo_sliding_puzzle.py", program),
        (
            "examples/configs/own.yaml",
            "defaults: base.yaml\npolicy:\n  max_total_sequence_length: 3072\n",
        ),
        ("examples/configs/base.yaml", base),
    ];
    let script = "uv run python examples/run_grpo_sliding_puzzle.py cluster.gpus_per_node=8";
    let place = job(script, log, &files);
    let said = place.run("fix job.log job.sh").ends(0);
    said.says(&["train_micro_batch_size  4 -> 2"]);
    assert!(
        !said.out.contains("logprob_chunk_size  unset"),
        "{}",
        said.told()
    );
}

/// What is offloaded has its price, however the script says that it is: by a word of DeepSpeed as by a switch.
#[test]
fn a_word_that_turns_offload_on_is_no_gain() {
    let zero = r#"{"bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
        "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}"#;
    let own = "model_name_or_path: models/Meta-Llama-3-8B-Instruct\nstage: sft\nfinetuning_type: full\ndeepspeed: zero3.json\n\
        dataset: pairs\ncutoff_len: 1024\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nbf16: true\n";
    let log = "Traceback (most recent call last):\n  \
        File \"/opt/deepspeed/runtime/zero/stage3.py\", line 2274, in backward\n    self.loss_scaler.backward(loss.float(), retain_graph=retain_graph)\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.24 GiB is free. \
        Including non-PyTorch memory, this process has 22.44 GiB memory in use. Of the allocated memory 20.80 GiB is allocated by PyTorch, and 1.19 GiB \
        is reserved by PyTorch but unallocated.\n";
    let script = "#SBATCH --nodes=1\n#SBATCH --gres=gpu:8\nllamafactory-cli train own.yaml";
    let place = job(script, log, &[("own.yaml", own), ("zero3.json", zero)]);
    let said = place
        .run("fix --policy predict --set gpu_memory=23.69GiB job.log job.sh")
        .ends(0);
    said.says(&["offload_optimizer  unset -> cpu  zero3.json:added  same"]);
    assert!(!said.out.contains("cutoff_len  1024"), "{}", said.told());
}

/// What the Trainer's FSDP recomputes by its own file it does not recompute once more.
#[test]
fn activations_that_the_file_of_fsdp_recomputes_are_left_alone() {
    let log = "Traceback (most recent call last):\n  \
        File \"/opt/venv/lib/python3.11/site-packages/transformers/trainer.py\", line 3782, in training_step\n    \
        self.accelerator.backward(loss, **kwargs)\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.24 GiB is free.\n";
    let script = "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path own/model --do_train --bf16 --per_device_train_batch_size 1 \
        --fsdp full_shard --fsdp_config fsdp.json";
    let on = &[("fsdp.json", r#"{"activation_checkpointing": true}"#)];
    fixed(script, log, on).says(&["activations are recomputed already"]);
    let off = &[("fsdp.json", r#"{"activation_checkpointing": false}"#)];
    let said = fixed(script, log, off);
    assert!(
        !said.out.contains("activations are recomputed already"),
        "{}",
        said.told()
    );
}

/// Smaller batches do not help where the checkpoint's states come to the GPU beside their copies.
#[test]
fn a_resumed_run_that_cannot_load_its_states_needs_another_version() {
    let log = "transformers==4.26.1\nTraceback (most recent call last):\n  \
        File \"/opt/venv/lib/python3.10/site-packages/transformers/trainer.py\", line 1634, in _inner_training_loop\n    \
        self._load_optimizer_and_scheduler(resume_from_checkpoint)\n  \
        File \"/opt/venv/lib/python3.10/site-packages/transformers/trainer.py\", line 2334, in _load_optimizer_and_scheduler\n    \
        torch.load(os.path.join(checkpoint, OPTIMIZER_NAME), map_location=map_location)\n  \
        File \"/opt/venv/lib/python3.10/site-packages/torch/serialization.py\", line 1101, in restore_location\n    \
        return default_restore_location(storage, map_location)\n\
        torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 MiB (GPU 0; 23.69 GiB total capacity; 22.02 GiB already allocated; \
        99.00 MiB free; 22.10 GiB reserved in total by PyTorch)\n";
    let script = "python run_clm.py --model_name_or_path own/model --do_train --per_device_train_batch_size 4 --resume_from_checkpoint out/checkpoint-9";
    fixed(script, log, &[]).says(&["use transformers 4.28.0 or later"]);
}

/// What ultralytics 8 (`data/base.py`) and YOLOv5 5.0 to 7.0 (`utils/datasets.py`) print while they fill their cache, and Slurm behind it.
const CACHING: &str = "train: Caching images (38.2GB RAM):  47%|████▋     | 56000/118287 [02:24<02:40, 388.00it/s]\n\
    slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch. Some of the step tasks have been OOM Killed.\n";

/// A loop of one's own whose parser has this option.
fn trains(option: &str) -> String {
    format!(
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=16)\n\
         p.add_argument('--workers', type=int, default=8)\n{option}\nargs = p.parse_args()\n\
         loader = torch.utils.data.DataLoader(data(args), batch_size=args.batch_size, num_workers=args.workers)\n\
         for x, y in loader:\n  loss = F.cross_entropy(net(x), y)\n  loss.backward()\n  opt.step()\n"
    )
}

/// The cache is what fills the host, and no worker loads anything yet.
#[test]
fn a_cache_of_the_data_in_host_memory_is_turned_off() {
    const NODE: &str = "#SBATCH --mem=0\n#SBATCH --gres=gpu:1";
    let yolo =
        format!("{NODE}\nyolo detect train data=coco.yaml model=yolo11n.pt batch=16 cache=ram");
    fixed(&yolo, CACHING, &[])
        .says(&["cache  ram -> disk", "host memory ran out in preprocessing"]);
    for (option, words, change, left) in [
        (
            "p.add_argument('--cache', action='store_true')",
            "--cache",
            "--cache ",
            "+python train.py\n",
        ),
        (
            "p.add_argument('--cache-images', action='store_true')",
            "--cache-images",
            "--cache-images ",
            "+python train.py\n",
        ),
    ] {
        let script = format!("{NODE}\npython train.py {words}");
        let said = fixed(&script, CACHING, &[("train.py", &trains(option))]);
        said.says(&[change, "true -> false", "data-not-in-memory", left]);
        assert!(!said.out.contains("--workers"), "{}", said.told());
    }
}

/// No batch was loaded yet: nothing that is about batches helps.
#[test]
fn nothing_about_batches_helps_while_the_data_is_prepared() {
    let log = "Map (num_proc=4):  61%|██████    | 6100/10000 [12:02<07:40,  8.47 examples/s]\n\
        slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch. Some of the step tasks have been OOM Killed.\n";
    let swift = |words: &str| {
        let script = format!(
            "#SBATCH --mem=0\nswift sft --model m --train_type lora --dataset d.json --dataloader_num_workers 4 {words}"
        );
        fixed(&script, log, &[]).out
    };
    let said = swift("--dataset_num_proc 4");
    assert!(said.contains("--dataset_num_proc  4 -> 2"), "{said}");
    let said = swift("--preprocess_num_proc 4");
    assert!(said.contains("--preprocess_num_proc  4 -> 2"), "{said}");
    let said = swift("--dataset_num_proc 1");
    assert!(said.contains("lazy-tokens"), "{said}");
    for lazy in ["--lazy_tokenize true", "--streaming true", "--packing true"] {
        let said = swift(lazy);
        for batches in [
            "lazy_tokenize ",
            "dataloader_pin_memory ",
            "dataloader_num_workers ",
        ] {
            assert!(
                !said.contains(&format!("2      --{batches}")),
                "{lazy}: {said}"
            );
        }
    }
}

/// A bug that takes finished steps, or the other engine of vLLM, is not named where the log refutes it.
#[test]
fn a_bug_that_the_log_refutes_is_not_named() {
    let said = |engine: &str, line: &str| {
        let log = format!(
            "openrlhf==0.8.5\nINFO 05-14 06:03:31 [core.py:61] Initializing a {engine} LLM engine (v0.8.3) with config: model='m'\n{line}\n\
             slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch. Some of the step tasks have been OOM Killed.\n"
        );
        let script = "#SBATCH --mem=64G\npython -m openrlhf.cli.train_ppo_ray --pretrain m";
        fixed(script, &log, &[]).told()
    };
    let (saved, old) = ("openrlhf-saved-weights-stay", "vllm-n-above-1-v0");
    let loads = said(
        "V0",
        "Loading checkpoint shards:  50%|█████     | 2/4 [00:21<00:21, 10.31s/it]",
    );
    assert!(!loads.contains(saved) && !loads.contains(old), "{loads}");
    let bar = "Train epoch [1/1]:  21%|██        | 210/1000 [10:00<37:37,  2.86s/it]";
    let trains = said("V1", bar);
    assert!(trains.contains(saved) && !trains.contains(old), "{trains}");
    let trains = said("V0", bar);
    assert!(trains.contains(old), "{trains}");
}
