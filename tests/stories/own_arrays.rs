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
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2
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
    done.says(&["b_1 starts with halve-batch-keep-effective"]);
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
    assert!(slurm.calls("sbatch").is_empty());
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
    done.says(&["detached; the jobs go on. `oomctl watch a` continues"]);
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
