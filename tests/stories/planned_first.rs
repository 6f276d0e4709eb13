//! What a plan says before a job is submitted: tasks, conditions, losses, programs that are not there.

use super::interactive::TerminalDialog;
use super::place::{Place, install};
use super::slurm::Slurm;

const HEAD: &str = "#!/bin/bash\n#SBATCH -t 10 --gres=gpu:1\n";

/// A program with a batch and an accumulation, on a scripted Slurm.
fn place() -> (Place, Slurm) {
    let mut place = Place::bare();
    let slurm = Slurm::before(&mut place);
    place.write("train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\n\
        p.add_argument('--grad-accum', type=int)\np.add_argument('--lr', type=float)\nargs = p.parse_args()\n");
    (place, slurm)
}

fn job(command: &str) -> String {
    format!("{HEAD}{command}\n")
}

fn with(script: &str) -> (Place, Slurm) {
    let (place, slurm) = place();
    place.write("job.sh", &format!("{HEAD}{script}"));
    (place, slurm)
}

#[test]
fn an_example_asks_before_it_takes_gpus_and_says_that_its_program_is_not_there() {
    let (mut place, slurm) = place();
    let bin = place.root.join("python");
    std::fs::create_dir(&bin).unwrap();
    // A Python that lacks the module, whatever this machine has.
    install(
        &bin.join("python3"),
        "#!/bin/bash\n[ \"$1\" = -c ] && exit 3\n",
    );
    place.first_on_path.push(bin.clone());
    let words = ["submit", "--dataset", "diamonds-seed0"];
    let mut asking = TerminalDialog::start(&place, &words);
    asking.until("python3 finds no module verl here");
    asking.answer("Submit diamonds-seed0-1 (1 node, 4 GPUs)? [y/N]: ", "");
    asking.ends("nothing was submitted", 9);
    assert!(slurm.accepted().is_empty() && !place.has(".oomctl/runs"));
    // The module may be elsewhere than in this shell.
    place.write(
        "oomctl.yaml",
        "knobs:\n  setup: ['source env/bin/activate']\n",
    );
    let done = place.run("submit --yes --dataset diamonds-seed0").ends(0);
    assert!(!done.told().contains("no module"), "{}", done.told());
    place.write("oomctl.yaml", "{}\n");
    install(&bin.join("python3"), "#!/bin/bash\nexit 0\n");
    // Where nobody can answer, nobody is asked.
    let done = place.run("submit --dataset diamonds-seed0").ends(0);
    assert!(!done.told().contains("no module"), "{}", done.told());
    assert_eq!(slurm.accepted().len(), 2);
}

#[test]
fn what_only_submits_other_jobs_is_told_so_first_and_alone() {
    let (place, _slurm) =
        with("for lr in 1 2; do\nsbatch <<EOF\n#!/bin/bash\npython train.py --lr $lr\nEOF\ndone\n");
    let done = place.run("plan job.sh").ends(0);
    let first = done.out.lines().next().unwrap_or_default();
    assert!(
        first.contains("submits further jobs") && first.contains("`oomctl watch JOBID`"),
        "{}",
        done.out
    );
    assert!(
        !done.out.contains("can change nothing") && !done.out.contains("--preset"),
        "{}",
        done.out
    );
    place.write(
        "launch.py",
        "import subprocess\nsubprocess.run(['sbatch', 'job.sh'])\n",
    );
    let done = place.run("submit --yes launch.py");
    done.says(&["`oomctl watch JOBID` takes each of them over"]);
    assert!(!done.told().contains("usr/bin/env"), "{}", done.told());
}

#[test]
fn the_only_script_of_a_folder_is_planned() {
    let (place, _slurm) = with("python train.py --batch-size 64 --grad-accum 1\n");
    place
        .run("plan")
        .ends(0)
        .says(&["job.sh is the only job script here", "--batch-size 64 -> 1"]);
    place.write("other.sh", &job("python train.py"));
    place.says("plan", 5, &["there is no oomctl.yaml here or above"]);
}

#[test]
fn a_run_that_is_not_there_is_no_path() {
    let place = Place::bare();
    place.says("prune --yes nosuch", 2, &["no run or job named \"nosuch\""]);
}

#[test]
fn the_values_of_a_task_are_looked_up_in_its_table() {
    let (place, _slurm) = place();
    place.write("table.csv", "id,lr,bs\n1,1e-3,64\n2,3e-4,32\n");
    place.write("lines.txt", "1e-3 64 0.1\n3e-4 32 0.0\n");
    let train = "python train.py --lr $LR --batch-size $BS --grad-accum 1\n";
    let awk = |column| {
        format!("$(awk -F, -v id=$SLURM_ARRAY_TASK_ID '$1==id {{print ${column}}}' table.csv)")
    };
    for table in [
        format!("LR={}\nBS={}\n", awk(2), awk(3)),
        "read -r LR BS WD <<< \"$(sed -n \"${SLURM_ARRAY_TASK_ID}p\" lines.txt)\"\n".to_owned(),
        "LINE=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" table.csv)\nIFS=, read -r ID LR BS <<< \"$LINE\"\n".to_owned(),
        "LINE=$(head -n $SLURM_ARRAY_TASK_ID lines.txt | tail -n 1)\nLR=$(echo $LINE | cut -d' ' -f1)\nBS=$(echo $LINE | awk '{print $2}')\n".to_owned(),
    ] {
        place.write("job.sh", &format!("{HEAD}#SBATCH --array=1-2\n{table}{train}"));
        let said = place.run("plan --all --sbatch=--array=2 job.sh").ends(0);
        said.says(&["32 -> 16", "--grad-accum 2"]);
        place.run("plan job.sh").ends(0).says(&["shown is the first task", "batch_size: 64 in task 1, 32 in task 2", "--batch-size 64 -> "]);
    }
    // A table that the script writes is not the one that is here.
    place.write("job.sh", &format!("{HEAD}printf '1 2 3' > lines.txt\nread -r LR BS WD <<< \"$(sed -n 1p lines.txt)\"\n{train}"));
    let said = place.run("plan job.sh").ends(0);
    assert!(!said.out.contains("batch_size 64"), "{}", said.out);
}

#[test]
fn programs_that_srun_starts_together_are_told_apart() {
    let (place, _slurm) = with(
        "srun -n1 python monitor.py --every 4 : -n1 python train.py --batch-size 64 --grad-accum 1\n",
    );
    place.write("monitor.py", "print(1)\n");
    let said = place.run("plan --all job.sh").ends(0);
    said.says(&[
        "64 -> 32",
        "+srun -n1 python monitor.py --every 4 : -n1 python train.py --batch-size 32 --grad-accum 2",
    ]);
}

#[test]
fn a_condition_that_is_false_unless_somebody_sets_it_ends_no_help() {
    for test in [
        "[[ -n ${DEBUG:-} ]] && ",
        "[ -n \"${DEBUG:-}\" ] && ",
        "[[ -z ${DEBUG:-} ]] || ",
        "[[ ${DEBUG:-0} == 1 ]] && ",
        "[ \"${DEBUG:-0}\" -ne 1 ] || ",
    ] {
        let (mut place, _slurm) = with(&format!(
            "ARGS=(--batch-size 64 --grad-accum 1)\n{test}ARGS+=(--batch-size 2)\npython train.py \"${{ARGS[@]}}\"\n"
        ));
        place
            .run("plan job.sh")
            .ends(0)
            .says(&["--batch-size 64 -> "]);
        place.set("DEBUG", "1");
        place
            .run("plan job.sh")
            .ends(0)
            .says(&["--batch-size 2 -> 1"]);
    }
    // What the job alone knows stays open.
    let (place, _slurm) = with(
        "BS=64\n[[ $(hostname) == a* ]] && BS=2\npython train.py --batch-size $BS --grad-accum 1\n",
    );
    let said = place.run("plan job.sh").ends(0);
    assert!(!said.out.contains("64 -> "), "{}", said.out);
}

#[test]
fn a_loss_over_the_tokens_of_a_micro_batch_does_not_stay_the_same() {
    let mut place = Place::bare();
    let _slurm = Slurm::before(&mut place);
    place.write("grpo.py", "from trl import GRPOConfig, GRPOTrainer, TrlParser\nargs, = TrlParser((GRPOConfig,)).parse_args_and_config()\n\
        GRPOTrainer(model='m', args=args).train()\n");
    let batches = "--per_device_train_batch_size 8 --gradient_accumulation_steps 2 --output_dir o";
    for (name, program) in [
        ("own", "grpo.py --num_generations 2"),
        ("bnpo", "grpo.py --num_generations 2 --loss_type bnpo"),
        ("swift", "swift rlhf --rlhf_type kto --model m"),
    ] {
        let run = program.split_once(".py").map_or("", |_| "python3 ");
        place.write(
            &format!("{name}.sh"),
            &job(&format!("{run}{program} {batches}")),
        );
    }
    place.write("kto.yaml", "stage: kto\ndo_train: true\nmodel_name_or_path: m\nper_device_train_batch_size: 8\ngradient_accumulation_steps: 2\ncutoff_len: 1024\n");
    place.write("kto.sh", &job("llamafactory-cli train kto.yaml"));
    for (words, same) in [
        ("own.sh", true),
        ("--set trl_version=0.21.0 own.sh", false),
        ("--set trl_version=0.16.0 own.sh", false),
        ("--set trl_version=0.15.2 own.sh", true),
        ("bnpo.sh", false),
        ("swift.sh", false),
        ("kto.sh", false),
    ] {
        let kept = place.run(&format!("plan --same-math {words}")).ends(0);
        assert_eq!(
            kept.told().contains("batch_size 8 -> "),
            same,
            "{words}\n{}",
            kept.told()
        );
        let any = place.run(&format!("plan {words}")).ends(0);
        assert!(
            any.told().contains("batch_size 8 -> "),
            "{words}\n{}",
            any.told()
        );
    }
}

#[test]
fn a_program_of_which_nothing_is_here_is_a_warning() {
    for program in ["foo/zzz.py", "zzz.py"] {
        let (place, _slurm) = with(&format!("python3 {program} --batch-size 64\n"));
        let said = place.run("submit --yes job.sh").ends(0);
        said.says(&[&format!("file not found: {program}")]);
    }
    // A node's own folder may have it.
    let (place, _slurm) = with("python3 /node/zzz.py --batch-size 64\n");
    place.run("submit --yes job.sh").ends(0);
}

#[test]
fn an_option_of_oomctl_behind_a_script_that_reads_none_is_refused() {
    let (place, slurm) = with("python train.py --batch-size 64\n");
    let what = "--watch comes after job.sh, which reads no arguments";
    place.says("submit --yes job.sh --watch", 2, &[what]);
    place.says("plan job.sh --watch", 2, &[what]);
    assert!(slurm.accepted().is_empty());
}

#[test]
fn without_a_project_file_and_a_terminal_nothing_is_submitted_unasked() {
    let (place, slurm) = place();
    let said = place.run("submit --dataset diamonds-seed0").ends(2);
    said.says(&["no oomctl.yaml here", "`oomctl init` writes the file"]);
    assert!(slurm.accepted().is_empty());
}

#[test]
fn why_nobody_knows_what_a_rung_does_stands_above_the_table() {
    let (place, _slurm) = with("python train.py --batch-size 64 --grad-accum 1\n");
    let said = place.run("plan job.sh").ends(0);
    said.says(&[
        "\nunknown: ",
        "--batch-size 64 -> 1, --grad-accum 1 -> 64",
        "unknown",
    ]);
}
