//! Going on from a checkpoint: what is said, what is handed over, and what the program makes of it.

use super::place::Place;
use oomctl_base::word_list;

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

const SAVED: [&str; 6] =
    word_list("--set save_freq=1 --set default_local_dir=ckpt --backend local");

#[test]
fn an_attempt_goes_on_from_the_newest_checkpoint_and_says_so() {
    let place = example();
    let done = place.run(&[&["submit", "--watch"][..], &SAVED].concat());
    let done = done.ends(0);
    done.says(&["attempt 2  resumes from step 4 (global_step_4)"]);
    assert!(!done.err.contains("no checkpoints ("), "{}", done.err);
    let run = place.read(".oomctl/runs/diamonds-seed0-1/attempt-2/slurm.out");
    assert!(run.contains("Setting global step to 4"), "{run}");
}

/// The example after its first attempt, which wrote checkpoints up to step 4 and died. Nobody watches yet.
fn after_the_first() -> Place {
    let place = example();
    place.run(&[&["submit"][..], &SAVED].concat()).ends(0);
    let log = ".oomctl/runs/diamonds-seed0-1/attempt-1/slurm.err";
    place.wait_for("the first attempt's end", || {
        place.has(log) && place.read(log).contains("OutOfMemoryError")
    });
    place
}

/// In place of the checkpoints of four GPUs one of two.
fn with_shards_of_two_gpus(place: &Place) {
    std::fs::remove_dir_all(place.path("ckpt")).unwrap();
    for rank in 0..2 {
        let name = format!("ckpt/global_step_7/actor/model_world_size_2_rank_{rank}.pt");
        place.write(&name, "a shard");
    }
    place.write("ckpt/latest_checkpointed_iteration.txt", "7");
}

#[test]
fn shards_of_another_number_of_gpus_cost_the_steps_and_not_the_run() {
    let place = after_the_first();
    with_shards_of_two_gpus(&place);
    let done = place.run(&["watch", "diamonds-seed0-1"]).ends(0);
    done.says(&[
        "starts at step 0: global_step_7 cannot be loaded: it has 2 shards",
        "verl.model_merger",
    ]);
    let script = place.read(".oomctl/runs/diamonds-seed0-1/attempt-2/run_grpo.sh");
    assert!(script.contains("trainer.resume_mode=disable"), "{script}");
}

#[test]
fn a_job_that_is_put_back_into_the_queue_goes_on_from_what_it_wrote_itself() {
    let mut place = after_the_first();
    with_shards_of_two_gpus(&place);
    let done = place.run(&["watch", "diamonds-seed0-1"]).ends(0);
    done.says(&["starts at step 0"]);
    let folder = ".oomctl/runs/diamonds-seed0-1/attempt-2";
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
    let place = after_the_first();
    let cut = "ckpt/global_step_4/actor/model_world_size_4_rank_2.pt";
    assert!(place.has(cut));
    place.write(cut, "");
    let done = place.run(&["watch", "diamonds-seed0-1"]).ends(0);
    done.says(&["resumes from step 3 (global_step_3): global_step_4 cannot be loaded: only 3 of its 4 model exist"]);
    let log = place.read(".oomctl/runs/diamonds-seed0-1/attempt-2/slurm.out");
    assert!(log.contains("Setting global step to 3"), "{log}");
}

const SAVING: [&str; 5] = ["--watch", "--backend", "local", "--set", "save_freq=1"];

/// The steps that an attempt trained begin at the first one.
#[track_caller]
fn begins_at_step_0(place: &Place, run: &str) {
    let log = place.read(&format!(".oomctl/runs/{run}/attempt-1/slurm.out"));
    assert!(!log.contains("Setting global step"), "{run}: {log}");
    assert!(log.contains("step:1 "), "{run}: {log}");
}

#[test]
fn runs_and_cells_of_a_sweep_never_go_on_from_each_others_checkpoints() {
    let mut place = Place::example();
    place.set("SIM_GPU_GIB", "140");
    place.set("SIM_STEPS", "3");
    let again = ["submit", "--fresh", "--set", "lr=5e-6"];
    place.run(&[&["submit"][..], &SAVING].concat()).ends(0);
    place.run(&[&again[..], &SAVING].concat()).ends(0);
    for run in ["diamonds-seed0-1", "diamonds-seed0-2"] {
        begins_at_step_0(&place, run);
    }
    let sweep = ["sweep", "submit", "lr=1e-6,5e-6", "--force"];
    place.run(&[&sweep[..], &SAVING].concat()).ends(0);
    for cell in ["sweep-1.1", "sweep-1.2"] {
        begins_at_step_0(&place, cell);
    }
}

#[test]
fn a_run_that_would_begin_with_the_checkpoints_of_another_says_how_to_ask_for_that() {
    let place = after_the_first();
    let folder = place.path("ckpt").display().to_string();
    let again = place.run(&[&["submit"][..], &SAVED].concat()).ends(5);
    let newest = format!("--resume-from {folder}/global_step_4");
    again.says(&[
        &format!("{folder} holds checkpoints of another run; the newest is global_step_4"),
        &newest,
    ]);
    assert!(
        !place.has(".oomctl/runs/diamonds-seed0-2"),
        "no run is left behind"
    );
    let from = ["submit", "--watch", "--resume-from", "ckpt/global_step_2"];
    let asked = place.run(&[&from[..], &SAVED].concat()).ends(0);
    asked.says(&[&format!(
        "attempt 1  resumes from {folder}/global_step_2 (--resume-from)"
    )]);
    let log = place.read(".oomctl/runs/diamonds-seed0-2/attempt-1/slurm.out");
    assert!(log.contains("Setting global step to 2"), "{log}");
    // What it wrote itself since is newer than what it was given.
    asked.says(&["attempt 2  resumes from step 4 (global_step_4)"]);
    for (wrong, why) in [("ckpt", "is not a checkpoint"), ("nowhere", "No such file")] {
        let from = ["submit", "--resume-from", wrong];
        let refused = place.run(&[&from[..], &SAVED].concat()).ends(5);
        refused.says(&["--resume-from:", why]);
    }
}

#[test]
fn a_run_may_begin_with_the_newest_checkpoint_of_another_by_its_name() {
    let place = after_the_first();
    let begin = ["submit", "--dry-run", "--resume-from", "diamonds-seed0-1"];
    let begin = [&begin[..], &SAVED].concat();
    let newest = place.path("ckpt/global_step_4").display().to_string();
    let asked = place.run(&begin).ends(0);
    assert!(
        asked
            .out
            .contains(&format!("trainer.resume_from_path={newest}")),
        "{}",
        asked.told()
    );
    std::fs::remove_dir_all(place.path("ckpt")).unwrap();
    let none = place.run(&begin).ends(5);
    none.says(&["--resume-from: diamonds-seed0-1 has no checkpoint"]);
    // What cannot be listed is not taken for empty.
    place.write("ckpt", "");
    let unlisted = place.run(&[&["submit"][..], &SAVED].concat()).ends(5);
    unlisted.says(&["ckpt: Not a directory", "--resume-from FOLDER"]);
}

#[test]
fn a_rung_that_changes_what_a_checkpoint_counts_says_so_where_there_are_checkpoints() {
    let place = Place::example();
    let counted = "a checkpoint counts batches, not samples";
    let told = place
        .run(&["plan", "--all", "--set", "save_freq=5"])
        .ends(0);
    told.says(&[counted]);
    let told = place.run(&["plan", "--all"]).ends(0);
    assert!(!told.out.contains(counted), "{}", told.out);
}
