//! `oomctl run` on made-up GPUs, with a trainer in bash.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use super::nvml::Gpus;
use super::place::{Done, Place, Started, install};

/// Writes its words and its GPU down, and then: `oom N` dies of GPU memory while its batch is above N, `fail`
/// of something else, `wait` waits for the file `go`, `hang` says that memory ran out and does not end,
/// `leaves` leaves a process behind.
const TRAINER: &str = r#"#!/bin/bash
n=$OOMCTL_ATTEMPT
printf '%s\n' "$*" >"argv.$n"
printf '%s' "$CUDA_VISIBLE_DEVICES" >"gpu.$n"
batch=0
for word in "$@"; do case $word in training.batch_size=*) batch=${word#*=} ;; esac; done
echo "step 1/2 with batch $batch"
oom() {
  echo "Traceback (most recent call last):" >&2
  echo '  File "/home/me/train.py", line 12, in <module>' >&2
  echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.18 GiB memory in use. Of the allocated memory $((78 - n)).00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated." >&2
  exit 1
}
set -- ${TRAINER:-oom 1000}
case $1 in
  oom) if ((batch > $2)); then oom; fi ;;
  always) oom ;;
  strict) if [[ "$*" == *accum* || "$(<argv.$n)" == *accum* ]]; then echo "Key 'accum' is not in struct" >&2; exit 2; fi; oom ;;
  fail) echo "KeyError: 'x'" >&2; exit 3 ;;
  wait) echo $$ >pid; trap 'echo asked; exit 7' TERM; while [[ ! -e go ]]; do sleep 0.02; done ;;
  killed) kill -KILL $$ ;;
  hang) if ((n == 1)); then (oom); exec sleep 300; fi ;;
  leaves) if ((n == 1)); then sleep 300 & echo $! >left; oom; fi ;;
esac
echo "step 2/2"
echo "max memory allocated: 61.25 GiB, reserved: 70.5 GiB"
"#;

pub fn gpu(uuid: &str, used_mib: u32) -> String {
    format!("gpu uuid={uuid} name=H100 total_mib=81920 used_mib={used_mib} util=97")
}

/// A folder with the trainer, these GPUs, and claims of its own.
pub fn place(gpus: &Gpus) -> Place {
    let mut place = Place::bare();
    install(&place.path("train.sh"), TRAINER);
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    let runtime = place.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    place.set("XDG_RUNTIME_DIR", &runtime.display().to_string());
    place
}

/// A GPU on which the trainer could have what it asks for.
fn larger(uuid: &str, used_mib: u32) -> String {
    format!("gpu uuid={uuid} name=H200 total_mib=143771 used_mib={used_mib} util=97")
}

/// One GPU with so much in use, and a trainer that does this there.
pub fn trainer(used_mib: u32, what: &str) -> (Gpus, Place) {
    let gpus = Gpus::new(&[&gpu("GPU-a", used_mib)]);
    let mut place = place(&gpus);
    place.set("TRAINER", what);
    (gpus, place)
}

fn words<'a>(options: &[&'a str], command: &'a str) -> Vec<&'a str> {
    let options = options.iter().copied();
    let words = ["run"].into_iter().chain(options).chain(["--"]);
    words.chain(command.split(' ')).collect()
}

pub fn run(place: &Place, options: &[&str], command: &str) -> Done {
    place.run(&words(options, command))
}

pub fn start(place: &Place, options: &[&str], command: &str) -> Started {
    place.start(&words(options, command))
}

pub const COMMAND: &str = "./train.sh model=lora training.batch_size=64";

#[test]
fn a_program_that_runs_out_of_memory_is_run_again_with_half_the_batch_until_it_fits() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 70_000), &gpu("GPU-b", 1_000)]);
    let mut place = place(&gpus);
    place.set("TRAINER", "oom 16");
    let done = run(&place, &[], COMMAND).ends(0);
    // The program's own streams come through, each in its own.
    assert_eq!(done.out.matches("step 1/2 with batch").count(), 3);
    assert!(
        done.out.ends_with("reserved: 70.5 GiB\n"),
        "{}",
        done.told()
    );
    assert_eq!(
        done.err.matches("torch.OutOfMemoryError").count(),
        2,
        "{}",
        done.told()
    );
    let words = |n| place.read(&format!("argv.{n}"));
    assert_eq!(words(1), "model=lora training.batch_size=64\n");
    assert_eq!(
        words(3),
        "model=lora training.batch_size=16 training.gradient_accumulation_steps=4\n"
    );
    // The freest GPU, by UUID.
    assert_eq!(place.read("gpu.1"), "GPU-b");
    done.says(&[
        "halve-batch",
        "batch  64 -> 32",
        "the effective batch stays 64",
        "peak 1.0 of 80.0 GiB, 61.2 GiB allocated, 70.5 GiB reserved",
    ]);
    assert!(!place.has("argv.4"));
}

#[test]
fn what_does_not_die_of_memory_is_not_run_again_and_the_exit_code_is_the_programs() {
    let (_gpus, mut place) = trainer(0, "oom 1000");
    for (what, code) in [("fail", 3), ("killed", 137), ("oom 100", 0)] {
        place.set("TRAINER", what);
        run(&place, &[], COMMAND).ends(code);
        assert!(!place.has("argv.2"), "{what}");
    }
    // What oomctl added may be what the program refuses.
    place.set("TRAINER", "strict");
    run(&place, &[], COMMAND).ends(2).says(&[
        "oomctl added training.gradient_accumulation_steps=2",
        "--knob accum=",
    ]);
    run(&place, &[], "./gone.sh").ends(127).says(&["./gone.sh"]);
    let told = run(&place, &["--json"], "./gone.sh").ends(127).json();
    assert_eq!(told["exit_code"], 127);
    let why = told["outcome"]["not_started"]["why"].as_str().unwrap();
    assert!(why.starts_with("cannot start ./gone.sh"), "{why}");
    let told = place.run(&["status", "gone-1"]).ends(0).out;
    let why = "the program could not be started: cannot start ./gone.sh";
    assert!(told.contains(why), "{told}");
    std::fs::set_permissions(
        place.path("train.sh"),
        std::fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    run(&place, &[], COMMAND).ends(126);
}

#[test]
fn when_smaller_batches_are_not_enough_another_gpu_is_tried_and_then_the_cpu() {
    // The larger one is full at first.
    let all = [&larger("GPU-a", 100_000)[..], &gpu("GPU-b", 1_000)];
    let gpus = Gpus::new(&all);
    let mut place = place(&gpus);
    place.set("TRAINER", "always");
    let program = "#!/bin/bash\nsed -i 's/used_mib=100000 /used_mib=0 /' \"$NVML_STANDIN\"\nexec ./train.sh \"$@\"\n";
    install(&place.path("frees.sh"), program);
    let command = COMMAND.replace("train.sh", "frees.sh");
    let options = ["--min-batch-size", "32", "--allow-cpu"];
    let done = run(&place, &options, &command).ends(1);
    let gpu = |n| place.read(&format!("gpu.{n}"));
    assert_eq!(
        (gpu(1), gpu(2), gpu(3), gpu(4)),
        (
            "GPU-b".into(),
            "GPU-b".into(),
            "GPU-a".into(),
            String::new()
        )
    );
    assert!(
        place.read("argv.4").contains(" device=cpu ")
            && place.read("argv.4").ends_with("num_workers=0\n")
    );
    assert!(!place.has("argv.5"));
    done.says(&["nothing left to try", "on the CPU"]);
    gpus.are(&all);
    let done = run(&place, &["--max-retries", "0", "--json"], &command).ends(1);
    let json = done.json();
    assert_eq!(json["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(json["attempts"][0]["incident"]["kind"], "cuda_oom");
    assert_eq!(json["attempts"][1]["gpu"]["uuid"], "GPU-a");
    assert_eq!(json["exit_code"], 1);
}

/// A neighbour holds most of the other GPU: the program has shown that it needs more than what is left there.
#[test]
fn an_attempt_does_not_go_to_a_gpu_that_its_own_log_rules_out() {
    let gpus = Gpus::new(&[&larger("GPU-a", 100_000), &gpu("GPU-b", 0)]);
    let mut place = place(&gpus);
    place.set("TRAINER", "always");
    let done = run(&place, &["--max-retries", "0", "--wait", "0s"], COMMAND).ends(21);
    done.says(&["no GPU had 80.18 GiB available", "--allow-cpu"]);
    assert!(!place.has("argv.2"));
}

/// Another GPU is waited for after a failed attempt. Meanwhile the run is cancelled from another shell, interrupted, or
/// goes on as soon as that GPU is free.
#[test]
fn a_run_that_waits_for_another_gpu_can_be_cancelled_and_interrupted() {
    let full = [&larger("GPU-a", 100_000)[..], &gpu("GPU-b", 0)];
    let gpus = Gpus::new(&full);
    let mut place = place(&gpus);
    place.set("TRAINER", "always");
    let waiting = |run: &str, every| {
        let options = ["--max-retries", "0", "--check-every", every];
        let started = start(&place, &options, COMMAND);
        place.wait_for("the second attempt", || {
            place.has(&format!("{}/attempt-2", place.run_dir(run)))
        });
        started
    };
    let cancelled = waiting("train-1", "1h");
    place.run(&["cancel", "train-1"]).ends(0);
    cancelled.end().ends(9);
    let interrupted = waiting("train-2", "1h");
    interrupted.signal(Signal::INT);
    interrupted.end().ends(130);
    let goes_on = waiting("train-3", "1s");
    gpus.are(&[&larger("GPU-a", 0), full[1]]);
    goes_on.end().ends(1);
    assert_eq!(place.read("gpu.2"), "GPU-a");
    let ended = |run| place.run(&["status", run]).ends(0).out;
    assert!(ended("train-1").contains("cancelled"));
    assert!(
        ended("train-2").contains("by signal 2"),
        "{}",
        ended("train-2")
    );
}

#[test]
fn what_is_too_large_for_every_gpu_is_not_tried_on_another_one() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 0), &gpu("GPU-b", 0)]);
    let mut place = place(&gpus);
    place.set("TRAINER", "always");
    let done = run(&place, &["--max-retries", "0"], COMMAND).ends(1);
    done.says(&[
        "other-gpu: no other GPU is suitable",
        "cpu: only with --allow-cpu",
    ]);
    assert!(!place.has("argv.2"));
}

#[test]
fn a_batch_that_is_not_known_is_told_first_and_one_in_hydras_files_is_read() {
    let (_gpus, place) = trainer(0, "oom 1000");
    let done = run(&place, &[], "./train.sh --lr 1").ends(0);
    let told = done
        .err
        .find("batch size not found in the command")
        .unwrap();
    assert!(
        told < done.err.find("attempt 1").unwrap(),
        "{}",
        done.told()
    );
    done.says(&["--knob batch=OPTION", "--set batch=N"]);

    std::fs::create_dir(place.path("conf")).unwrap();
    place.write("conf/config.yaml", "training:\n  batch_size: 64\nseed: 1\n");
    let program = "#!/usr/bin/env python3
import subprocess, sys
import hydra

@hydra.main(version_base=None, config_path='conf', config_name='config')
def main(cfg):
    pass
";
    place.write("train.py", program);
    // No Hydra is installed here: what stands for Python hands its words to the trainer.
    std::fs::create_dir(place.path("bin")).unwrap();
    let python = "#!/bin/bash\nshift\nfor w; do case $w in training.batch_size=*) exec ./train.sh \"$@\" ;; esac; done\nexec ./train.sh training.batch_size=64 \"$@\"\n";
    install(&place.path("bin/python"), python);
    let mut place = place;
    place.set("TRAINER", "oom 16");
    let path = format!(
        "{}:{}",
        place.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    place.set("PATH", &path);
    let done = run(&place, &[], "python train.py seed=2").ends(0);
    assert!(
        !done.err.contains("batch size not found"),
        "{}",
        done.told()
    );
    done.says(&["batch  64 -> 32", "the effective batch stays 64"]);
    assert_eq!(
        place.read("argv.3"),
        "seed=2 training.batch_size=16 training.gradient_accumulation_steps=4\n"
    );
}

#[test]
fn a_gpu_is_waited_for_until_it_has_enough_memory() {
    let (gpus, place) = trainer(80_000, "oom 1000");
    let options = ["--check-every", "1s", "--min-gpu-memory", "4000MiB"];
    let started = start(&place, &options, COMMAND);
    place.wait_for("the program's claim folder", || place.has("runtime/oomctl"));
    assert!(!place.has("argv.1"));
    gpus.are(&[&gpu("GPU-a", 1_000)]);
    let done = started.end().ends(0);
    assert_eq!(place.read("gpu.1"), "GPU-a");
    assert!(done.err.matches("waiting for a GPU with 3.91 GiB").count() <= 1);
}

#[test]
fn when_no_gpu_comes_free_in_time_the_cpu_is_used_or_the_program_is_not_run() {
    let (_gpus, place) = trainer(80_000, "oom 1000");
    let none = run(&place, &["--wait", "0s"], COMMAND).ends(21);
    none.says(&[
        "no GPU had 3.91 GiB available within 0 s: GPU 0 has 1.88 GiB",
        "hint: the program did not run. `oomctl gpus` shows",
        "--allow-cpu runs without a GPU",
    ]);
    assert!(!place.has("argv.1"));
    run(&place, &["--wait", "0s", "--allow-cpu"], COMMAND).ends(0);
    assert_eq!(place.read("gpu.1"), "");
    assert!(place.read("argv.1").contains("device=cpu"));
    let mut hurried = place;
    hurried.set("OOMCTL_WAIT", "0s");
    let place = hurried;
    run(&place, &[], COMMAND).ends(21);
    // More than the GPU has is not waited for at all.
    let options = ["--min-gpu-memory", "100GiB"];
    run(&place, &options, COMMAND)
        .ends(20)
        .says(&["the largest has 80.00 GiB"]);
}

#[test]
fn a_size_in_place_of_a_time_is_told_with_the_option_that_takes_it() {
    let (_gpus, place) = trainer(0, "oom 1000");
    run(&place, &["--wait", "20GiB"], COMMAND)
        .ends(2)
        .says(&["this is a size", "--min-gpu-memory 20GiB"]);
    for time in ["60m", "12h", "1-00:00:00"] {
        let told = place.run(&["gpus", "--wait", time]).ends(2);
        told.says(&["this is a time", &format!("--timeout {time}")]);
    }
}

#[test]
fn the_list_of_visible_gpus_is_heeded_in_each_of_its_forms() {
    let gpus = Gpus::new(&[
        &gpu("GPU-aaaa1", 0),
        &gpu("GPU-bbbb2", 5_000),
        "gpu uuid=GPU-cccc3 name=H100 total_mib=81920 used_mib=0 mig=1",
        "part gpu=2 uuid=MIG-dddd4 name=H100-1g total_mib=9728 used_mib=12",
        "part gpu=2 uuid=MIG-eeee5 name=H100-1g total_mib=9728 used_mib=500",
    ]);
    let mut place = place(&gpus);
    for (list, expected) in [
        ("1", "GPU-bbbb2"),
        ("GPU-bbbb", "GPU-bbbb2"),
        ("1,0", "GPU-aaaa1"),
        ("2", "MIG-dddd4"),
        ("MIG-eeee5", "MIG-eeee5"),
    ] {
        place.set("CUDA_VISIBLE_DEVICES", list);
        run(&place, &[], COMMAND).ends(0);
        assert_eq!(place.read("gpu.1"), expected, "{list}");
    }
    place.set("CUDA_VISIBLE_DEVICES", "7");
    run(&place, &[], COMMAND)
        .ends(20)
        .says(&["names no GPU of this machine (7)"]);
}

#[test]
fn a_signal_goes_to_the_program_and_its_answer_is_the_exit_code() {
    let (gpus, place) = trainer(0, "wait");
    let started = start(&place, &[], COMMAND);
    place.written("pid");
    started.signal(Signal::TERM);
    let done = started.end().ends(7);
    assert!(done.out.contains("asked"), "{}", done.told());
    // While a GPU is waited for, oomctl itself ends.
    gpus.are(&[&gpu("GPU-a", 81_000)]);
    std::fs::remove_dir_all(place.path("runtime/oomctl")).unwrap();
    let waiting = start(&place, &[], COMMAND);
    place.wait_for("the wait", || {
        std::fs::read_dir(place.path("runtime/oomctl")).is_ok()
    });
    waiting.signal(Signal::INT);
    waiting.end().ends(130);
}

#[test]
fn two_programs_do_not_share_a_gpu_unless_they_say_what_they_take() {
    let (_gpus, place) = trainer(0, "wait");
    let first = start(&place, &[], COMMAND);
    place.written("pid");
    let busy = ["--wait", "0s"];
    run(&place, &busy, COMMAND).ends(21);
    let claiming = ["--claim", "10GiB", "--wait", "0s"];
    run(&place, &claiming, COMMAND).ends(21);
    place.write("go", "");
    first.end().ends(0);
    run(&place, &claiming, COMMAND).ends(0);
    // Two who claim 50 GiB each do not fit into 80.
    std::fs::remove_file(place.path("go")).unwrap();
    std::fs::remove_file(place.path("pid")).unwrap();
    let first = start(&place, &["--claim", "50GiB"], COMMAND);
    place.written("pid");
    let options = ["--wait", "0s", "--claim", "50GiB"];
    run(&place, &options, COMMAND).ends(21);
    place.write("go", "");
    let options = ["--wait", "0s", "--claim", "20GiB"];
    run(&place, &options, COMMAND).ends(0);
    first.end().ends(0);
}

#[test]
fn a_machine_without_a_driver_runs_on_the_cpu_where_that_is_allowed() {
    let gpus = Gpus::new(&["init error=9"]);
    let place = place(&gpus);
    run(&place, &[], COMMAND)
        .ends(20)
        .says(&["no NVIDIA driver"]);
    assert!(!place.has("argv.1"));
    run(&place, &["--allow-cpu"], COMMAND).ends(0);
    assert!(place.read("argv.1").contains("device=cpu"));
}

#[test]
fn each_attempt_is_recorded_with_what_killed_it() {
    let (_gpus, place) = trainer(0, "oom 32");
    run(&place, &[], COMMAND).ends(0);
    let record = |n: u32| {
        let text = place.read(&format!(".oomctl/runs/train-1/attempt-{n}/verdict.json"));
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    assert_eq!(record(1)["incident"]["requested_bytes"], 2_u64 << 30);
    assert_eq!(
        record(1)["verdict"]["climb"]["steps"][0]["rung"],
        "halve-batch"
    );
    assert_eq!(record(2)["status"]["state"], "COMPLETED");
    let log = place.read(".oomctl/runs/train-1/attempt-2/slurm.out");
    assert!(log.starts_with("step 1/2 with batch 32\n"), "{log}");
}

#[test]
fn the_memory_of_the_dead_program_is_waited_for_and_what_it_left_running_is_ended() {
    let (gpus, place) = trainer(1_000, "leaves");
    // The driver still counts its memory when the program is gone.
    let program = r#"#!/bin/bash
sed -i 's/used_mib=1000 /used_mib=70000 /' "$NVML_STANDIN"
exec ./train.sh "$@"
"#;
    install(&place.path("holds.sh"), program);
    let started = start(&place, &[], &COMMAND.replace("train.sh", "holds.sh"));
    place.wait_for("the record of the first attempt", || {
        place.has(".oomctl/runs/holds-1/attempt-1/verdict.json")
    });
    let left = place.written("left");
    place.wait_for("the end of what it left", || {
        !std::path::Path::new(&format!("/proc/{left}")).exists()
    });
    assert!(!place.has("argv.2"));
    gpus.are(&[&gpu("GPU-a", 1_000)]);
    let done = started.end().ends(0);
    done.says(&[
        "waiting for the driver to free 67.38 GiB",
        "peak 68.4 of 80.0 GiB",
    ]);
    assert!(place.has("argv.2"));
}

#[test]
fn a_program_that_says_that_memory_ran_out_and_does_not_end_is_ended() {
    let (_gpus, place) = trainer(0, "hang");
    run(&place, &["--set", "hang_grace=1s"], COMMAND).ends(0);
    assert!(place.read("argv.2").contains("training.batch_size=32"));
}

#[test]
fn a_program_whose_oomctl_was_killed_keeps_its_gpu_until_it_ends() {
    let (_gpus, place) = trainer(0, "wait");
    let first = start(&place, &[], COMMAND);
    let pid = place.written("pid");
    let lives = || std::path::Path::new(&format!("/proc/{pid}/cwd")).exists();
    first.kill();
    assert!(lives());
    let options = ["--wait", "0s"];
    run(&place, &options, COMMAND).ends(21);
    place.write("go", "");
    place.wait_for("the end of the program", || !lives());
    // The kernel closes the files of a process a moment after it is gone.
    run(&place, &["--wait", "30s"], COMMAND).ends(0);
}

/// Takes the GPU for itself, and tells when it is not alone there.
const ALONE: &str = r#"#!/bin/bash
[[ -n "$CUDA_VISIBLE_DEVICES" ]] || { echo "no GPU" >>double; exit 1; }
mkdir "on-$CUDA_VISIBLE_DEVICES" || { echo "$CUDA_VISIBLE_DEVICES" >>double; exit 1; }
sleep 0.02
echo done >>done
rmdir "on-$CUDA_VISIBLE_DEVICES"
"#;

#[test]
fn many_at_once_never_get_one_gpu_twice() {
    /// Programs that are run at once; the figures in `docs/run.md` are of 200.
    const AT_ONCE: usize = 24;
    let count = std::env::var("OOMCTL_RUNS_AT_ONCE");
    let count = count.map_or(AT_ONCE, |n| n.parse().unwrap());
    let gpus: Vec<String> = (0..4).map(|n| gpu(&format!("GPU-{n}"), n * 100)).collect();
    let gpus = Gpus::new(&gpus.iter().map(String::as_str).collect::<Vec<_>>());
    let place = place(&gpus);
    install(&place.path("alone.sh"), ALONE);
    let all: Vec<_> = (0..count)
        .map(|_| start(&place, &["--check-every", "1s"], "./alone.sh x"))
        .collect();
    for started in all {
        let done = started.end().ends(0);
        assert!(!done.err.contains("not recorded"), "{}", done.told());
    }
    assert!(!place.has("double"));
    assert_eq!(place.read("done").lines().count(), count);
    // Nothing is left that claims a GPU.
    let left = std::fs::read_dir(place.path("runtime/oomctl")).unwrap();
    let names = left.map(|e| e.unwrap().file_name().into_string().unwrap());
    let claims: Vec<String> = names.filter(|n| !n.ends_with(".lock")).collect();
    assert_eq!(claims, Vec::<String>::new());
}
