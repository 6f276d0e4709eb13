//! A program on phantom GPUs. PyTorch itself is run by tests/phantom/run; here a few lines of Python ask CUDA's library, and a
//! made-up `torch` stands for what cannot be measured.

use oomctl_base::{table, word_list};
use serde_json::Value;

use super::place::Place;

/// What a program without PyTorch sees: the card, its memory, and that it is full.
const ASKS: &str = "
import ctypes, sys
cuda = ctypes.CDLL(None)
free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
print('total', total.value, file=sys.stderr)
print('free', free.value >> 20, file=sys.stderr)
print('small', cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 30)), file=sys.stderr)
print('large', cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 40)), file=sys.stderr)
cuda.cudaGraphDebugDotPrint()
import socket, os
print('tmp', os.environ['TMPDIR'], file=sys.stderr)
";

#[test]
fn a_program_sees_a_card_that_is_not_there_and_what_it_lacks_is_named() {
    let place = Place::bare();
    place.write("asks.py", ASKS);
    let done = place
        .run("measure --json --gpu-type a100-40gb -- python3 asks.py")
        .ends(1);
    let total = (39.39 * f64::from(1 << 30)) as u64;
    assert!(
        done.err.contains(&format!("total {total}")),
        "{}",
        done.told()
    );
    assert!(done.err.contains("small 0\nlarge 2\n"), "{}", done.told());
    // What was published for the card's context is taken.
    let free = (39.39 - 0.49) * f64::from(1 << 30);
    assert!(
        done.err.contains(&format!("free {}", free as u64 >> 20)),
        "{}",
        done.told()
    );
    let view: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(view["source"], "phantom");
    assert_eq!(view["outcome"], "unmeasured");
    assert_eq!(view["gpu"]["context"]["ground"], "published");
    assert_eq!(
        view["unknown_calls"],
        serde_json::json!(["cudaGraphDebugDotPrint"])
    );
    let reason = view["reason"].as_str().unwrap();
    assert!(reason.contains("PyTorch was never imported"), "{reason}");
    let folder = done.err.split("tmp ").nth(1).unwrap().trim();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
}

#[test]
fn what_cannot_be_measured_is_said_in_a_sentence() {
    let place = Place::bare();
    place.write(
        "torch/__init__.py",
        "__version__ = '2.9.1+cpu'\nfrom . import version\n",
    );
    place.write("torch/version.py", "cuda = None\n");
    place.write("cpu.py", "import torch\n");
    place.write("slow.py", "import torch, time\ntime.sleep(600)\n");
    place
        .run("measure -- python3 cpu.py")
        .ends(1)
        .says(&["not measured: PyTorch 2.9.1+cpu is built for the CPU"]);
    place
        .run(&["measure", "--time-limit", "1s", "--", "python3", "slow.py"])
        .ends(21);
    place
        .run("measure -- no-such-program")
        .ends(127)
        .says(&["there is no program no-such-program"]);
    place
        .run("measure --gpu-type a100 -- true")
        .ends(2)
        .says(&["GPU type a100 has 79.15GiB or 39.39GiB", "--gpu-memory"]);
    place.says("measure --gpu-type abacus -- true", 2, &["GPU type abacus"]);
    for [options, said] in table::<2, 3>(
        "
        --gpu-type h100 | CUDA's context: 0.65 GiB counted; published: 0.51 to 0.65 GiB with CUDA 12.
        --gpu-type h20 | CUDA's context is unknown for this card and not counted: it takes 0.10 to 0.70 GiB of other cards.
        --context 1GiB | CUDA's context: 1.00 GiB counted, as --context says.
        ",
    ) {
        place.says(&format!("measure {options} -- true"), 1, &[said]);
    }
}

/// A program that says how it was started, and writes a file.
const SAYS: &str = "
import os, sys
open('left', 'w').write('x')
print('words', *sys.argv[1:], file=sys.stderr)
print('rank', os.environ.get('RANK'), 'of', os.environ.get('WORLD_SIZE'), file=sys.stderr)
print('mode', os.environ.get('MODE'), file=sys.stderr)
import torch
";

const JOB: &str = "#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:4
export MODE=fast
srun --ntasks-per-node=4 python3 run_clm.py --per_device_train_batch_size 8 --output_dir out/$(date +%s)
";

/// Can a user here keep apart what a program writes?
fn keeps_apart() -> bool {
    let words = word_list::<6>("--map-root-user --mount --net --pid --fork true");
    let tried = std::process::Command::new("unshare").args(words).status();
    tried.is_ok_and(|status| status.success())
}

fn job_place() -> Place {
    let place = Place::bare();
    place.write(
        "torch/__init__.py",
        "__version__ = '2.9.1+cpu'\nfrom . import version\n",
    );
    place.write("torch/version.py", "cuda = None\n");
    place.write("run_clm.py", SAYS);
    place.write("job.slurm", JOB);
    place
}

#[test]
fn of_a_job_script_the_program_runs_as_one_rank_and_what_it_writes_is_gone() {
    if !keeps_apart() {
        return;
    }
    let place = job_place();
    let set = "per_device_train_batch_size=4";
    let words = [
        "measure",
        "--json",
        "--gpu-memory",
        "40GiB",
        "--set",
        set,
        "job.slurm",
    ];
    let done = place.run(&words).ends(1);
    let said = "words --per_device_train_batch_size 4 --output_dir out/oomctl-measure\nrank 0 of 8\nmode fast\n";
    assert!(done.err.contains(said), "{}", done.told());
    let view: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(view["gpu"]["name"], "a100");
    assert_eq!(view["gpu"]["count"], 4);
    assert_eq!(view["world"], 8);
    let replaced = view["replaced"].to_string();
    for part in ["srun: left out", "out/$(date +%s)", "is gone afterwards"] {
        assert!(replaced.contains(part), "{replaced}");
    }
    assert!(
        !place.path("left").exists(),
        "what the program wrote is left"
    );
    place.says(
        "measure --gpu-memory 40GiB --gpus 2 job.slurm",
        1,
        &["rank 0 of 2"],
    );
}

#[test]
fn a_job_that_cannot_be_started_here_is_refused_in_a_sentence() {
    let place = job_place();
    let script = |line: &str| format!("#!/bin/bash\n#SBATCH --gres=gpu:a100-40gb:1\n{line}\n");
    for [line, said] in table::<2, 3>(
        "
        python3 run_clm.py --per_device_train_batch_size $(cat n) --save_strategy no | the script's value of per_device_train_batch_size, `$(cat n)`, is computed there
        apptainer exec image.sif python3 run_clm.py --save_strategy no | the job starts its program with apptainer, which oomctl cannot do here
        echo nothing | the script starts no program that oomctl can follow
        ",
    ) {
        place.write("job.slurm", &script(line));
        let done = place.run(&["measure", "job.slurm"]);
        assert!(done.err.contains(said), "{}", done.told());
        assert_ne!(done.code, 0);
    }
    place.write(
        "job.slurm",
        "#!/bin/bash\npython3 run_clm.py --save_strategy no\n",
    );
    let plan = place.run("plan job.slurm").ends(0);
    plan.says(&["`oomctl measure --gpu-type h100 job.slurm` measures it"]);
    place.run("measure job.slurm").ends(2).says(&[
        "the job does not say which type of GPU it runs on",
        "--gpu-type",
    ]);
}

#[test]
fn a_program_that_fails_says_why_and_leaves_no_process() {
    let place = Place::bare();
    for (text, said) in [
        (
            "import torch",
            "ModuleNotFoundError: No module named 'torch'",
        ),
        (
            "open('data/train.jsonl')",
            "No such file or directory: 'data/train.jsonl'",
        ),
        (
            "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')",
            "a measurement has no network",
        ),
    ] {
        place.write("fails.py", &format!("{text}\n"));
        place
            .run("measure -- python3 fails.py")
            .ends(1)
            .says(&["not measured: the program failed", said]);
    }
    if !keeps_apart() {
        return;
    }
    let mark = place.path("").display().to_string();
    let fork = format!(
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {mark:?}], \
         start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    );
    place.write("forks.py", &fork);
    place.run(&["measure", "--", "python3", "forks.py"]).ends(1);
    assert_eq!(lives(&mark), 0);
}

/// Processes that have this among their words.
fn lives(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |entry: &std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut parts = words.windows(mark.len());
        parts.any(|part| part == mark.as_bytes())
    };
    processes.filter(has).count()
}

/// A program that stands for a Trainer: it writes the record that PyTorch's recorder would write, and dies where its batch is
/// too large: for the phantom above $THERE, in a job above $HERE.
const TRAINS: &str = r#"
import json, os, sys, time
batch = int(sys.argv[sys.argv.index("--per_device_train_batch_size") + 1])
records = os.environ.get("OOMCTL_PHANTOM_RECORDS")
fits = batch <= int(os.environ.get("THERE" if records else "HERE", "16"))
if records and str(batch) == os.environ.get("GAP"):
    fits = False
text = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 2.00 GiB of which 512.00 MiB is free."
if records:
    peak = {"allocated": batch << 26, "reserved": batch << 26 if fits else 3 << 29}
    small = {"allocated": 84 << 20, "reserved": 90 << 20}
    phases = {"init": small, "load": {"allocated": 168 << 20, "reserved": 180 << 20}, "forward": peak, "backward": peak, "checkpoint": small}
    curve = {"ms": [0, 500, 1500], "allocated_mib": [84, batch << 6, 84], "reserved_mib": [90, batch << 6, batch << 6], "phases": [{"from": 1, "phase": "forward"}]}
    held = {"weights": 84 << 20, "gradients": 84 << 20, "optimizer states": 168 << 20}
    record = {"torch": "2.15.0+cu132", "cuda": "13.2", "phases": phases, "held": held, "curve": curve, "steps": 2 if fits else 0}
    if not fits:
        record.update(failure={"type": "torch.OutOfMemoryError", "text": text}, failed_in="backward")
    with open(os.path.join(records, "1.json"), "w") as file:
        json.dump(record, file)
    time.sleep(float(os.environ.get("SLOW", "0")))
if not fits:
    print("torch.OutOfMemoryError: " + text, file=sys.stderr)
    sys.exit(1)
"#;

const TRAINING: &str = "#!/bin/bash
#SBATCH --gres=gpu:a100:1
python3 run_clm.py --per_device_train_batch_size 64 --gradient_accumulation_steps 1 --save_strategy no
";

fn training_place(variables: &[(&str, &str)]) -> Place {
    let mut place = Place::bare();
    place.write("run_clm.py", TRAINS);
    place.write("job.slurm", TRAINING);
    for (name, value) in variables {
        place.set(name, value);
    }
    place
}

/// Says the sizes of a small model, and what an estimate needs of the job besides.
fn known_to_the_closed_form(place: &Place) -> &'static str {
    place.write(
        "model/config.json",
        include_str!("../phantom/job/model/config.json"),
    );
    let sized = "run_clm.py --model_name_or_path model --block_size 256 --bf16 true";
    place.write("job.slurm", &TRAINING.replace("run_clm.py", sized));
    "--set precision=amp"
}

#[test]
fn beside_what_was_measured_stands_what_the_closed_form_says() {
    if !keeps_apart() {
        return;
    }
    let place = training_place(&[("THERE", "64")]);
    let silent = place.run("measure --gpu-memory 8GiB job.slurm").ends(0);
    silent.says(&[
        "The closed form says nothing: the script leaves open what it needs: `--set ",
        "precision=",
    ]);
    let said = known_to_the_closed_form(&place);
    let words = format!("{said} --gpu-memory 8GiB job.slurm");
    let view = place.run(&format!("measure --json {words}")).ends(0).json();
    let compared = view["closed_form"]["compared"].as_array().unwrap();
    let of = |name: &str| {
        let mut all = compared.iter();
        all.find(|term| term["name"] == name)
            .unwrap_or(&Value::Null)
    };
    for (name, gib) in [
        ("weights", 0.082),
        ("gradients", 0.082),
        ("optimizer states", 0.164),
        // A load's copies are not in what init ends with.
        ("init", 0.164),
        ("forward and backward", 4.0),
    ] {
        assert_eq!(of(name)["phantom_gib"], gib, "{compared:?}");
    }
    // 21,041,664 parameters of four bytes.
    assert_eq!(of("weights")["closed_form_gib"], 0.078);
    assert_eq!(of("weights")["apart"], -0.044);
    let estimate = &view["closed_form"]["estimate"];
    assert_eq!(estimate["gpu_gib"], 8.0);
    assert_eq!(view["trust"]["confidence"], "high");
    assert_eq!(
        view["over_time"]["reserved_mib"],
        serde_json::json!([90, 4096, 4096])
    );
    let phases = view["phases"].as_array().unwrap().iter();
    let phases: Vec<&str> = phases.filter_map(|one| one["phase"].as_str()).collect();
    assert_eq!(
        phases,
        ["init", "load", "forward", "backward", "checkpoint"]
    );
    place.run(&format!("measure {words}")).says(&[
        "confidence high\n",
        "closed form: fits",
        "optimizer states         0.2 GiB       0.2 GiB",
    ]);
    // It is told as well where nothing is measured.
    place.write("run_clm.py", "import torch\n");
    place
        .run(&format!("measure {words}"))
        .ends(1)
        .says(&["not measured: the program failed", "closed form: fits"]);
    let other = format!("measure --gpus 2 {words}");
    place
        .run(&other)
        .says(&["The closed form says nothing: it reads the job's 1 GPUs"]);
    let script = place.read("job.slurm");
    place.write(
        "job.slurm",
        &script.replace("python3", "apptainer exec a.sif python3"),
    );
    place.run(&format!("measure {words}")).ends(4).says(&[
        "the job starts its program with apptainer",
        "closed form: unknown whether it fits",
    ]);
}

#[test]
fn what_was_measured_before_is_evidence_for_that_configuration_alone() {
    if !keeps_apart() {
        return;
    }
    let place = training_place(&[("THERE", "64")]);
    let said = known_to_the_closed_form(&place);
    let estimate = |memory: &str| {
        let words = format!("estimate --json {said} --set gpu_memory={memory} job.slurm");
        place.run(&words).ends(0).json()
    };
    let before = estimate("8GiB");
    assert_eq!(before["phantom"], Value::Null);
    place
        .run(&format!("measure {said} --gpu-memory 8GiB job.slurm"))
        .ends(0);
    let after = estimate("8GiB");
    assert_eq!(after["phantom"]["peak"]["allocated"], 64_u64 << 26);
    // The update took 4 GiB of tensors; what lies beside them is as unsure as it was.
    let width =
        |view: &Value| view["high_gib"].as_f64().unwrap() - view["low_gib"].as_f64().unwrap();
    assert!(width(&after) < 0.7 * width(&before), "{before}\n{after}");
    // Another card and another batch were not measured.
    assert_eq!(estimate("16GiB")["phantom"], Value::Null);
    let words = format!("{said} --set gpu_memory=8GiB job.slurm");
    place.run(&format!("plan {words}")).says(&[
        "phantom, measured 20",
        ": allocated 4.0 GiB; fits: 4.0 of 8.0 GiB reserved at the peak",
    ]);
    let plan = place.run(&format!("plan --json {words}")).json();
    assert_eq!(plan["now"]["fits_probability"], 1.0);
    let script = place.read("job.slurm");
    place.write(
        "job.slurm",
        &script.replace("batch_size 64", "batch_size 32"),
    );
    assert_eq!(estimate("8GiB")["phantom"], Value::Null);
    // A program that no formula describes is told by its measurement alone.
    place.write("job.slurm", TRAINING);
    place.run("measure --gpu-memory 8GiB job.slurm").ends(0);
    place
        .run("estimate --set gpu_memory=8GiB job.slurm")
        .ends(5)
        .says(&["phantom, measured 20", "the script leaves open"]);
}

/// A program that waits for a value: it writes the record that PyTorch's recorder would write.
const WAITS: &str = r#"
import json, os, time
record = {"torch": "2.15.0", "cuda": "13.2", "phase": "forward", "reads": {"waits.py:7": 4096}}
with open(os.path.join(os.environ["OOMCTL_PHANTOM_RECORDS"], "1.json"), "w") as file:
    json.dump(record, file)
time.sleep(600)
"#;

#[test]
fn who_waits_sees_how_far_it_is_and_which_line_waits_for_a_value() {
    let place = Place::bare();
    place.write("waits.py", WAITS);
    let terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let line =
        format!("python3 -c '{terminal}' $OOMCTL measure --time-limit 7s -- python3 waits.py");
    place.shell(&line).ends(21).says(&[
        "phantom  5 s: forward",
        "not measured: the time limit came before the first optimizer step ended. waits.py:7 read 4096 values back",
    ]);
    // Nobody looks at a pipe.
    let piped = place
        .run("measure --time-limit 6s -- python3 waits.py")
        .ends(21);
    assert!(!piped.err.contains("5 s:"), "{}", piped.told());
}

/// A step that makes the training job faster, which its preset does not have.
const LARGER: &str = "
tune:
  - gain: 0.2
    because: fewer passes
    step:
      rung: larger
      title: double the batch
      effect: same-math
      when: gradient_accumulation_steps % 2 == 0
      when_text: gradient_accumulation_steps is odd
      moves:
        - { knob: per_device_train_batch_size, times: 2 }
        - { knob: gradient_accumulation_steps, along: true, to_expr: gradient_accumulation_steps // 2 }
      laps: 8
";

#[test]
fn a_proposal_that_dies_on_the_phantom_loses_its_last_steps() {
    if !keeps_apart() {
        return;
    }
    let place = training_place(&[("HERE", "64"), ("THERE", "16")]);
    let preset = include_str!("../../presets/hf-trainer.yaml");
    place.write("presets/hf-trainer.yaml", &format!("{preset}{LARGER}"));
    let said = known_to_the_closed_form(&place);
    place.write(
        "run_clm.py",
        &format!("{TRAINS}\nprint('all steps are done')\n"),
    );
    let small = place
        .read("job.slurm")
        .replace("batch_size 64", "batch_size 4");
    place.write("job.slurm", &small.replace("steps 1", "steps 16"));
    place
        .run(&format!(
            "submit {said} --yes --watch --backend local --set gpu_memory=40GiB job.slurm"
        ))
        .ends(0);
    let without = place.run("tune --json job-1").ends(0).json();
    assert_eq!(
        without["steps"].as_array().map(Vec::len),
        Some(4),
        "{without}"
    );
    assert_eq!(without["phantom"], serde_json::json!([]));
    let with = place.run("tune --measure --json job-1").ends(0).json();
    let fits: Vec<&Value> = with["phantom"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["fits"])
        .collect();
    assert_eq!(fits, [false, false, true], "{with}");
    assert_eq!(with["steps"].as_array().map(Vec::len), Some(2), "{with}");
    let saved = |view: &Value| view["time_saved"].as_f64().unwrap();
    assert!(saved(&with) < saved(&without), "{with}");
    place.run("tune --measure job-1").ends(0).says(&[
        "phantom run 1  does not fit: 1.5 of 40.0 GiB reserved when memory ran out in backward (measured before)",
        "phantom run 3  fits: 1.0 of 40.0 GiB reserved at the peak (measured before); confidence high",
        "not taken a third time: larger: phantom: does not fit",
        "+python3 run_clm.py --model_name_or_path model --block_size 256 --bf16 true --per_device_train_batch_size 16 --gradient_accumulation_steps 4",
    ]);
    place.says(
        "tune --measure --probe-steps 3 job-1",
        2,
        &["cannot be used with"],
    );
}

/// Submits the training job with `more`, and watches it.
fn submitted(place: &Place, more: &str) -> super::place::Done {
    place.run(&format!(
        "submit {more} --yes --watch --backend local --set gpu_memory=2GiB job.slurm"
    ))
}

/// The batches with which the jobs of a run ran, and the facts about phantoms.
fn jobs_and_phantoms(place: &Place, run: &str) -> (usize, Vec<(u64, Value)>) {
    let facts = place.facts(run);
    let jobs = facts.iter().filter(|f| f["fact"] == "submitted").count();
    let phantoms = facts.iter().filter(|f| f["fact"] == "phantom_measured");
    let said = |fact: &Value| {
        (
            fact["attempt"].as_u64().unwrap(),
            fact["check"]["fits"].clone(),
        )
    };
    (jobs, phantoms.map(said).collect())
}

#[test]
fn a_job_that_dies_on_the_phantom_is_submitted_with_the_rungs_that_fit_there() {
    if !keeps_apart() {
        return;
    }
    let place = training_place(&[]);
    let done = submitted(&place, "--measure").ends(0);
    let (jobs, phantoms) = jobs_and_phantoms(&place, "job-1");
    let said = [false, false, true].map(|fits| (1, Value::from(fits)));
    assert_eq!((jobs, phantoms), (1, said.to_vec()), "{}", done.told());
    let script = place.read(".oomctl/runs/job-1/attempt-1/job.slurm");
    assert!(
        script.contains("--per_device_train_batch_size 16"),
        "{script}"
    );
    insta::assert_snapshot!(
        "submit_measure_status",
        place.steady(&place.run("status job-1").out)
    );
    let knob = "per_device_train_batch_size";
    place.run(&format!("explain {knob} --run job-1")).says(&[
        "16 sequences per GPU",
        "phantom     does not fit: 1.5 of 2.0 GiB reserved when memory ran out in backward",
    ]);
    let view = place.run("status job-1 --json").json();
    let check = &view["runs"][0]["attempts"][0]["phantom"][0];
    assert_eq!(check["torch"], "2.15.0+cu132");
    assert_eq!(check["phases"]["backward"]["reserved"], 3_u64 << 29);
    assert!(
        check["replaced"].to_string().contains("is gone afterwards"),
        "{check}"
    );
    assert_eq!(check["over_time"]["allocated_mib"][1], 64 << 6);
    place.run("report job-1").ends(0);
    let page = place.read(".oomctl/runs/job-1/report.html");
    let drawn = "<title>Memory on a phantom GPU before attempt 1 of job-1, in GiB</title>";
    assert!(page.contains(drawn), "{page}");
    // What fits there after the rungs: 16 sequences, 1 GiB of 2.
    assert!(page.contains("allocated: 1.0 GiB</li>"), "{page}");
    // The project can say it once, and what was measured is measured no more.
    place.write("oomctl.yaml", "supervision: { measure: true }\n");
    submitted(&place, "--run again")
        .ends(0)
        .says(&["fits: 1.0 of 2.0 GiB reserved at the peak (measured before); confidence high"]);
}

#[test]
fn after_a_failure_the_next_configuration_is_measured_too_and_never_stops_the_run() {
    if !keeps_apart() {
        return;
    }
    // The phantom is too kind: what fits there died, and the next one is submitted.
    let place = training_place(&[("THERE", "16"), ("HERE", "8")]);
    submitted(&place, "--measure").ends(0);
    let (jobs, phantoms) = jobs_and_phantoms(&place, "job-1");
    assert_eq!(jobs, 2);
    assert_eq!(phantoms.last(), Some(&(2, Value::from(true))));
    // A configuration that the phantom shows not to fit costs no job: 64, then 16 and 8 are submitted, and 32 is not.
    let place = training_place(&[("HERE", "8"), ("THERE", "64"), ("GAP", "32")]);
    submitted(&place, "--measure").ends(0);
    let (jobs, phantoms) = jobs_and_phantoms(&place, "job-1");
    let said = [(1, true), (2, false), (2, true), (3, true)];
    let said = said.map(|(attempt, fits)| (attempt, Value::from(fits)));
    assert_eq!((jobs, phantoms), (3, said.to_vec()));
}

#[test]
fn what_cannot_be_measured_is_submitted_as_it_is() {
    let place = training_place(&[("HERE", "64")]);
    for (from, to, why) in [
        (
            "python3 run",
            "apptainer exec image.sif python3 run",
            "apptainer",
        ),
        ("gpu:a100:1", "gpu:abacus:1", "GPU type abacus"),
    ] {
        place.write("job.slurm", &TRAINING.replace(from, to));
        let said = place
            .run("submit --measure --yes --backend local job.slurm")
            .ends(0);
        assert!(said.err.contains("not measured"), "{}", said.told());
        assert!(said.err.contains(why), "{}", said.told());
    }
    let (jobs, phantoms) = jobs_and_phantoms(&place, "job-1");
    assert_eq!((jobs, phantoms), (1, vec![(1, Value::Null)]));
}

#[test]
fn who_is_killed_while_it_measures_leaves_no_run_and_no_process() {
    if !keeps_apart() {
        return;
    }
    let mut place = training_place(&[("SLOW", "600")]);
    let mark = place.path("mark").display().to_string();
    let there = format!("run_clm.py --output_dir {mark}");
    place.write("job.slurm", &TRAINING.replace("run_clm.py", &there));
    let words = "submit --measure --yes --backend local --set gpu_memory=2GiB job.slurm";
    let words: Vec<&str> = words.split(' ').collect();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let started = place.start(&words);
        place.wait_for("the program on the phantom", || lives(&mark) > 0);
        started.signal(signal);
        started.end();
        place.wait_for("its end", || lives(&mark) == 0);
        assert!(!place.has(".oomctl/runs/job-1"));
    }
    // The same command again submits once, and nothing of before is in the way.
    place.set("SLOW", "0");
    submitted(&place, "--measure").ends(0);
    assert_eq!(jobs_and_phantoms(&place, "job-1").0, 1);
}
