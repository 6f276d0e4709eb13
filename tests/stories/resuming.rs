//! Going on from a checkpoint: what is said, what is handed over, and what the program makes of it.

use super::place::Place;

/// The example on a card on which everything fits but one batch of the first attempt, with checkpoints.
fn example() -> Place {
    let mut place = Place::example();
    for (name, value) in [
        ("SIM_GPU_GIB", "140"),
        ("SIM_STEPS", "6"),
        ("SIM_OOM_AT_STEP", "5"),
        ("SIM_ONLY_ATTEMPTS", "1"),
    ] {
        place.set(name, value);
    }
    place
}

const SAVED: [&str; 6] = [
    "--set",
    "save_freq=1",
    "--set",
    "default_local_dir=ckpt",
    "--backend",
    "local",
];

#[test]
fn an_attempt_goes_on_from_the_newest_checkpoint_and_says_so() {
    let place = example();
    let done = place.run(&[&["submit", "--watch"][..], &SAVED].concat());
    let done = done.ends(0);
    done.says(&["attempt 2  goes on from step 4 (global_step_4)"]);
    assert!(
        !done.err.contains("no checkpoint is written"),
        "{}",
        done.err
    );
    let run = place.read(".oomctl/runs/diamonds-seed0-1/attempt-2/slurm.out");
    assert!(run.contains("Setting global step to 4"), "{run}");
}

#[test]
fn shards_of_another_number_of_gpus_cost_the_steps_and_not_the_run() {
    let place = example();
    for rank in 0..2 {
        let name = format!("ckpt/global_step_7/actor/model_world_size_2_rank_{rank}.pt");
        place.write(&name, "a shard");
    }
    place.write("ckpt/latest_checkpointed_iteration.txt", "7");
    let words = ["--set", "save_freq=-1"];
    let done = place.run(&[&["submit", "--watch"][..], &SAVED, &words].concat());
    let done = done.ends(0);
    done.says(&[
        "save_freq is -1: no checkpoint is written",
        "begins at step 0: global_step_7 cannot be loaded: it has 2 shards",
        "verl.model_merger",
    ]);
    let script = place.read(".oomctl/runs/diamonds-seed0-1/attempt-1/run_grpo.sh");
    assert!(script.contains("trainer.resume_mode=disable"), "{script}");
}

#[test]
fn a_job_that_is_put_back_into_the_queue_goes_on_from_what_it_wrote_itself() {
    let mut place = example();
    place.write("ckpt/latest_checkpointed_iteration.txt", "7");
    place.write(
        "ckpt/global_step_7/actor/model_world_size_2_rank_0.pt",
        "a shard",
    );
    let done = place.run(&[&["submit", "--watch"][..], &SAVED].concat());
    done.ends(0).says(&["begins at step 0"]);
    let folder = ".oomctl/runs/diamonds-seed0-1/attempt-1";
    let log = place.read(&format!("{folder}/slurm.out"));
    assert!(!log.contains("Setting global step"), "{log}");
    // Its job once more, as Slurm runs it.
    let claimed = place.read(&format!("{folder}/claim"));
    place.set("OOMCTL_JOB_ID", claimed.trim());
    let mut again = std::process::Command::new("bash");
    again.arg(place.path(&format!("{folder}/job.sbatch")));
    place.at_home(&mut again);
    let again: super::place::Done = again.output().unwrap().into();
    again.ends(0).says(&["Setting global step to 6"]);
}

#[test]
fn of_a_checkpoint_that_was_cut_off_the_one_before_is_taken() {
    let place = example();
    for step in [2, 3] {
        for rank in 0..8 {
            let folder = format!("ckpt/global_step_{step}/actor");
            place.write(
                &format!("{folder}/model_world_size_8_rank_{rank}.pt"),
                "a shard",
            );
        }
    }
    place.write("ckpt/global_step_3/actor/model_world_size_8_rank_6.pt", "");
    place.write("ckpt/latest_checkpointed_iteration.txt", "3");
    let gpus = ["--set", "n_gpus_per_node=8"];
    let done = place.run(&[&["submit", "--watch"][..], &SAVED, &gpus].concat());
    done.ends(0)
        .says(&["goes on from step 2 (global_step_2): global_step_3 cannot be loaded: 7 of its 8 model are there"]);
    let log = place.read(".oomctl/runs/diamonds-seed0-1/attempt-1/slurm.out");
    assert!(log.contains("Setting global step to 2"), "{log}");
}

#[test]
fn a_rung_that_changes_what_a_checkpoint_counts_says_so_where_there_are_checkpoints() {
    let place = Place::example();
    let counted = "a checkpoint counts batches, not samples";
    let told = place.run(&["plan", "--set", "save_freq=5"]).ends(0);
    told.says(&[counted]);
    let told = place.run(&["plan"]).ends(0);
    assert!(!told.out.contains(counted), "{}", told.out);
}
