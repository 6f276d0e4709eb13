//! From out of memory to success, on one node, on several, and with more GPUs.

use std::fs;

use super::cluster::{Cluster, answer, lost_nodes, program};
use super::place::{LARGE_CARD, Place};

/// What the job asks for. How many GPUs, CPUs and how much memory a node has, Slurm says.
const ASKED: [&str; 5] = [
    "--set=partition=gpu",
    "--set=gpu_type=h100",
    "--set=cpus_per_task=2",
    "--set=mem=4G",
    "--set=time_limit=30:00",
];

#[test]
fn the_example_goes_from_out_of_memory_to_success_with_one_job_for_each_attempt() {
    let Some(place) = Place::on(Cluster::Full, "example") else {
        return;
    };
    let told = place
        .submit_and_watch(&["--dataset", "diamonds-seed0"])
        .expect_code(0);
    told.says("GPU 0 ran out of memory in actor_update");
    let jobs = place.one_job_per_attempt(place.run());
    let states: Vec<&str> = jobs.iter().map(|job| job.state.as_str()).collect();
    assert!(jobs.len() >= 3, "{jobs:?}");
    let (last, before) = states.split_last().unwrap();
    assert_eq!(*last, "COMPLETED");
    assert!(before.iter().all(|state| *state == "FAILED"), "{states:?}");
    assert!(place.rungs().contains(&"halve-batches".to_owned()));
    for job in &jobs {
        let log = place.text(&format!("logs/slurm-{}.err", job.id));
        assert!(log.contains("[simulated trainer]"), "{log}");
        assert!(
            job.asked.contains("gres/gpu=4") && job.asked.contains("node=1"),
            "{job:?}"
        );
    }
}

#[test]
fn the_example_on_two_nodes_meets_in_ray_and_shows_the_lines_of_both() {
    let Some(place) = Place::on(Cluster::Full, "two-nodes") else {
        return;
    };
    let place = place
        .with_its_programs()
        .with(&[("SIM_GPU_GIB", "56")])
        .knob("nnodes", "2")
        .knob("cpus_per_task", "2");
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("ran out of memory in");
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs.len() >= 3, "{jobs:?}");
    assert!(jobs.iter().all(|job| job.asked.contains("node=2")));
    let attempts = place.attempts();
    let nodes = attempts.last().unwrap()["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for job in &jobs {
        let log = place.text(&format!("logs/slurm-{}.out", job.id));
        let joined = log.matches("Ray runtime started.").count();
        assert_eq!(
            joined, 2,
            "nodes that joined, in the log of {job:?}:\n{log}"
        );
    }
}

#[test]
fn more_gpus_are_asked_for_when_nothing_else_fits_and_never_more_than_a_node_has() {
    let Some(place) = Place::on(Cluster::Full, "more-gpus") else {
        return;
    };
    // Adam's step on four GPUs needs more than 40 GiB on each, whatever the batch, the engine and the length.
    let place = place.with(&[("SIM_GPU_GIB", "40")]);
    let told = place.submit_and_watch(&ASKED).expect_code(0);
    told.says("more-gpus: twice as many GPUs a node");
    // Slurm was asked when that would start, and the questions left no job.
    told.says("queue: more-gpus (8 GPUs) starts");
    let ledger = place.text(&format!(".oomctl/runs/{}/ledger.jsonl", place.run()));
    let asked = ledger.lines().find(|l| l.contains("queue_asked")).unwrap();
    assert!(asked.contains(r#""start":{"at":"#), "{asked}");
    let plan = |words: &[&str]| {
        let words = [&["plan"], words, &ASKED].concat();
        place.oomctl(&words).expect_code(0).stdout
    };
    let short = plan(&["--fresh"]);
    assert!(short.contains("; more-gpus: 8 GPUs "), "{short}");
    let all = plan(&["--fresh", "--all"]);
    let nodes = "The job goes to partition gpu: 12 nodes of 8 h100 GPUs, 16 CPUs, 64000M";
    assert!(all.contains(nodes), "{all}");
    let jobs = place.one_job_per_attempt(place.run());
    let asked = |job: &super::place::Job, what: &str| -> u64 {
        let tres = job.asked.split(',').find_map(|t| t.strip_prefix(what));
        let text = tres.unwrap_or_else(|| panic!("{what} in {job:?}"));
        let digits: String = text
            .chars()
            .take_while(|c| *c != 'M' && *c != '.')
            .collect();
        digits.trim_end_matches('G').parse().unwrap()
    };
    let gpus: Vec<u64> = jobs.iter().map(|job| asked(job, "gres/gpu=")).collect();
    assert_eq!(
        (gpus.first(), gpus.last()),
        (Some(&4), Some(&8)),
        "{gpus:?}"
    );
    assert!(jobs.iter().all(|job| asked(job, "cpu=") <= 16), "{jobs:?}");
    assert_eq!(asked(jobs.last().unwrap(), "cpu="), 4);
    let memory = |id: &str| {
        let line = answer(&place.conf, "scontrol", &["-o", "show", "job", id]);
        let field = line
            .split(' ')
            .find_map(|f| f.strip_prefix("MinMemoryNode="));
        field.unwrap().to_owned()
    };
    assert_eq!(memory(&jobs[0].id), "4G");
    assert_eq!(
        memory(&jobs.last().unwrap().id),
        "62.50G",
        "offload takes it to the node's limit"
    );
}

#[test]
fn three_runs_are_watched_by_one_process_that_asks_about_all_of_them_at_once() {
    let Some(place) = Place::on(Cluster::Full, "three") else {
        return;
    };
    let calls = place.file("squeue-calls");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >>'{}'\nexec {} \"$@\"\n",
        calls.display(),
        program("squeue").display()
    );
    let place = place.wrapping("squeue", &script).set("SIM_STEP_S", "0.5");
    let runs: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|end| format!("{}-{end}", place.run()))
        .collect();
    for run in &runs {
        place.oomctl(&["submit", "--run", run]).expect_code(0);
    }
    let before = fs::read_to_string(&calls)
        .unwrap_or_default()
        .lines()
        .count();
    let start = std::time::Instant::now();
    let names: Vec<&str> = runs.iter().map(String::as_str).collect();
    let told = place
        .oomctl(&[&["watch"], &names[..]].concat())
        .expect_code(0);
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap();
    for run in &runs {
        told.says(run);
        assert!(place.one_job_per_attempt(run).len() >= 3);
    }
    let text = fs::read_to_string(&calls).unwrap();
    let states = |call: &&str| call.contains("-t all");
    let asked: Vec<&str> = text.lines().skip(before).filter(states).collect();
    assert!(
        asked.iter().all(|call| call.ends_with(" --me")),
        "a question about single jobs: {asked:#?}"
    );
    assert!(
        asked.len() <= seconds + 3,
        "{} questions in {seconds} s with a poll a second: {asked:#?}",
        asked.len()
    );
}

#[test]
fn a_submission_from_inside_a_job_is_not_bent_by_the_outer_jobs_variables() {
    let Some(place) = Place::on(Cluster::Full, "inside") else {
        return;
    };
    let place = place
        .knob("mem", "400M")
        .knob("partition", "gpu")
        .with(&[LARGE_CARD]);
    let outer = place.file("outer.sh");
    let hostile =
        "export SBATCH_PARTITION=closed SBATCH_TIMELIMIT=1 SBATCH_WAIT=1 SBATCH_ARRAY_INX=1-3
export SBATCH_JOB_NAME=mine SBATCH_OUTPUT=/dev/null SBATCH_GPUS=9 SBATCH_EXPORT=NONE SBATCH_DEBUG=3
export SQUEUE_STATES=SUSPENDED SQUEUE_USERS=nobody SQUEUE_FORMAT=%N SACCT_FORMAT=jobid
export SLURM_TIME_FORMAT=relative SLURM_CLUSTERS=zzz TZ=Asia/Tokyo
";
    let words = format!(
        "{} submit --run {} --watch",
        env!("CARGO_BIN_EXE_oomctl"),
        place.run()
    );
    let script = format!(
        "#!/bin/bash\nset -u\n: \"$SLURM_MEM_PER_CPU\"\n{hostile}cd {}\n{words}\necho \"code $?\"\n",
        place.file("").display()
    );
    fs::write(&outer, script).unwrap();
    let mut sbatch = std::process::Command::new(program("sbatch"));
    let log = place.file("outer.log");
    let output = sbatch
        .args(["--parsable", "--mem-per-cpu=700", "--ntasks=2", "--gpus=1"])
        .args(["--exclude", &lost_nodes(), "-o"])
        .arg(&log)
        .arg(&outer)
        .current_dir(place.file(""))
        .env_clear()
        .envs(place.environment())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = super::cluster::wait_for("the outer job ends", || {
        let text = fs::read_to_string(&log).ok()?;
        text.contains("\ncode ").then_some(text)
    });
    assert!(text.contains("\ncode 0\n"), "{text}");
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs[0].asked.contains("mem=400M"), "{jobs:?}");
    let line = answer(&place.conf, "scontrol", &["-o", "show", "job", &jobs[0].id]);
    assert!(
        line.contains("Partition=gpu ") && line.contains("TimeLimit=7-00"),
        "{line}"
    );
}
