//! What one command found out and the next one knows, and answers with a way on.

use super::launch;
use super::nvml::Gpus;
use super::place::Place;

/// Runs out of memory above 4 sequences a GPU, and prints what it is of.
const TRAIN: &str = "try:
    from transformers import Trainer, TrainingArguments
except ImportError:
    pass
import sys
at = sys.argv.index('--per_device_train_batch_size')
print('transformers==4.46.1')
if int(sys.argv[at + 1]) > 4:
    sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 15.66 GiB. GPU 0 has a total capacity of 79.10 GiB of which 2.12 GiB is free. Including non-PyTorch memory, this process has 76.90 GiB memory in use. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.')
";

const JOB: &str = "#!/bin/bash
#SBATCH --gres=gpu:1
python3 train.py --per_device_train_batch_size 8 --model_name_or_path gpt2
";

/// A folder in which a run found out that 4 fit, and 8 do not.
fn taught() -> Place {
    let place = Place::bare();
    place.write("train.py", TRAIN);
    place.write("job.sh", JOB);
    let words = "submit -y -w --one-rung --backend local job.sh";
    place.says(words, 0, &["transformers 4.46.1, as "]);
    place
}

#[test]
fn the_version_that_a_run_showed_is_that_of_the_next_plan_and_of_the_advice_on_it() {
    let place = taught();
    let shown = "transformers 4.46.1, as ";
    let plan = place.run("plan --backend local job.sh").ends(0);
    plan.says(&[shown, "says (run job-1)", "as in run job-1, attempt 2"]);
    assert!(
        !plan.told().contains("version not found"),
        "{}",
        plan.told()
    );
    place.says(
        "fix job-1",
        0,
        &["job-1 fits with --per_device_train_batch_size 4"],
    );
    // It is read again from each log: an environment may be renewed.
    place.write("train.py", &TRAIN.replace("4.46.1", "4.48.0"));
    let words = "submit -y -w --backend local job.sh";
    place.says(words, 0, &["transformers 4.48.0, as "]);
    place.says(
        "plan job.sh",
        0,
        &["transformers 4.48.0, as ", "(run job-2)"],
    );
    // What the script itself says is nearer, and another script is another job.
    let own = JOB.replace("python3", "pip install transformers==4.40.0\npython3");
    place.write("job.sh", &own);
    place.says("plan job.sh", 0, &["transformers 4.40.0, as job.sh:3 says"]);
    place.write("other.sh", JOB);
    place.says("plan other.sh", 0, &["transformers version not found"]);
}

/// What only `--set` says of a script, and makes an estimate possible, makes no other job of it.
#[test]
fn what_a_run_proved_is_said_beside_an_estimate_however_the_job_is_described() {
    let place = taught();
    let described = "--backend local --set precision=amp --set block_size=512";
    let card = "--set gpu_memory=79.18GiB job.sh";
    let plan = format!("plan {described} {card}");
    place.says(&plan, 0, &["start      as in run job-1, attempt 2"]);
    let estimate = format!("estimate {described} {card}");
    let failed = "proven     run job-1, attempt 1, ran out of GPU memory";
    place.says(&estimate, 0, &[failed]);
    // What fitted accumulated over two forwards, which takes no less.
    place.write("job.sh", &JOB.replace("_size 8", "_size 4"));
    let fitted = "proven     run job-1, attempt 2 fitted with this or more";
    place.says(&estimate, 0, &[fitted]);
}

#[test]
fn a_card_that_was_described_otherwise_teaches_nothing() {
    let place = taught();
    let card = |gib| format!("--backend local --set gpu_memory={gib}GiB job.sh");
    let submit = format!("submit -y -w --fresh --one-rung {}", card("79.18"));
    place.run(&submit).ends(0);
    std::fs::remove_dir_all(place.path(".oomctl/runs/job-1")).unwrap();
    let facts = place.read(".oomctl/fits.jsonl");
    let of_second: Vec<&str> = facts.lines().filter(|l| l.contains("job-2")).collect();
    place.write(".oomctl/fits.jsonl", &(of_second.join("\n") + "\n"));
    let same = place.run(&format!("plan {}", card("79.18"))).ends(0);
    same.says(&["start      as in run job-2"]);
    let other = place.run(&format!("plan {}", card("39.39"))).ends(0);
    other.says(&["fitted, but with gpu_memory 79.18GiB (here 39.39GiB)"]);
}

#[test]
fn values_that_are_still_to_be_filled_in_are_named_in_one_list() {
    let place = Place::bare();
    place.run("init --preset torchrun").ends(0);
    let missing = [
        "2 required values are missing. Give them under `knobs:` in oomctl.yaml",
        "\n  script: ",
        "\n  batch_size: ",
    ];
    place.says("plan", 5, &missing);
    let file = place.read("oomctl.yaml");
    place.write("oomctl.yaml", &file.replacen("FILL_IN", "train.py", 1));
    place.says(
        "plan",
        5,
        &["a required value is missing", "\n  batch_size: "],
    );
}

#[test]
fn wrong_words_are_answered_with_those_that_are_right() {
    let place = taught();
    place.says(
        "history --state foo",
        2,
        &[
            "no state is named foo",
            "completed, completing",
            "succeeded",
        ],
    );
    place.says("history --state TIMEOUT", 0, &["no attempt matches"]);
    place.says(
        "tune job.sh",
        2,
        &["job.sh is a file", "`oomctl submit -w job.sh`"],
    );
    place.says(
        "presets job.sh",
        5,
        &["job.sh is a file", "`oomctl plan job.sh`"],
    );
    let measure = place.run("measure job.sh --steps 2");
    measure.says(&["note: --steps comes after SCRIPT, so it is passed to the script"]);
    let effect = "halve-batch-keep-effective (same math as a whole)";
    let explain = "explain per_device_train_batch_size --run job-1";
    place.says(explain, 0, &["by itself   changes training", effect]);
    place.says(
        "plan -v --fresh --backend local job.sh",
        0,
        &["node failure (up to 3x), preemption (up to 10x)"],
    );
}

const ILLEGAL: &str = "  File \"train.py\", line 61, in <module>
    loss.backward()
torch.AcceleratorError: CUDA error: an illegal memory access was encountered
";

#[test]
fn an_illegal_access_is_looked_for_and_not_made_smaller() {
    let place = Place::bare();
    place.write("job.err", ILLEGAL);
    place.says(
        "diagnose job.err",
        0,
        &[
            "CUDA_LAUNCH_BLOCKING=1",
            "compute-sanitizer",
            "smaller batches and more memory change nothing",
        ],
    );
}

#[test]
fn a_sweep_of_another_framework_than_the_projects_says_by_which_it_is_judged() {
    let place = Place::with("preset: torchrun");
    place.write("train.py", TRAIN);
    let sweep = "program: train.py\nmethod: grid\nparameters:\n  per_device_train_batch_size: { values: [4, 8] }\n";
    place.write("sweep.yaml", sweep);
    let done = place.run("sweep check sweep.yaml --set script=train.py --set batch_size=8");
    done.says(&[
        "note: the sweep starts a program of hf-trainer, but oomctl.yaml says `preset: torchrun`",
        "`--preset hf-trainer`",
    ]);
}

const PARSER: &str = "import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--batch_size', type=int)
parser.parse_args()
";

#[test]
fn a_program_on_the_cpu_gets_no_option_that_its_parser_refuses() {
    let gpus = Gpus::new(&["init error=9"]);
    let place = launch::place(&gpus);
    place.write("t.py", PARSER);
    let run = |place: &Place| launch::run(place, &["--allow-cpu"], "python3 t.py --batch_size 8");
    run(&place)
        .ends(0)
        .says(&["on the CPU: python3 t.py --batch_size 8\n"]);
    let takes = "parser.add_argument('--device')\nparser.parse_args()";
    place.write("t.py", &PARSER.replace("parser.parse_args()", takes));
    run(&place)
        .ends(0)
        .says(&["t.py --batch_size 8 --device cpu\n"]);
}
