//! What a log itself settles for the decision: how large the GPU is, what the next attempt needs no change of.

use super::place::Place;

/// Out of memory on a GPU of this many GiB, in the update of verl's actor.
fn of_update(total: f64) -> String {
    let (used, allocated) = (total - 1.0, total - 3.0);
    format!(
        "Traceback (most recent call last):\n  File \"/env/lib/python3.12/site-packages/verl/workers/engine/fsdp/transformer_impl.py\", line 700, in forward_backward_batch\n    loss.backward()\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.28 GiB. GPU 0 has a total capacity of {total:.2} GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has {used:.2} GiB memory in use. Of the allocated memory {allocated:.2} GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
    )
}

fn script(more: &str) -> String {
    format!(
        "#!/bin/bash\n#SBATCH --gres=gpu:8\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=512 data.max_prompt_length=1024 \
        data.max_response_length=4096 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \
        trainer.n_gpus_per_node=8 {more}\n"
    )
}

#[test]
fn the_message_says_how_large_the_gpu_is() {
    let place = Place::bare();
    let micro = "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8";
    place.write("job.sh", &script(micro));
    place.write("slurm.err", &of_update(79.11));
    place.run("fix slurm.err job.sh").ends(0).says(&[
        "ppo_micro_batch_size_per_gpu               16 -> 8  job.sh:3  same      99 -> 69  0.66  forward",
        "note: ppo_mini_batch_size stays: that would change training\n",
    ]);
}

#[test]
fn a_batch_of_training_stays_where_the_micro_batch_is_enough() {
    let place = Place::bare();
    let micro = "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8";
    place.write("job.sh", &script(micro));
    place.write("slurm.err", &of_update(79.11));
    let done = place.run(&["fix", "slurm.err", "job.sh"]).ends(0);
    done.says(&["ppo_micro_batch_size_per_gpu  8 -> "]);
    assert!(
        !done.out.contains("ppo_mini_batch_size  128 -> "),
        "{}",
        done.out
    );
}

#[test]
fn where_the_budget_is_at_its_floor_more_gpus_share_a_sequence_and_the_budget_falls_with_it() {
    let place = Place::bare();
    let budget = "data.max_response_length=39936 actor_rollout_ref.model.path=Qwen/Qwen3-4B actor_rollout_ref.actor.ppo_mini_batch_size=128 \
        actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=40960 actor_rollout_ref.rollout.gpu_memory_utilization=0.6";
    place.write("job.sh", &script(budget));
    place.write("slurm.err", &of_update(79.11));
    for policy in ["ladder", "predict"] {
        let words = ["fix", "--policy", policy, "slurm.err", "job.sh"];
        let done = place.run(&words).ends(0);
        done.says(&["ulysses_sequence_parallel_size", "1 -> 2"]);
        assert!(!done.out.contains("39936 -> "), "{}", done.out);
    }
}

#[test]
fn a_script_is_no_log() {
    let place = Place::bare();
    place.write("job.sh", &script(""));
    place.write("slurm.err", &of_update(79.11));
    let swapped = place.run(&["fix", "job.sh", "slurm.err"]).ends(2);
    assert!(
        swapped.err.contains("job.sh is a job script, and no log")
            && swapped.err.contains("`oomctl fix slurm.err job.sh`"),
        "{}",
        swapped.err
    );
    place.run(&["fix", "job.sh"]).ends(2);
}
