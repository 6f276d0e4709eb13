//! What memory did over the steps: told of a log, and of a job before its memory is full. Logs are written here in the
//! format of verl's console logger and of TRL's GRPO trainer.

use serde_json::Value;

use super::place::Place;
use super::weaver;

const FRAMES: &str = "(WorkerDict pid=1201) Traceback (most recent call last):\n\
    (WorkerDict pid=1201)   File \"/env/verl/workers/fsdp_workers.py\", line 568, in update_actor\n\
    (WorkerDict pid=1201)     metrics = self.actor.update_policy(data=data)\n\
    (WorkerDict pid=1201)   File \"/env/verl/workers/actor/dp_actor.py\", line 412, in update_policy\n\
    (WorkerDict pid=1201)     loss.backward()\n";
const KILLED: &str = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n";

/// Small ups and downs that no draw is needed for.
fn wobble(step: u32) -> f64 {
    f64::from(step * 7 % 11) - 5.0
}

/// A step as verl prints it: GiB allocated, GiB of the host, mean length of the responses.
fn step(step: u32, allocated: f64, host: f64, length: f64) -> String {
    format!(
        "(TaskRunner pid=900) step:{step} - actor/pg_loss:0.012 - perf/mfu/actor:0.314 - perf/max_memory_allocated_gb:{allocated:.3} - \
        perf/max_memory_reserved_gb:{:.3} - perf/cpu_memory_used_gb:{host:.3} - response_length/mean:{length:.3} - \
        response_length/max:4096.000 - timing_s/step:38.400\n",
        allocated + 9.0
    )
}

fn steps(of: impl Fn(u32) -> String) -> String {
    (1..=60).map(of).collect()
}

fn oom(requested: f64, allocated: f64) -> String {
    format!(
        "{FRAMES}(WorkerDict pid=1201) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested:.2} GiB. GPU 0 has a total \
        capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the \
        allocated memory {allocated:.2} GiB is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.\n"
    )
}

fn diagnosed(place: &Place, name: &str, log: &str) -> (Value, String) {
    place.write(name, log);
    let text = place.run(&["diagnose", name]).ends(0).out;
    let view = place.json(&["diagnose", "--json", name]);
    (view["files"][0]["course"].clone(), text)
}

#[test]
fn a_leak_of_host_memory_is_told_from_a_lack_of_it() {
    let place = Place::bare();
    let leaks = |s: u32| step(s, 41.0, 104.0 + 1.9 * f64::from(s) + wobble(s) / 3.0, 400.0);
    let (course, text) = diagnosed(&place, "leak.log", &(steps(leaks) + KILLED));
    assert_eq!(course["pattern"], "leak", "{text}");
    assert_eq!(course["memory"], "host");
    assert!(
        text.contains("course     a leak: host memory rises by 1.9"),
        "{text}"
    );
    assert!(
        text.contains("a restart from the newest checkpoint"),
        "{text}"
    );
    let flat = |s: u32| step(s, 41.0, 204.0 + wobble(s), 400.0);
    let (course, text) = diagnosed(&place, "flat.log", &(steps(flat) + KILLED));
    assert_eq!(course, Value::Null, "{text}");
    let first = step(1, 41.0, 104.0, 400.0) + KILLED;
    let (course, _) = diagnosed(&place, "lack.log", &first);
    assert_eq!(course["pattern"], "lack");
}

#[test]
fn responses_that_grow_are_named_and_answered_where_their_tokens_are_counted() {
    let place = Place::bare();
    let length = |s: u32| 400.0 + 20.0 * f64::from(s) + 4.0 * wobble(s);
    let grows = |s: u32| step(s, 30.0 + length(s) / 50.0, 104.0, length(s));
    let log = steps(grows) + &oom(6.0, 56.0);
    let (course, text) = diagnosed(&place, "grow.log", &log);
    assert_eq!(course["pattern"], "growing_responses", "{text}");
    assert!(text.contains("responses grow from 4"), "{text}");
    let helps = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(helps("a smaller token budget") < helps("smaller micro batches of the phase"));
    assert!(helps("smaller micro batches of the phase") < helps("a shorter longest response"));
}

#[test]
fn one_batch_out_of_line_is_told_from_one_that_is_a_little_larger() {
    let place = Place::bare();
    let flat = steps(|s| step(s, 40.0 + wobble(s) / 10.0, 104.0, 400.0));
    let (course, text) = diagnosed(&place, "outlier.log", &(flat.clone() + &oom(24.0, 38.0)));
    assert_eq!(course["pattern"], "outlier", "{text}");
    assert!(text.contains("it needs at least 62.00 GiB"), "{text}");
    let (course, text) = diagnosed(&place, "usual.log", &(flat + &oom(3.0, 38.5)));
    assert_eq!(course, Value::Null, "{text}");
}

#[test]
fn completions_that_grow_are_seen_where_the_log_prints_no_memory() {
    let place = Place::bare();
    let mut log = String::new();
    for s in 1..=60 {
        let length = 210.0 + 12.0 * f64::from(s) + 3.0 * wobble(s);
        log += &format!(
            " {s:>3}%|████      | {s}/500 [02:03<11:04, 12.1s/it]\n{{'loss': 0.0, 'grad_norm': 0.31, 'num_tokens': 81920.0, \
            'completions/mean_length': {length}, 'completions/max_length': 1024.0, 'epoch': 0.01}}\n"
        );
    }
    log += "Traceback (most recent call last):\n  File \"/env/trl/trainer/grpo_trainer.py\", line 1131, in compute_loss\n    \
        loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 79.18 GiB \
        of which 1.00 GiB is free.\n";
    let (course, text) = diagnosed(&place, "grpo.log", &log);
    assert_eq!(course["pattern"], "growing_responses", "{text}");
    assert_eq!(course["bytes"], Value::Null);
}

/// A trainer whose host memory grows by 4 GiB a step, and that then waits for a word.
const LEAKS: &str = "#!/bin/bash\nlines=$(for ((s = 1; s <= 40; s++)); do\n  \
    echo \"step:$s - perf/cpu_memory_used_gb:$((100 + 4 * s)).000 - timing_s/step:30.000\"\ndone)\necho \"$lines\"\n\
    for ((i = 0; i < 1200; i++)); do [ -e go ] && break; sleep 0.05; done\n";

#[test]
fn memory_that_will_be_full_is_said_once_before_the_job_dies() {
    let place = weaver::project("");
    place.write("trainer.sh", LEAKS);
    let memory = ["--set", "mem=480G"];
    let watch = place.start(&[&["submit", "--backend", "local", "--watch"][..], &memory].concat());
    place.wait_for_fact("weaver-1", "foreseen");
    let sentence = "host memory rises by 4.00 GiB a step (steps 2 to 40); at this rate 480.00 GiB are full at step 96, in about 28 min";
    place.says("status weaver-1", 0, &["ahead:", sentence]);
    let view = place.json("status --json weaver-1");
    let foreseen = &view["runs"][0]["attempts"][0]["foreseen"];
    assert_eq!(foreseen["full_step"], 96, "{view}");
    place.write("go", "");
    let done = watch.end().ends(0);
    assert_eq!(done.err.matches(sentence).count(), 1, "{}", done.err);
    assert_eq!(place.count("weaver-1", "foreseen"), 1);
}

/// A trainer that prints no memory and whose sampler saw it grow by half a GiB a minute, until its first attempt dies.
const SAMPLED: &str = r#"#!/bin/bash
((OOMCTL_ATTEMPT > 1)) && exit 0
for ((m = 0; m < 60; m++)); do
  used=$(((40 * 1024 + 512 * m) * 1048576))
  printf '{"v":1,"at":"2026-03-02T10:%02d:00Z","gpus":[{"gpu":0,"uuid":"GPU-a","name":"H100","total_bytes":85899345920,"used_bytes":%d,"peak_bytes":%d}]}\n' $m $used $used
done >"$OOMCTL_ATTEMPT_DIR/samples-n1.jsonl"
for ((s = 1; s <= 90; s++)); do echo "woven $s of 500"; done
echo "Traceback (most recent call last):" >&2
echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free." >&2
exit 1
"#;

#[test]
fn the_sampler_shows_a_leak_of_a_program_that_prints_no_memory() {
    let place = weaver::project("knobs: { sampler: false }\n");
    place.write("trainer.sh", SAMPLED);
    let done = place.run(&["submit", "--backend", "local", "--watch"]);
    let done = done.ends(0);
    done.says(&["course     a leak: GPU memory rises by 33"]);
    let view = place.json("status --json weaver-1");
    let attempt = &view["runs"][0]["attempts"][0];
    assert_eq!(attempt["incident"]["course"]["pattern"], "leak", "{view}");
    // It writes no checkpoint to resume from.
    assert_eq!(attempt["rungs"][0], "thin", "{view}");
}
