//! Scripts of the user's own, submitted on this machine: as they are, and again with the smallest patch.

use std::fs;

use super::place::{Place, install};
use oomctl::core::config::parse_preset;
use oomctl_diagnose::{ProgressPattern, Scanner};

const JOB: &str = "#!/bin/bash
#SBATCH --job-name=gems
#SBATCH --output=out/%x-%j.log
#SBATCH --gres=gpu:4
BS=32
echo \"args: $*\"
bash tools/train.sh \"$1\" $BS
";

/// Runs out of memory above a batch of 8, and says where it runs.
const LAUNCHER: &str = "#!/bin/bash
# keep me
cd \"$(dirname \"$0\")/..\"
echo \"in $(pwd)\"
torchrun --nproc_per_node=1 train.py --batch_size \"$2\" \\
    --gradient_accumulation_steps=2   # and me
";

const TORCHRUN: &str = "#!/bin/bash
all=\"$*\"; batch=${all#*--batch_size }; batch=${batch%% *}
echo \"batch $batch of $*\"
[ \"$batch\" -le 8 ] && exit 0
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2
exit 1
";

pub fn place() -> Place {
    let mut place = Place::with("backend: local\none_rung: true\nlimits: { attempts: 6 }");
    fs::create_dir_all(place.root.join("tools")).unwrap();
    place.write("job.slurm", JOB);
    place.write("tools/train.sh", LAUNCHER);
    place.write("train.py", "import torch\n");
    let bin = place.home.join("bin");
    fs::create_dir_all(&bin).unwrap();
    install(&bin.join("torchrun"), TORCHRUN);
    place.first_on_path.push(bin);
    place
}

#[test]
fn a_script_goes_from_out_of_memory_to_success_and_its_files_stay_as_they_are() {
    let place = place();
    let words = [
        "submit",
        "--yes",
        "--watch",
        "--run",
        "r",
        "--",
        "job.slurm",
        "two words",
        "--yes",
    ];
    let done = place.run(&words).ends(0);
    done.says(&[
        "your own program: oomctl changes its options or settings files",
        "halve-batch-keep-effective",
    ]);
    assert_eq!(place.read("job.slurm"), JOB);
    assert_eq!(place.read("tools/train.sh"), LAUNCHER);
    let last = place.read(".oomctl/runs/r/attempt-3/slurm.out");
    let root = place.root.display().to_string();
    // What stands behind the script is the script's, and the copy runs where the original would.
    assert!(last.contains("args: two words --yes\n"), "{last}");
    assert!(last.contains(&format!("in {root}\n")), "{last}");
    assert!(
        last.contains(
            "batch 8 of --nproc_per_node=1 train.py --batch_size 8 --gradient_accumulation_steps=8"
        ),
        "{last}"
    );
    let linked = fs::read_link(place.root.join("out/gems-3.log")).unwrap();
    assert!(linked.ends_with("attempt-3/slurm.out"), "{linked:?}");
}

#[test]
fn the_first_attempt_has_one_line_of_ours_and_a_later_one_the_smallest_patch() {
    let place = place();
    place
        .run(&["submit", "--yes", "--watch", "--run", "r", "job.slurm"])
        .ends(0);
    let first = place.read(".oomctl/runs/r/attempt-1/job.slurm");
    let ours: Vec<&str> = first.lines().filter(|l| l.contains("oomctl")).collect();
    assert_eq!(ours.len(), 1, "{first}");
    assert!(
        ours[0].contains("claim.sh") && ours[0].contains("sampler.sh"),
        "{first}"
    );
    assert_eq!(first.replace(&format!("{}\n", ours[0]), ""), JOB);
    let second = place.read(".oomctl/runs/r/attempt-2/train.sh");
    assert!(
        second.contains("# keep me\n") && second.contains("   # and me\n"),
        "{second}"
    );
    let patch = place.read(".oomctl/runs/r/attempt-2/patch.diff");
    for line in [
        "-BS=32\n",
        "+BS=16\n",
        "-    --gradient_accumulation_steps=2   # and me\n",
        "+    --gradient_accumulation_steps=4   # and me\n",
        "+cd \"$(dirname \"${oomctl_self}\")/..\"\n",
    ] {
        assert!(patch.contains(line), "{line:?} is not in\n{patch}");
    }
    // A scheduler that started a job twice: the second of an attempt ends at once.
    let job = place.root.join(".oomctl/runs/r/attempt-1/job.slurm");
    let again = std::process::Command::new("bash")
        .arg(job)
        .env("OOMCTL_JOB_ID", "77")
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(75), "{again:?}");
}

/// A supervisor decides with what a run has tried; `plan --after` decides alike.
#[test]
fn the_decision_after_a_run_is_that_of_its_last_failure_with_its_history() {
    let place = place();
    place
        .run(&["submit", "--yes", "--watch", "--run", "r", "job.slurm"])
        .ends(0);
    let plan = |words: &[&str]| place.run(&[&["plan", "--json", "--after"], words].concat());
    let batch = |plan: &serde_json::Value| {
        let changes = plan["steps"][0]["changes"].as_array().unwrap();
        let batch = changes
            .iter()
            .find(|c| c["from"].as_i64() > c["to"].as_i64());
        batch.map(|c| (c["from"].as_i64().unwrap(), c["to"].as_i64().unwrap()))
    };
    let after = plan(&["r"]).ends(0).json();
    assert_eq!(after["attempt"], "r, attempt 2 (job 2)");
    assert_eq!(batch(&after), Some((16, 8)));
    let first = plan(&["1"]).ends(0).json();
    assert_eq!(first["attempt"], "r, attempt 1 (job 1)");
    assert_eq!(batch(&first), Some((32, 16)));
    // What the run was asked to do is not mixed with something else.
    for more in [&["r", "job.slurm"][..], &["r", "--policy", "predict"]] {
        plan(more)
            .ends(2)
            .says(&["r is a run, and has its own configuration"]);
    }
    // A log is of the script that stands behind it, as it is now.
    let log = ".oomctl/runs/r/attempt-2/slurm.out";
    let now = plan(&[log, "job.slurm"]).ends(0).json();
    assert_eq!(
        (batch(&now), &now["attempt"]),
        (Some((32, 16)), &serde_json::Value::Null)
    );
}

#[test]
fn no_sampler_is_started_where_the_project_says_so() {
    let place = place();
    let sampled = place.run(&["plan", "--all", "job.slurm"]).ends(0);
    sampled.says(&["sampler.sh"]);
    let config = place.read("oomctl.yaml") + "\nknobs: { sampler: false }\n";
    place.write("oomctl.yaml", &config);
    place
        .run(&["submit", "--yes", "--run", "r", "job.slurm"])
        .ends(0);
    let folder = place.root.join(".oomctl/runs/r/attempt-1");
    assert!(!folder.join("sampler.sh").exists());
}

#[test]
fn what_one_run_of_a_script_taught_is_where_the_next_one_starts() {
    let place = place();
    let computed = LAUNCHER.replace("\"$2\"", "$(cat batch)");
    place.write("tools/train.sh", &computed);
    let unknown = place.run(&["plan", "--all", "job.slurm"]).ends(0);
    unknown.says(&["later runs learn nothing from this one: batch_size is computed"]);
    place.write("tools/train.sh", LAUNCHER);
    place
        .run(&["submit", "--yes", "--watch", "--run", "r", "job.slurm"])
        .ends(0);
    let words = ["submit", "--yes", "--watch", "--run", "s", "job.slurm"];
    place.run(&words).ends(0).says(&[
        "start      as in run r, attempt 3, which fitted",
        "batch_size 32 -> 8",
        "your script with the values that earlier runs needed",
    ]);
    let log = place.read(".oomctl/runs/s/attempt-1/slurm.out");
    assert!(log.contains("batch 8 of"), "{log}");
    assert_eq!(place.read("job.slurm"), JOB);
    let fresh = ["submit", "--fresh", "--dry-run", "job.slurm"];
    let done = place.run(&fresh).ends(0);
    done.says(&["your script as it is"]);
    // Another model or another program is another job.
    for other in ["train.py --model huge", "other.py"] {
        place.write("tools/train.sh", &LAUNCHER.replace("train.py", other));
        let other = ["submit", "--dry-run", "job.slurm"];
        let done = place.run(&other).ends(0);
        done.says(&["your script as it is"]);
        assert!(!done.told().contains("start  "), "{}", done.told());
    }
}

#[test]
fn what_would_be_changed_is_shown_and_has_to_be_agreed_to() {
    let place = place();
    let done = place.run(&["submit", "job.slurm"]).ends(2);
    done.says(&["no terminal to ask", "--yes", "batch_size 32 -> 1,"]);
    assert!(!place.root.join(".oomctl/runs").exists());
    let all = place.run(&["plan", "--all", "job.slurm"]).ends(0);
    all.says(&["halve-batch-keep-effective", "+BS=16"]);
    // A dry run is the table, and says where the rest is.
    let dry = place.run(&["submit", "-n", "job.slurm"]).ends(0);
    insta::assert_snapshot!("dry_run_of_a_script", dry.told());
    let view = place.json("plan --json job.slurm");
    assert_eq!(view["schema_version"], 1);
    assert_eq!(view["attempts"][1]["attempt"], 2);
    assert!(!place.root.join(".oomctl/runs").exists());
    place
        .run(&["submit", "--yes", "--run", "r", "job.slurm"])
        .ends(0);
    place.says("plan --all r", 0, &["+BS=16"]);
}

#[test]
fn what_sbatch_would_refuse_is_refused_with_a_way_out() {
    let place = place();
    let cases: [(&str, &[u8], &str); 4] = [
        ("binary", b"\x7fELF\0\x01", "is binary"),
        ("empty", b"\n", "is empty"),
        ("plain.py", b"print(1)\n", "does not start with `#!`"),
        ("dos", b"#!/bin/bash\r\necho x\r\n", "DOS line ends"),
    ];
    for (name, text, says) in cases {
        fs::write(place.root.join(name), text).unwrap();
        place.says(&["submit", "--yes", name], 5, &[says, "hint:"]);
    }
    place.says("submit --yes tools", 5, &["is a directory"]);
    place
        .run("submit --yes gone.slurm")
        .ends(2)
        .says(&["cannot read the job script gone.slurm", "hint:"]);
    place
        .run("submit --yes --dataset diamonds-seed0 job.slurm")
        .ends(2)
        .says(&["--dataset before SCRIPT needs a project file"]);
    for (directive, says) in [
        ("--wait", "--wait"),
        ("--array=0-9", "Slurm is not available here"),
        ("--test-only", "--test-only"),
        ("hetjob", "a heterogeneous job is several jobs"),
    ] {
        place.write(
            "odd.slurm",
            &format!("#!/bin/bash\n#SBATCH {directive}\ntrue\n"),
        );
        place.says("submit --yes odd.slurm", 2, &[says, "hint:"]);
    }
    assert!(!place.root.join(".oomctl/runs").exists());
}

#[test]
fn a_program_that_nobody_knows_is_run_and_diagnosed_and_what_to_change_is_told() {
    let place = place();
    let program = place.home.join("bin/unheard-of");
    install(
        &program,
        &TORCHRUN.replace("[ \"$batch\" -le 8 ] && exit 0\n", ""),
    );
    place.write("odd.slurm", "#!/bin/bash\nunheard-of\n");
    let done = place
        .run(&["submit", "--yes", "--watch", "odd.slurm"])
        .ends(3);
    done.says(&[
        "framework not recognised",
        "GPU 0 ran out of memory",
        "change by hand: ",
    ]);
}

#[test]
fn a_value_that_a_script_computes_is_moved_by_no_rung() {
    let place = place();
    let launcher = LAUNCHER.replace("--batch_size \"$2\"", "--batch_size $(expr 16)");
    place.write("tools/train.sh", &launcher);
    let view = place.json("plan --json job.slurm");
    let attempts = view["attempts"].as_array().unwrap();
    let moved = attempts.iter().flat_map(|a| a["rungs"].as_array().unwrap());
    let moved = moved.flat_map(|r| r["changes"].as_array().unwrap());
    assert!(
        moved.into_iter().all(|c| c["knob"] != "batch_size"),
        "{view}"
    );
    let told = place.run(&["plan", "--all", "job.slurm"]).ends(0);
    told.says(&[
        "batch_size is computed there (tools/train.sh:5), so no rung changes it",
        "--batch_size VALUE",
    ]);
}

#[test]
fn a_value_that_a_script_chooses_stays_and_the_plan_says_how_to_give_it() {
    let place = place();
    let chosen =
        "if [ -n \"$DEBUG\" ]; then BS=2; else BS=64; fi\npython3 train.py --batch-size $BS";
    let script = format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{chosen} \"$@\"\n");
    place.write("chosen.slurm", &script);
    let declared = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\n";
    place.write("train.py", declared);
    let plan = place.run(&["plan", "chosen.slurm"]).ends(0).told();
    for said in [
        "no rung changes batch_size (chosen.slurm:3): it is set under a condition",
        "end the command with \"$@\", then `oomctl submit chosen.slurm --batch-size VALUE`",
        "batch_size stays: chosen.slurm:3 sets it under a condition",
    ] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    let estimate = place.run(&["estimate", "chosen.slurm"]).ends(5).told();
    let open = "--set batch_size=N (chosen.slurm:3 sets it under a condition)";
    assert!(estimate.contains(open), "{estimate}");
    let given = ["plan", "chosen.slurm", "--batch-size", "64"];
    let plan = place.run(&given).ends(0).told();
    assert!(plan.contains("--batch-size 64 -> 2"), "{plan}");
}

/// What a stranger read twice.
#[test]
fn a_plan_says_in_plain_words_what_it_cannot_read_or_change() {
    let place = place();
    place.write(
        "piped.slurm",
        "#!/bin/bash\npython3 - <<EOF\nbatch_size = 64\nEOF\n",
    );
    place.says(
        "plan piped.slurm",
        0,
        &["does not read a program from standard input (piped.slurm:2)"],
    );
    place.write("words.txt", "--batch_size 64 --grad-accum 2\n");
    place.write(
        "words.slurm",
        "#!/bin/bash\npython3 train.py $(cat words.txt)\n",
    );
    place.says(
        "plan words.slurm",
        0,
        &["several values come from one place of the script"],
    );
    place.says(
        "plan --set batch_size words.slurm",
        2,
        &["--set batch_size gives no value"],
    );
    place.write("set.yaml", "preset: torchrun\nset: { threads: 2 }\n");
    place.says("plan -c set.yaml", 5, &["values are set under `knobs:`"]);
}

/// Slurm's commands as a site without accounting has them, with one job that somebody submitted.
fn with_job(place: &mut Place, uid: &str) {
    with_job_of(place, uid, "slurm 22.05.8", "gone.slurm diamonds", "");
}

/// The same of this version, with what its `Command=` says and a further line.
fn with_job_of(place: &mut Place, uid: &str, version: &str, command: &str, further: &str) {
    let root = place.root.display().to_string();
    let scontrol = format!(
        "#!/bin/bash
case \"$*\" in
  --version) echo asked >>'{root}/versions'; echo '{version}'; exit ;;
  *'show job 7'*) ;;
  *write*) echo 'job script retrieval failed: Invalid job id specified' >&2; exit 1 ;;
  *) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;
esac
cat <<'X'
JobId=7 JobName=gems
   UserId=ada({uid}) GroupId=ada({uid})
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Restarts=0 ExitCode=1:0
   Partition=gpu TimeLimit=01:00:00
   SubmitTime=1790000000 StartTime=1790000010 EndTime=1790000020
   NodeList=n1
   NumNodes=1 TRES=cpu=4,gres/gpu=4
   Command={root}/{command}
{further}   WorkDir={root}
   StdErr={root}/seven.log
   StdOut={root}/seven.log
   TresPerNode=gres:gpu:4
X
"
    );
    let squeue = "#!/bin/bash\necho '7|7|FAILED|0|1790000000|1790000010|1790000020|n1|NonZeroExitCode|(null)|gems'\n";
    let sacct = "#!/bin/bash\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n";
    let sbatch = "#!/bin/bash\necho \"sbatch was called\" >&2\nexit 1\n";
    let bin = place.home.join("bin");
    for (name, text) in [
        ("scontrol", scontrol.as_str()),
        ("squeue", squeue),
        ("sacct", sacct),
        ("sbatch", sbatch),
    ] {
        install(&bin.join(name), text);
    }
    let message = TORCHRUN
        .lines()
        .find(|l| l.starts_with("echo 'torch"))
        .unwrap();
    let message = message
        .trim_start_matches("echo '")
        .trim_end_matches("' >&2");
    place.write("seven.log", &format!("step 1\n{message}\n"));
}

fn my_uid() -> String {
    let output = std::process::Command::new("id").arg("-u").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_job_whose_script_nobody_has_is_diagnosed_and_what_to_change_is_told() {
    let mut place = place();
    with_job(&mut place, &my_uid());
    let done = place.run(&["watch", "--yes", "7"]).ends(1);
    done.says(&[
        "the script of job 7 is gone",
        "--script PATH",
        "GPU 0 ran out of memory",
        "change by hand: ",
    ]);
    // With a copy of the script it could be submitted again, in the form of which Slurm tells.
    place.write("copy.slurm", JOB);
    fs::remove_dir_all(place.root.join(".oomctl")).unwrap();
    let done = place.run(&["watch", "--script", "copy.slurm", "7"]).ends(2);
    done.says(&[
        "--partition=gpu --time=01:00:00 --nodes=1",
        "attempt 1 is job 7",
        "add --yes, or --watch-only",
    ]);
    let done = place
        .run(&["watch", "--script", "copy.slurm", "--watch-only", "7"])
        .ends(1);
    done.says(&["change by hand: "]);
}

/// `Command=` of Slurm 23.02 and later is the path alone (the job's script and argv are two fields of its protocol since), and
/// `SubmitLine=` stands where the controller keeps the line.
#[test]
fn arguments_that_a_newer_slurm_keeps_elsewhere_are_found_or_nothing_is_submitted() {
    let mut place = place();
    place.write("gone.slurm", JOB);
    for version in [
        "slurm 23.02.6",
        "slurm-wlm 23.11.4",
        "slurm 24.05.2",
        "slurm 25.05.1",
        "slurm 26.05.3",
    ] {
        with_job_of(&mut place, &my_uid(), version, "gone.slurm", "");
        let refused = place.run(&["watch", "--yes", "7"]).ends(5);
        refused.says(&[
            "the script arguments of job 7 are unknown",
            "oomctl submit SCRIPT ARGUMENTS",
        ]);
        assert!(!place.has(".oomctl/runs/job-7"));
    }
    let asked = place.read("versions");
    assert_eq!(asked.lines().count(), 5, "once for each job: {asked}");
    fs::remove_file(place.root.join("versions")).unwrap();
    let line = "   SubmitLine=sbatch --time=20 gone.slurm diamonds\n";
    with_job_of(&mut place, &my_uid(), "slurm 26.05.3", "gone.slurm", line);
    place.run(&["watch", "--watch-only", "7"]);
    assert!(!place.has("versions"), "the line settles it");
    let inputs = place.read(".oomctl/runs/job-7/inputs.json");
    assert!(inputs.contains("\"diamonds\""), "{inputs}");
    fs::remove_dir_all(place.root.join(".oomctl")).unwrap();
    with_job_of(
        &mut place,
        &my_uid(),
        "slurm 22.05.8",
        "gone.slurm rubies",
        line,
    );
    let refused = place.run(&["watch", "--yes", "7"]).ends(5);
    refused.says(&["`rubies`", "`diamonds`", "are unclear"]);
}

#[test]
fn a_job_of_somebody_else_and_one_that_nobody_knows_are_left_alone() {
    let mut place = place();
    with_job(&mut place, "4242");
    let done = place.run(&["watch", "--yes", "7"]).ends(2);
    done.says(&["job 7 belongs to ada", "`oomctl diagnose 7`"]);
    place.says("watch 8", 2, &["Slurm knows no such job", "hint:"]);
    assert!(!place.root.join(".oomctl/runs").exists());
}

#[test]
fn a_script_without_an_interpreter_is_planned_and_run_and_its_copy_gets_one() {
    let place = place();
    place.write("plain.sh", JOB.strip_prefix("#!/bin/bash\n").unwrap());
    let plan = place.run(&["plan", "--all", "plain.sh"]).ends(0);
    plan.says(&["plain.sh has no interpreter line; oomctl's copy begins with `#!/bin/bash`"]);
    let words = ["submit", "--yes", "--watch", "--run", "r", "plain.sh"];
    place.run(&words).ends(0);
    let copy = place.read(".oomctl/runs/r/attempt-1/plain.sh");
    assert!(
        copy.starts_with("#!/bin/bash\n#SBATCH --job-name=gems\n"),
        "{copy}"
    );
}

#[test]
fn a_program_that_is_given_no_knob_is_one_that_no_preset_knows() {
    let place = place();
    place.write("web.slurm", "#!/bin/bash\npython -m http.server 8000\n");
    let plan = place.run(&["plan", "--all", "web.slurm"]).ends(0);
    plan.says(&["framework not recognised"]);
}

/// A launch with the longest response and the token budget still to be put in.
const BUDGET: &str = "#!/bin/bash
#SBATCH --gres=gpu:8
if [ -e long ]; then RESPONSE=2048; else RESPONSE=1024; fi
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
  data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
  data.max_prompt_length=1024 data.max_response_length=RESPONSE_HERE \\
  actor_rollout_ref.actor.use_dynamic_bsz=True \\
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=BUDGET_HERE \\
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \\
  trainer.n_gpus_per_node=8 trainer.nnodes=1
";

/// Knobs of all changes that the attempts of a plan declare, and all that the last diff adds.
fn moved(place: &Place, script: &str) -> (Vec<String>, String) {
    let view = place.json(&["plan", "--json", script]);
    assert_eq!(view["problem"], serde_json::Value::Null, "{view}");
    let attempts = view["attempts"].as_array().unwrap();
    let rungs = attempts.iter().flat_map(|a| a["rungs"].as_array().unwrap());
    let changes = rungs.flat_map(|r| r["changes"].as_array().unwrap());
    let knobs = changes.map(|c| c["knob"].as_str().unwrap().to_owned());
    let diff = attempts.last().unwrap()["diff"].as_str().unwrap();
    let added = diff.lines().filter(|l| l.starts_with('+'));
    (knobs.collect(), added.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_patch_has_no_value_that_no_rung_declares() {
    let place = place();
    let computed = "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=";
    let text = BUDGET.replace("RESPONSE_HERE", "4096");
    let text = text.replace("BUDGET_HERE", "24576");
    let text = text.replace("nnodes=1", &format!("nnodes=1 {computed}$(cat budget)"));
    place.write("run.slurm", &text);
    let (knobs, added) = moved(&place, "run.slurm");
    let budget = "ppo_max_token_len_per_gpu".to_owned();
    assert!(knobs.contains(&budget), "{knobs:?}");
    // The preset would compute the one budget of the other; the script computes it itself, and no rung moves it.
    assert!(!added.contains(&format!("{computed}1")), "{added}");
}

#[test]
fn no_default_stands_in_for_a_length_that_is_given_under_a_condition() {
    let place = place();
    let text = BUDGET.replace("RESPONSE_HERE", "$RESPONSE");
    let text = text.replace("BUDGET_HERE", "3072");
    place.write("run.slurm", &text);
    let (knobs, added) = moved(&place, "run.slurm");
    // 3072 tokens are the longest sequence that the script may have; the default response would allow half of it.
    let budget = |knob: &String| knob.contains("max_token_len");
    assert!(!knobs.iter().any(budget), "{knobs:?}\n{added}");
    let done = place.run(&["plan", "--all", "run.slurm"]).ends(0);
    done.says(&["it depends on max_response_length, which is unknown"]);
}

#[test]
fn a_script_that_breaks_a_rule_is_believed_and_the_ladder_climbed() {
    let place = place();
    let text = BUDGET.replace("RESPONSE_HERE", "2048");
    let text = text.replace("BUDGET_HERE", "6144");
    let text = text.replace("data.train_batch_size=64", "data.train_batch_size=0");
    let text = text.replace("rollout.name=vllm", "rollout.name=trtllm");
    place.write("run.slurm", &text);
    let (knobs, _) = moved(&place, "run.slurm");
    assert!(
        knobs.contains(&"ppo_max_token_len_per_gpu".to_owned()),
        "{knobs:?}"
    );
    assert!(!knobs.contains(&"train_batch_size".to_owned()), "{knobs:?}");
    place.run("plan --all run.slurm").ends(0).says(&[
        "train_batch_size = 0 is below its least value 1 (run.slurm:5); no rung changes it",
        "rollout.name = trtllm is not one of vllm, sglang",
    ]);
}

/// Two training steps, then out of memory above a micro batch of 4. Nothing says which verl it is.
const TRAINS: &str = "#!/bin/bash
all=\"$*\"; micro=${all##*ppo_micro_batch_size_per_gpu=}; micro=${micro%% *}
echo \"(TaskRunner pid=4711) step:1 - actor/pg_loss:0.012 - timing_s/step:21.5\"
echo \"(TaskRunner pid=4711) step:2 - actor/pg_loss:0.011 - timing_s/step:21.4\"
[ \"$micro\" -le 4 ] && exit 0
echo '  File \"/env/lib/python3.12/site-packages/verl/workers/actor/dp_actor.py\", line 520, in update_policy' >&2
echo '    loss.backward()' >&2
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2
exit 1
";

/// 64 sequences of a rank in micro batches of 6: from 0.8.0 on verl refuses that. Which version it is, is not known, and it trained.
#[test]
fn a_rule_of_a_version_that_is_assumed_ends_no_run_that_trained() {
    let place = place();
    let bin = place.home.join("bin");
    install(&bin.join("python3"), TRAINS);
    let text = BUDGET.replace("RESPONSE_HERE", "1024");
    let micro = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=6";
    let text = text.replace("actor_rollout_ref.actor.use_dynamic_bsz=True", micro);
    let budget = "  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=BUDGET_HERE \\\n";
    assert!(text.contains(budget));
    place.write("run.slurm", &text.replace(budget, ""));
    let words = ["submit", "--yes", "--watch", "--run", "r", "run.slurm"];
    let done = place.run(&words).ends(0);
    done.says(&[
        "version not found; assuming 0.9.1",
        "64 sequences per data parallel rank (ppo_mini_batch_size × rollout.n / 8) cannot be split into micro batches of 6",
        "verl may refuse this job: ",
        "ppo_micro_batch_size_per_gpu  6 -> ",
        "succeeded (2 attempts",
    ]);
}

#[test]
fn a_script_starts_the_same_stack_in_its_checkout_and_elsewhere() {
    let place = place();
    let text = BUDGET.replace("RESPONSE_HERE", "2048");
    let text = text.replace("BUDGET_HERE", "6144");
    let ppo = text.replace("adv_estimator=grpo", "adv_estimator=gae");
    let megatron = text.replace(
        "name=vllm",
        "name=vllm actor_rollout_ref.actor.strategy=megatron",
    );
    let named = |script: &str| {
        let view = place.json(&["plan", "--json", script]);
        view["preset"].as_str().unwrap().to_owned()
    };
    let all = [("grpo", &text), ("ppo", &ppo), ("megatron", &megatron)];
    for (name, text) in all {
        place.write(&format!("{name}.sh"), text);
        assert_eq!(named(&format!("{name}.sh")), format!("verl-{name}"));
    }
    fs::create_dir_all(place.root.join("verl/trainer/config")).unwrap();
    let main = "import hydra\n\n@hydra.main(config_path=\"config\", config_name=\"ppo_trainer\", version_base=None)\ndef main(config):\n    pass\n";
    place.write("verl/trainer/main_ppo.py", main);
    let config = "algorithm:\n  adv_estimator: gae\nactor_rollout_ref:\n  actor:\n    strategy: fsdp\n    ppo_mini_batch_size: 256\ncritic:\n  ppo_micro_batch_size_per_gpu: null\n  optim:\n    lr: 1e-5\n  model:\n    path: deepseek\n    fsdp_config:\n      param_offload: false\n";
    place.write("verl/trainer/config/ppo_trainer.yaml", config);
    for (name, _) in all {
        assert_eq!(
            named(&format!("{name}.sh")),
            format!("verl-{name}"),
            "in its checkout"
        );
    }
}

#[test]
fn a_batch_that_model_parallel_ranks_share_is_legal() {
    let place = place();
    let text = "#!/bin/bash
python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml algorithm.adv_estimator=grpo \\
  data.train_batch_size=12 actor_rollout_ref.actor.ppo_mini_batch_size=12 \\
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.rollout.n=1 \\
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 trainer.nnodes=1
";
    place.write("run.sh", text);
    let view = place.json("plan --json run.sh");
    assert_eq!(view["preset"], "verl-megatron");
    assert_eq!(view["doubts"], serde_json::json!([]));
    assert!(view["attempts"].as_array().unwrap().len() > 1, "{view}");
}

/// What is drawn before the first step of a Trainer, and the bar of its steps, which has no words.
const BARS: &str = "#!/bin/bash
printf 'Map: 100%%|██████████| 244/244 [00:00<00:00, 3392.55 examples/s]\\n' >&2
printf 'Generating train split: 100%%|██████████| 244/244 [00:00<00:00, 9000.00 examples/s]\\n' >&2
printf 'Tokenizing train dataset: 100%%|██████████| 244/244 [00:00<00:00, 2000.00 examples/s]\\n' >&2
printf 'Loading checkpoint shards: 100%%|██████████| 30/30 [00:30<00:00,  1.00it/s]\\n' >&2
printf '\\r  0%%|          | 0/80 [00:00<?, ?it/s]\\r  1%%|▏         | 1/80 [00:01<01:19,  1.00s/it]' >&2
";

#[test]
fn a_bar_that_counts_other_things_than_steps_makes_no_late_step() {
    let place = place();
    let fails = TORCHRUN.replace("--batch_size ", "--per_device_train_batch_size ");
    let program = fails.replace("#!/bin/bash\n", BARS);
    install(&place.home.join("bin/trl"), &program);
    place.write(
        "sft.slurm",
        "#!/bin/bash\ntrl sft --per_device_train_batch_size 16 --dataset_name gems\n",
    );
    let words = ["submit", "--yes", "--watch", "--run", "r", "sft.slurm"];
    let done = place.run(&words).ends(0);
    done.says(&["step 1 of 80", "per_device_train_batch_size  16 -> 8"]);
    assert!(!done.err.contains("late step"), "{}", done.err);
    assert!(!done.err.contains("of 244"), "{}", done.err);
}

#[test]
fn every_preset_tells_bars_of_steps_from_bars_of_other_things() {
    let bar = "100%|██████████| 244/244 [00:00<00:00, 3392.55 examples/s]";
    for path in fs::read_dir("presets").unwrap() {
        let path = path.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let preset = parse_preset(name, &fs::read_to_string(&path).unwrap()).unwrap();
        let patterns: Vec<_> = preset
            .progress
            .iter()
            .map(|p| ProgressPattern::new(p).unwrap())
            .collect();
        let step = |label: &str| {
            let mut scanner = Scanner::new(&patterns);
            let log = scanner.source("log");
            scanner.feed(log, 0, format!("{label}{bar}\n").as_bytes());
            scanner.progress().map(|p| p.step)
        };
        for other in [
            "Map: ",
            "Map (num_proc=8): ",
            "Generating train split: ",
            "Tokenizing train dataset: ",
            "Loading checkpoint shards: ",
            "Writing model shards: ",
            "Fetching 4 files: ",
        ] {
            assert_eq!(step(other), None, "{name}: {other}");
        }
        for steps in ["", "Epoch 1: ", "Training Progress: "] {
            assert_eq!(step(steps), Some(244), "{name}: {steps}");
        }
    }
}

/// How many processes a launcher starts is not known from a GPU count that nobody gave, so no number is told.
#[test]
fn a_script_of_ones_own_is_known_under_accelerate_and_no_effective_batch_is_made_up() {
    let place = place();
    for launcher in [
        "accelerate launch --num_processes 4",
        "python3 -m accelerate.commands.launch --num_processes 4",
        "torchrun --nproc_per_node=4",
        "torchrun --nproc_per_node=$(nvidia-smi -L | wc -l)",
    ] {
        let line = format!("{launcher} train.py --batch_size 8 --gradient_accumulation_steps 2");
        place.write("loop.slurm", &format!("#!/bin/bash\n{line}\n"));
        let plan = place.run(&["plan", "--all", "loop.slurm"]).ends(0);
        plan.says(&[
            "your own program: oomctl changes its options or settings files",
            "8 -> 4",
        ]);
    }
    place.write(
        "plain.slurm",
        "#!/bin/bash\ntorchrun train.py --batch_size 8\n",
    );
    let plan = place.run(&["plan", "--all", "plain.slurm"]).ends(0);
    plan.says(&["this also halves the effective batch\n"]);
}

/// Spellings that the frameworks take, and of which the presets list others: a remark, and the ladder is there.
#[test]
fn a_spelling_that_no_preset_lists_is_no_reason_to_refuse_a_script() {
    let place = place();
    let verl = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \
        actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
        actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=8";
    let fsdp = "actor_rollout_ref.actor.fsdp_config";
    let rollout = "actor_rollout_ref.rollout.name";
    place.write("my.yaml", "optimizer_in_bwd: false\n");
    let tune = "tune run full_finetune_distributed --config my.yaml batch_size=8 gradient_accumulation_steps=2";
    for (command, preset) in [
        (
            format!("{verl} {rollout}=vllm {fsdp}.model_dtype=bfloat16"),
            "verl-grpo",
        ),
        (
            format!("{verl} {rollout}=vllm {fsdp}.dtype=bfloat16"),
            "verl-grpo",
        ),
        (format!("{verl} {rollout}=trtllm"), "verl-grpo"),
        (
            format!("{verl} {rollout}=vllm actor_rollout_ref.actor.strategy=megatron"),
            "verl-megatron",
        ),
        (format!("{tune} dtype=bfloat16"), "torchtune"),
        (format!("{tune} dtype=bf16"), "torchtune"),
        (
            "trl sft --per_device_train_batch_size 8 --dtype bfloat16 --bf16".to_owned(),
            "trl",
        ),
        (
            "torchrun train.py --batch_size 8 --precision bfloat16".to_owned(),
            "your own program: oomctl changes its options or settings files",
        ),
    ] {
        place.write("run.slurm", &format!("#!/bin/bash\n{command}\n"));
        let plan = place.run(&["plan", "--all", "run.slurm"]).ends(0);
        let named = match preset.starts_with("your own") {
            true => preset.to_owned(),
            false => format!("recognised as {preset}"),
        };
        plan.says(&[&named, "  8 -> 4 "]);
    }
}

/// transformers 4.36.0 to 5.1.0 trainer.py: `self._train_batch_size = state.train_batch_size`, whatever the arguments say.
#[test]
fn that_an_older_trainer_takes_its_batch_from_the_checkpoint_is_told_where_checkpoints_are_written()
{
    let place = place();
    let told = "a job that resumes with transformers 4.36 to 5.1 trains with the old batch of its checkpoint";
    let resumes = "2 --resume_from_checkpoint out/last";
    let cases = [
        (resumes, "", true),
        ("2", "", false),
        ("0 --resume_from_checkpoint out/last", "", false),
        (resumes, "transformers_version: 4.57.0\n", true),
        (resumes, "transformers_version: 5.2.0\n", false),
    ];
    for (save, version, there) in cases {
        let line = format!("python run_clm.py --per_device_train_batch_size 8 --save_steps {save}");
        place.write("clm.slurm", &format!("#!/bin/bash\n{line}\n"));
        place.write("oomctl.yaml", version);
        let plan = place.run(&["plan", "--all", "clm.slurm"]).ends(0);
        assert_eq!(plan.out.contains(told), there, "{}", plan.told());
    }
}

/// verl 0.4 to 0.9 workers/fsdp_workers.py divides it by the data parallel ranks, and refuses the one for each GPU beside it.
#[test]
fn a_micro_batch_that_counts_all_gpus_is_moved_as_it_is_given() {
    let place = place();
    let actor = "actor_rollout_ref.actor";
    let words = format!(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=176 {actor}.ppo_mini_batch_size=176 \
         {actor}.ulysses_sequence_parallel_size=2 trainer.n_gpus_per_node=8 actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=5"
    );
    for (more, there, never) in [
        (
            format!("{actor}.ppo_micro_batch_size=176"),
            "ppo_micro_batch_size=88",
            "actor.ppo_micro_batch_size_per_gpu=",
        ),
        (
            format!("{actor}.ppo_micro_batch_size=null {actor}.ppo_micro_batch_size_per_gpu=4"),
            "ppo_micro_batch_size_per_gpu=2",
            "actor.ppo_micro_batch_size=2",
        ),
    ] {
        place.write("run.sh", &format!("#!/bin/bash\n{words} {more}\n"));
        let plan = place.run(&["plan", "--all", "run.sh"]).ends(0);
        let text = plan.told();
        assert!(text.contains(there), "{text}");
        assert!(!text.contains(never), "{text}");
        // What is changed is not said to stay.
        assert!(!text.contains("stay: they free"), "{text}");
    }
}

/// The size of a node is no knob of a script.
#[test]
fn how_large_a_node_is_is_said_in_a_cluster_profile() {
    let place = place();
    place.write("job.sh", "#!/bin/bash\n#SBATCH --gres=gpu:2\ntorchrun --nproc_per_node 2 run_clm.py --per_device_train_batch_size 1 --gradient_checkpointing\n");
    let refused = place
        .run(&["plan", "--set", "gpus_per_node=8", "job.sh"])
        .ends(2);
    assert!(refused.err.contains("--cluster NAME"), "{}", refused.err);
    place.write(
        "presets/clusters/mine.yaml",
        "cluster: mine\nfacts:\n  gpus_per_node: 8\n  node_memory: 500GiB\n",
    );
    let more = place.run(&["plan", "--cluster", "mine", "job.sh"]).ends(0);
    more.says(&["nproc_per_node 2 -> 4 -> 8"]);
}

/// What a script submits itself is another job than the one that is watched.
#[test]
fn a_script_that_submits_jobs_itself_is_told_so() {
    let place = place();
    place.write("ray.sub", "#!/bin/bash\nsrun bash -c \"$COMMAND\"\n");
    place.write(
        "fit.py",
        "import submitit\nex = submitit.AutoExecutor(folder='logs')\nex.submit(train)\n",
    );
    let nemo = "examples/run_grpo_math.py policy.train_micro_batch_size=8";
    for (line, told) in [
        (
            &*format!("COMMAND='python {nemo}' sbatch --nodes=1 ray.sub"),
            "sbatch … ray.sub submits further jobs",
        ),
        (
            "python fit.py --batch_size 8",
            "submitit in fit.py submits further jobs",
        ),
        (
            "python train.py -m hydra/launcher=submitit_slurm train.batch_size=8,16",
            "hydra/launcher=submitit_slurm submits further jobs",
        ),
    ] {
        place.write("go.sh", &format!("#!/bin/bash\n{line}\n"));
        let plan = place.run(&["plan", "--all", "go.sh"]).ends(0);
        assert!(plan.told().contains(told), "{}", plan.told());
    }
    // The job that is submitted there is understood with the variable that it is handed.
    let mut words = place.command(&["plan", "--all", "ray.sub"]);
    let plan = words
        .env("COMMAND", format!("python {nemo}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(
        text.contains("recognised as nemo-rl") && text.contains("train_micro_batch_size  8 -> 4"),
        "{text}"
    );
}

/// TRL's own scripts call `trainer.train()` without a checkpoint; a script of the user's own may do otherwise.
#[test]
fn that_a_program_begins_at_step_0_each_time_is_told_where_it_is_known() {
    let place = place();
    for (start, there) in [
        ("trl sft", true),
        ("python -m trl.scripts.grpo", true),
        (
            "accelerate launch --num_processes 4 trl/scripts/sft.py",
            true,
        ),
        ("python sft.py", false),
        ("python mine/scripts/sft.py", false),
    ] {
        let line = format!("{start} --per_device_train_batch_size 8");
        place.write("sft.slurm", &format!("#!/bin/bash\n{line}\n"));
        let plan = place.run(&["plan", "--all", "sft.slurm"]).ends(0);
        plan.says(&["recognised as trl"]);
        let told = plan.out.contains("each attempt starts at step 0");
        assert_eq!(told, there, "{}", plan.told());
    }
}

/// What a framework's own file is called elsewhere may be anybody's: its folder tells.
#[test]
fn a_script_that_lies_where_a_module_does_is_that_modules() {
    let place = place();
    let words = "--rlhf_type grpo --num_generations 8 --use_vllm true --vllm_mode colocate \
        --max_completion_length 512 --per_device_train_batch_size 8";
    for (start, words, preset) in [
        ("torchrun swift/cli/rlhf.py", words, "ms-swift"),
        (
            "torchrun /opt/ms-swift/swift/cli/rlhf.py",
            words,
            "ms-swift",
        ),
        ("torchrun grpo.py", words, "trl"),
        (
            "accelerate launch open_instruct/finetune.py",
            "--per_device_train_batch_size 8 --max_seq_length 512",
            "open-instruct",
        ),
        (
            "accelerate launch finetune.py",
            "--per_device_train_batch_size 8 --max_seq_length 512",
            "hf-trainer",
        ),
    ] {
        place.write("job.sh", &format!("#!/bin/bash\n{start} {words}\n"));
        let plan = place.run(&["plan", "--all", "job.sh"]).ends(0);
        plan.says(&[&format!("recognised as {preset}")]);
    }
}

/// A job whose words stand on standard output: the hint names the log that has them.
#[test]
fn a_failure_on_standard_output_is_sent_to_that_log() {
    let place = Place::with("backend: local");
    place.write(
        "job.slurm",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py 2>&1\n",
    );
    place.write("train.py", "raise KeyError('txt')\n");
    let submit = ["submit", "-y", "-w", "job.slurm"];
    let done = place.run(&submit).ends(1);
    done.says(&[
        "KeyError: 'txt'",
        "`oomctl logs job-1` prints the log",
        "; after the fix: `oomctl retry job-1`, or `oomctl submit` if you changed the script",
    ]);
    place.write(
        "job.slurm",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --error=%j.err\npython3 train.py\n",
    );
    let done = place.run(&submit).ends(1);
    done.says(&["KeyError: 'txt'", "; after the fix: `oomctl retry job-2`"]);
    // What a filter may name is said where it names nothing.
    let wrong = place.run(&["history", "--cause", "oom"]).ends(0).out;
    assert!(
        wrong.contains("States here: failed; causes: code_bug"),
        "{wrong}"
    );
}

/// What `explain` says of a script holds for it: its own spelling is in it, and `--set` does not change it.
#[test]
fn explain_of_a_script_names_no_spelling_of_the_preset() {
    let place = place();
    place
        .run(&["submit", "-y", "-w", "--run", "r", "job.slurm", "a"])
        .ends(0);
    for knob in ["batch_size", "--batch-size"] {
        let told = place.run(&["explain", knob, "--run", "r"]).ends(0).out;
        assert!(told.contains("overrides   32 (job.slurm:5)"), "{told}");
        for false_here in ["written as", "set with", "OOMCTL_BATCH_SIZE"] {
            assert!(!told.contains(false_here), "{told}");
        }
    }
}

/// A log where a script belongs, and a script where a log belongs.
#[test]
fn a_log_and_a_script_are_not_taken_for_each_other() {
    let place = place();
    place.write(
        "a.out",
        "step 1\ntorch.OutOfMemoryError: CUDA out of memory.\n",
    );
    for words in [
        &["plan", "a.out"][..],
        &["submit", "a.out"],
        &["fix", "a.out", "a.out"],
    ] {
        place.run(words).ends(5).says(&[
            "a.out is a log, not a job script",
            "`oomctl diagnose a.out`",
        ]);
    }
    place
        .run(&["diagnose", "job.slurm"])
        .ends(2)
        .says(&["job.slurm is a job script, and no log"]);
    // Who forgets the script is told which ones lie here.
    let nothing = Place::bare();
    nothing.write("my.slurm", JOB);
    nothing
        .run(&["estimate"])
        .ends(5)
        .says(&["`oomctl plan my.slurm`", "`oomctl submit my.slurm`"]);
}

/// A loop over files that are not there, and `exit 0`: the job ends well, and nothing ran.
#[test]
fn a_job_that_wrote_nothing_is_no_fit() {
    let place = place();
    let job = |first: &str| {
        place.write("job.slurm", &format!("#!/bin/bash\n#SBATCH --gres=gpu:4\n{first}torchrun /code/train.py --batch_size 8\nexit 0\n"));
    };
    let submit = |run: &str| {
        let words = ["submit", "--yes", "--watch", "--run", run, "job.slurm"];
        place.run(&words).ends(0)
    };
    job("exit 0\n");
    let empty = "note: the log is empty: nothing shows that it trained";
    submit("none").says(&[empty, "none succeeded"]);
    place.says("status none", 0, &[empty]);
    assert!(!place.has(".oomctl/fits.jsonl"));
    place.says(
        "tune none",
        3,
        &["the last attempt of none did not prove that it fits"],
    );
    let again = place.run(&["submit", "--dry-run", "job.slurm"]).ends(0);
    assert!(!again.err.contains("start  "), "{}", again.told());
    // Nor does one whose exit code the script hides, and whose log names no end.
    job("");
    submit("some").says(&["note: oomctl finds no step in its log: look whether it trained"]);
    assert!(!place.has(".oomctl/fits.jsonl"));
    // A program whose steps nobody can read has shown something by its own exit code.
    place.write(
        "job.slurm",
        "#!/bin/bash\n#SBATCH --gres=gpu:4\ntorchrun train.py --batch_size 8\n",
    );
    submit("whole");
    assert!(place.has(".oomctl/fits.jsonl"));
}

/// What nobody can guess is said in the project's file, and stays with the run.
#[test]
fn a_project_says_how_its_program_spells_a_knob() {
    let place = place();
    let bin = place.home.join("bin");
    let frames = |text: &str| text.replace("--batch_size", "--frames");
    install(&bin.join("torchrun"), &frames(TORCHRUN));
    place.write("tools/train.sh", &frames(LAUNCHER));
    place
        .run(&["plan", "job.slurm", "x"])
        .ends(0)
        .says(&["name it in oomctl.yaml: `spellings: { batch_size: --OPTION }`"]);
    let settings = "backend: local\none_rung: true\nlimits: { attempts: 6 }\n";
    place.write(
        "oomctl.yaml",
        &format!("{settings}spellings: {{ bacth_size: --frames }}\n"),
    );
    place.run(&["plan", "job.slurm", "x"]).ends(5).says(&[
        "unknown key `bacth_size`",
        "oomctl.yaml:4:14",
        "did you mean `batch_size`?",
    ]);
    place.write(
        "oomctl.yaml",
        &format!("{settings}spellings: {{ batch_size: --frames }}\n"),
    );
    let words = ["submit", "--yes", "--watch", "--run", "r", "job.slurm", "x"];
    place.run(&words).ends(0);
    let last = place.read(".oomctl/runs/r/attempt-3/slurm.out");
    assert!(
        last.contains("--frames 8 --gradient_accumulation_steps=8"),
        "{last}"
    );
}
