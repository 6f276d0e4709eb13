//! A program on phantom GPUs. PyTorch itself is run by tests/phantom/run; here a few lines of Python ask CUDA's library, and a
//! made-up `torch` stands for what cannot be measured.

use serde_json::Value;

use super::place::Place;

/// What a program without PyTorch sees: the card, its memory, and that it is full.
const ASKS: &str = "
import ctypes, sys
cuda = ctypes.CDLL(None)
free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
print('total', total.value, file=sys.stderr)
print('small', cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 30)), file=sys.stderr)
print('large', cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 40)), file=sys.stderr)
cuda.cufftCreate()
import socket, os
print('tmp', os.environ['TMPDIR'], file=sys.stderr)
";

#[test]
fn a_program_sees_a_card_that_is_not_there_and_what_it_lacks_is_named() {
    let place = Place::bare();
    place.write("asks.py", ASKS);
    let words = [
        "measure",
        "--json",
        "--gpu-type",
        "a100-40gb",
        "--",
        "python3",
        "asks.py",
    ];
    let done = place.run(&words).ends(1);
    let total = (39.39 * f64::from(1 << 30)) as u64;
    assert!(
        done.err.contains(&format!("total {total}")),
        "{}",
        done.told()
    );
    assert!(done.err.contains("small 0\nlarge 2\n"), "{}", done.told());
    let view: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(view["source"], "phantom");
    assert_eq!(view["outcome"], "unmeasured");
    assert_eq!(view["unknown_calls"], serde_json::json!(["cufftCreate"]));
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
        .run(&["measure", "--", "python3", "cpu.py"])
        .ends(1)
        .says(&["not measured: PyTorch 2.9.1+cpu is built for the CPU"]);
    place
        .run(&["measure", "--time-limit", "1s", "--", "python3", "slow.py"])
        .ends(21);
    place
        .run(&["measure", "--", "no-such-program"])
        .ends(127)
        .says(&["there is no program no-such-program"]);
    place
        .run(&["measure", "--gpu-type", "a100", "--", "true"])
        .ends(2)
        .says(&["GPU type a100 has 79.15GiB or 39.39GiB", "--gpu-memory"]);
    place
        .run(&["measure", "--gpu-type", "abacus", "--", "true"])
        .ends(2)
        .says(&["GPU type abacus"]);
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
    let words = [
        "--map-root-user",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "true",
    ];
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
    let words = [
        "measure",
        "--gpu-memory",
        "40GiB",
        "--gpus",
        "2",
        "job.slurm",
    ];
    place.run(&words).ends(1).says(&["rank 0 of 2"]);
}

#[test]
fn a_job_that_cannot_be_started_here_is_refused_in_a_sentence() {
    let place = job_place();
    let script = |line: &str| format!("#!/bin/bash\n#SBATCH --gres=gpu:a100-40gb:1\n{line}\n");
    for (line, said) in [
        (
            "python3 run_clm.py --per_device_train_batch_size $(cat n) --save_strategy no",
            "the script's value of per_device_train_batch_size, `$(cat n)`, is computed there",
        ),
        (
            "apptainer exec image.sif python3 run_clm.py --save_strategy no",
            "the job starts its program with apptainer, which oomctl cannot do here",
        ),
        (
            "echo nothing",
            "the script starts no program that oomctl can follow",
        ),
    ] {
        place.write("job.slurm", &script(line));
        let done = place.run(&["measure", "job.slurm"]);
        assert!(done.err.contains(said), "{}", done.told());
        assert_ne!(done.code, 0);
    }
    place.write(
        "job.slurm",
        "#!/bin/bash\npython3 run_clm.py --save_strategy no\n",
    );
    place.run(&["measure", "job.slurm"]).ends(2).says(&[
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
            .run(&["measure", "--", "python3", "fails.py"])
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
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lives = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words
            .windows(mark.len())
            .any(|part| part == mark.as_bytes())
    };
    assert_eq!(
        processes
            .filter(|_| true)
            .map(lives)
            .filter(|lives| *lives)
            .count(),
        0
    );
}
