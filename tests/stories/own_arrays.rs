//! Job arrays of a script of the user's own, on Slurm's commands as scripts.

use super::own_scripts;
use super::place::{Place, install};
use super::slurm::Slurm;
use rustix::process::Signal;

const JOB: &str = "#!/bin/bash
#SBATCH --job-name=gems --array=0-2%2
#SBATCH --output=out/%x-%A_%a.log
#SBATCH --gres=gpu:4
BS=32
echo \"task $SLURM_ARRAY_TASK_ID of ${SLURM_ARRAY_TASK_COUNT:-}\"
bash tools/train.sh \"${1:-all}\" $BS
";

/// Runs out of memory in task 1 alone, above a batch of 8.
const TORCHRUN: &str = "#!/bin/bash
all=\"$*\"; batch=${all#*--batch_size }; batch=${batch%% *}
echo \"batch $batch\"
[ \"$batch\" -le 8 ] || [ \"$SLURM_ARRAY_TASK_ID\" != 1 ] && exit 0
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory '$((71 - OOMCTL_ATTEMPT))'.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2
exit 1
";

fn place() -> (Place, Slurm) {
    let mut place = own_scripts::place();
    place.write(
        "oomctl.yaml",
        "backend: slurm\none_rung: true\nsupervision: { poll: 1s, settle: 1s, drain: 0s }\n",
    );
    place.write("job.slurm", JOB);
    install(&place.home.join("bin/torchrun"), TORCHRUN);
    let slurm = Slurm::before(&mut place);
    place.first_on_path.push(place.home.join("bin"));
    (place, slurm)
}

/// What an array was asked to be.
fn arrays(slurm: &Slurm) -> Vec<String> {
    let calls = slurm.calls("sbatch");
    let words = calls.iter().flat_map(|call| call.split(' '));
    let arrays = words.filter(|word| word.starts_with("--array="));
    arrays.map(str::to_owned).collect()
}

#[test]
fn a_task_that_dies_of_memory_goes_back_under_its_index_and_the_others_do_not() {
    let (place, slurm) = place();
    let words = ["submit", "--yes", "--watch", "--run", "a", "job.slurm"];
    let done = place.run(&words).ends(0);
    insta::assert_snapshot!(place.steady(&done.out));
    assert_eq!(
        arrays(&slurm),
        ["--array=0-2%2", "--array=1%2", "--array=1%2"]
    );
    let script = place.read(".oomctl/sweeps/a/array-1.attempt-3/array.sbatch");
    insta::assert_snapshot!(place.steady(&script), @r#"
    #!/bin/bash
    #SBATCH --gres=gpu:4

    # a: each task is an attempt of a run of its own.
    exec bash [PROJECT]/.oomctl/sweeps/a/array-1.attempt-3/"$SLURM_ARRAY_TASK_ID"/job.slurm "$@"
    "#);
    let log = place.read(".oomctl/runs/a_1/attempt-3/slurm.out");
    assert!(
        log.contains("task 1 of 3\n") && log.contains("batch 8\n"),
        "{log}"
    );
    // What task 1 needed it starts with, and it alone.
    let done = place.run(&["submit", "--yes", "--watch", "--run", "b", "job.slurm"]);
    let done = done.ends(0);
    done.says(&["b_1 starts with what its last run needed"]);
    assert!(!done.err.contains("b_0 starts with"), "{}", done.err);
    assert_eq!(arrays(&slurm)[3..], ["--array=0-2%2"]);
    let log = place.read(".oomctl/runs/b_1/attempt-1/slurm.out");
    assert!(log.contains("batch 8\n"), "{log}");
}

#[test]
fn what_is_for_one_job_is_refused_of_an_array_and_so_is_a_list_that_is_none() {
    let (place, slurm) = place();
    let mut told = String::new();
    for words in [
        &["--supervise", "job", "job.slurm"][..],
        &["--measure", "job.slurm"],
        &["--sbatch=--array=5-1", "job.slurm"],
        &["--sbatch=--array=0-20000", "job.slurm"],
        &["--dry-run", "--sbatch=--array=0-8:4", "job.slurm"],
    ] {
        let done = place.run(&[&["submit", "--yes", "--run", "a"], words].concat());
        told.push_str(&format!(
            "## {}\n{}",
            words.join(" "),
            place.steady(&done.err)
        ));
    }
    insta::assert_snapshot!(told);
    let asked = slurm.calls("sbatch");
    assert!(
        asked.iter().all(|call| call.contains("--test-only")),
        "{asked:?}"
    );
    assert!(!place.has(".oomctl"), "a run was left behind");
}

#[test]
fn a_watch_that_is_interrupted_names_the_array_and_not_each_of_its_runs() {
    let (place, slurm) = place();
    for job in 1..=3 {
        slurm.tell(&format!("state.{job}"), "RUNNING 0:0");
    }
    let watch = place.start(&["submit", "--yes", "--watch", "--run", "a", "job.slurm"]);
    place.wait_for_fact("a_2", "state_seen");
    watch.signal(Signal::INT);
    let done = watch.end().ends(130);
    done.says(&["Detached. The jobs go on; `oomctl watch a` continues."]);
}

#[test]
fn a_task_that_loses_its_node_twice_goes_back_without_it_and_the_others_do_not() {
    let (place, slurm) = place();
    // Task 1 of the three, and then the one that goes back.
    for job in [2, 4] {
        slurm.tell(&format!("state.{job}"), "NODE_FAIL 0:1\n");
    }
    let words = ["submit", "--yes", "--watch", "--run", "a", "job.slurm"];
    let done = place.run(&words).ends(0);
    done.says(&["a_1  attempt 3  n1 is excluded: job 101_1 (run a_1, node_failure) and job 104_1 (run a_1, node_failure) failed there"]);
    let without = |call: &String| call.contains("--exclude=n1");
    let calls = slurm.calls("sbatch");
    assert!(!without(&calls[0]) && !without(&calls[1]), "{calls:#?}");
    assert!(calls[2..].iter().all(without), "{calls:#?}");
}

#[test]
fn an_array_is_planned_whole_and_asked_about_by_the_first_task_that_died() {
    let (place, _slurm) = place();
    let plan = place.run(&["plan", "job.slurm"]).ends(0);
    plan.says(&["array job-1: 3 tasks (0-2), 2 at a time; each is a run"]);
    place
        .run(&["submit", "--yes", "--watch", "--run", "a", "job.slurm"])
        .ends(0);
    for words in [
        &["fix", "a"][..],
        &["plan", "--after", "a"],
        &["diagnose", "a"],
    ] {
        let done = place.run(words).ends(0);
        done.says(&[
            "a has 3 runs, and 1 of them failed at first (a_1); this is about a_1",
            "a_1, attempt",
        ]);
    }
    // By the id of the array, and of a task in it: the attempt that was that job.
    for job in ["101", "101_1"] {
        let log = ".oomctl/runs/a_1/attempt-1/slurm.err";
        place.says(&["logs", "--paths", job], 0, &[log]);
        place.says(&["diagnose", job], 0, &["a_1, attempt 1 (job 101_1)"]);
    }
    let failed = "101 has 3 runs, and 1 of them failed at first (a_1)";
    place.says("diagnose 101", 0, &[failed]);
    // The plan begins where a submission would.
    let starts = "job-1_1 starts with what its last run needed";
    place.says(
        "plan job.slurm",
        0,
        &[starts, "task 0: your script as it is"],
    );
    place.says("submit --dry-run job.slurm", 0, &[starts]);
    let log = ".oomctl/runs/a_1/attempt-1/slurm.out";
    let done = place.run(&["fix", log, "job.slurm", "x"]).ends(0);
    done.says(&["note: the job is an array (0-2%2). To resubmit only what died: `sbatch --array=INDEX job.slurm x`"]);
}

#[test]
fn tasks_that_ask_the_same_share_what_the_queue_says() {
    let (place, slurm) = place();
    place.write(
        "oomctl.yaml",
        "backend: slurm\ncluster: example-h100\npolicy: soonest\nsupervision: { poll: 1s, settle: 1s, drain: 0s }\n",
    );
    let head = "#!/bin/bash\n#SBATCH --array=0-2%2\n#SBATCH --gres=gpu:2\n";
    let line = "python -m trl.scripts.sft --model_name_or_path m --per_device_train_batch_size 32 --gradient_accumulation_steps 1 --fsdp full_shard\n";
    place.write("job.slurm", &(head.to_owned() + line));
    let all_die = TORCHRUN.replace(" || [ \"$SLURM_ARRAY_TASK_ID\" != 1 ]", "");
    let trainer = all_die.replace("--batch_size ", "--per_device_train_batch_size ");
    install(&place.home.join("bin/python"), &trainer);
    place
        .run(&["submit", "--yes", "--watch", "--run", "a", "job.slurm"])
        .ends(0);
    let calls = slurm.calls("sbatch");
    let asked: Vec<&String> = calls.iter().filter(|c| c.contains("--test-only")).collect();
    let of_task = |call: &&String| call.contains("--array=0 ") || call.contains("--array=1 ");
    assert!((2..=6).contains(&asked.len()), "{calls:?}");
    assert!(asked.iter().all(of_task), "{asked:?}");
    for run in ["a_0", "a_1", "a_2"] {
        let ledger = place.read(&format!(".oomctl/runs/{run}/ledger.jsonl"));
        let asked = ledger.lines().find(|line| line.contains("queue_asked"));
        assert!(
            asked.is_some_and(|line| line.contains("\"start\":")),
            "{ledger}"
        );
    }
}

#[test]
fn what_a_script_makes_of_its_index_is_known_of_each_task() {
    let (place, _slurm) = place();
    let job = JOB.replace("BS=32", "BS=$((SLURM_ARRAY_TASK_ID * 16))");
    place.write("job.slurm", &job);
    let words = ["submit", "--yes", "--watch", "--run", "a", "job.slurm"];
    let done = place.run(&words).ends(0);
    done.says(&["the script computes values from the index of the task; shown is the first task"]);
    let second = place.read(".oomctl/runs/a_1/attempt-2/job.slurm");
    assert!(second.contains("\nBS=8\n"), "{second}");
    assert!(place.read("job.slurm") == job);
}
