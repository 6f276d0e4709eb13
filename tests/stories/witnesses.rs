//! What a log itself shows of a failure, and what follows from it: logs in the formats that frameworks print.

use super::fixing::fixed;
use super::place::{Done, Place};

/// What `diagnose` says of a log by itself.
fn diagnosed(log: &str) -> Done {
    let place = Place::bare();
    place.write("job.log", log);
    place.run(&["diagnose", "job.log"]).ends(0)
}

/// PyTorch's message of a trainer beside whose process another one holds memory.
const BESIDE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 79.11 GiB of \
    which 4.00 GiB is free. Including non-PyTorch memory, this process has 41.00 GiB memory in use. Process 70012 has 34.00 GiB memory in \
    use. Of the allocated memory 36.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated.\n";

/// Ray's actors share GPUs: a log that ends before Ray's own error shows them by who prints.
#[test]
fn another_process_beside_an_actor_of_ray_may_be_the_jobs_own() {
    for printer in [
        "(DTensorPolicyWorker pid=70433) ",
        "(MegatronPolicyWorker[rank=8] pid=70433, ip=10.0.0.4) ",
    ] {
        let said = diagnosed(&format!("{printer}{BESIDE}"));
        said.says(&["perhaps this job's own inference engine"]);
        assert!(
            !said.told().contains("use another GPU or node"),
            "{}",
            said.told()
        );
    }
    diagnosed(BESIDE).says(&["use another GPU or node: another process holds 34.00 GiB"]);
}

/// A preset whose engine shares the GPUs says it where the log does not.
#[test]
fn another_process_beside_a_trainer_with_its_engine_may_be_the_engine() {
    let script = |mode: &str| {
        format!(
            "#SBATCH --mem=64G\naccelerate launch --num_processes 8 own_grpo.py --use_vllm true --vllm_mode {mode} --num_generations 8 \
             --vllm_gpu_memory_utilization 0.5 --per_device_train_batch_size 8 --max_completion_length 1024"
        )
    };
    let said = fixed(&script("colocate"), BESIDE, &[]);
    said.says(&["per_device_train_batch_size  8 -> 4"]);
    assert!(
        !said.told().contains("Other processes held the memory"),
        "{}",
        said.told()
    );
    fixed(&script("server"), BESIDE, &[]).says(&["Other processes held the memory"]);
}
