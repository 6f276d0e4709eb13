//! What people do with runs that they did not name: the newest one, its logs, another try, and an end to old folders.

use super::gpus::on_a_terminal;
use super::place::{Place, install};
use super::slurm::Slurm;
use super::{own_scripts, weaver};

const LOCAL: [&str; 4] = ["submit", "--watch", "--backend", "local"];

fn failed() -> Place {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "fail");
    place.run(&LOCAL).ends(1);
    place
}

#[test]
fn a_command_that_names_no_run_means_the_newest_and_says_so() {
    let mut place = failed();
    place.set("WEAVER", "fits 2");
    place.run(&LOCAL).ends(0);
    for (words, code, says) in [
        (&["watch"][..], 0, "succeeded"),
        (&["diagnose"], 0, "weaver-2, attempt 1"),
        (&["report", "--to", "-", "--format", "text"], 0, "weaver-2"),
        (&["logs", "--out"], 0, "woven 3 of 3"),
        (&["explain", "threads"], 0, "threads = 2"),
    ] {
        let done = place.run(words).ends(code);
        assert!(done.told().contains(says), "{words:?}: {}", done.told());
        let named = done.err.contains("newest run: weaver-2");
        // With a project file these two are about what it says.
        assert_eq!(named, words[0] != "explain", "{words:?}: {}", done.err);
    }
    let status = place.run(&["status"]).ends(0).out;
    insta::assert_snapshot!(place.steady(&status));
    place.says(
        "cancel",
        0,
        &["every run here has ended: nothing to cancel"],
    );
    // Nobody is asked in a script, and nothing is cancelled unasked.
    place.set("WEAVER", "sleep");
    place.run("submit --fresh --backend local --yes").ends(0);
    place.says("cancel", 2, &["Cancel weaver-3?", "--yes"]);
    place.says("cancel --yes", 0, &["weaver-3 is cancelled"]);
    let nowhere = weaver::project("");
    for command in ["watch", "cancel", "diagnose", "report", "logs", "retry"] {
        let done = nowhere.run(&[command]).ends(2);
        done.says(&["no runs here", "`oomctl submit -w SCRIPT` starts a run"]);
    }
}

#[test]
fn every_value_that_somebody_chose_is_listed_with_its_place() {
    let place = weaver::project("knobs: { threads: 2 }\npin: [threads]");
    let done = place.run(&["explain", "--set", "cloth=32"]).ends(0);
    insta::assert_snapshot!(place.steady(&done.told()));
    let json = place.json("explain --json");
    assert_eq!(json["values"][0]["knob"], "threads");
    assert_eq!(json["values"][0]["pinned"], true);
}

#[test]
fn a_run_goes_on_once_its_cause_is_fixed_with_its_own_configuration() {
    let mut place = weaver::project("knobs: { threads: 8 }\nlimits: { attempts: 3 }");
    place.set("WEAVER", "fits 4");
    place.run(&LOCAL).ends(0);
    place.run("retry").ends(2).says(&[
        "weaver-1 succeeded",
        "`oomctl submit` runs it again from its beginning",
    ]);
    place.set("WEAVER", "fits 1");
    // 8, 4, 2: no attempt is left.
    let fresh = [&LOCAL[..], &["--fresh"]].concat();
    let done = place.run(&fresh).ends(8);
    assert!(done.told().contains("3 attempts"), "{}", done.told());
    place.set("WEAVER", "fits 4");
    let done = place.run(&["retry", "-w"]).ends(0);
    done.says(&["newest run: weaver-2", "succeeded"]);
    // What was decided and never submitted comes next.
    assert_eq!(weaver::words(&place, 4)[1], "1", "{}", done.told());
}

#[test]
fn two_jobs_of_one_run_are_watched_by_one_watch() {
    let mut place = weaver::project("knobs: { threads: 4 }\nlimits: { attempts: 2 }");
    place.set("WEAVER", "fits 1");
    place.run(&LOCAL).ends(8);
    let done = place.run(&["watch", "1", "2"]).ends(8);
    assert_eq!(
        done.told().matches("weaver-1 budget_spent").count(),
        1,
        "{}",
        done.told()
    );
}

/// A retry runs the script as it was submitted, so it does not begin in silence where somebody has mended the script.
#[test]
fn a_retry_of_a_script_that_changed_since_says_so() {
    let place = Place::bare();
    place.write("job.sh", "#!/bin/bash\n\npython3 trian.py\n");
    place.write("trian.py", "raise SystemExit(1)\n");
    let words = ["submit", "--yes", "--watch", "--backend", "local", "job.sh"];
    // The line of oomctl's takes the empty one, so bash and Python name the user's lines.
    place.run(&words).ends(1);
    place.write("job.sh", "#!/bin/bash\n\npython3 -c 'print(1)'\n");
    let refused = place.run(&["retry", "-w"]).ends(2);
    refused.says(&[
        "job.sh changed since job-1 was submitted",
        "`oomctl submit job.sh`",
    ]);
    assert_eq!(place.count("job-1", "intended"), 1);
    place.run(&["retry", "-w", "--as-submitted"]).ends(1);
    assert_eq!(place.count("job-1", "intended"), 2);
    place.write("job.sh", "#!/bin/bash\n\npython3 trian.py\n");
    place.run(&["retry", "-w"]).ends(1);
}

#[test]
fn a_cancelled_run_can_be_retried_and_a_live_one_is_left_alone() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "sleep");
    place.run(&["submit", "--backend", "local"]).ends(0);
    place
        .run("retry")
        .ends(2)
        .says(&["weaver-1 is not over", "`oomctl watch weaver-1`"]);
    place.run(&["cancel", "weaver-1"]).ends(0);
    let done = place.run(&["retry", "--json"]).ends(0);
    assert_eq!(done.json()["runs"][0]["exit_code"], serde_json::Value::Null);
    assert_eq!(place.count("weaver-1", "intended"), 2);
    assert!(!place.has(".oomctl/runs/weaver-1/cancel-requested"));
    place.says("cancel weaver-1", 0, &["weaver-1 is cancelled"]);
}

#[test]
fn logs_are_printed_by_attempt_and_stream() {
    let mut place = weaver::project("knobs: { threads: 4 }");
    place.set("WEAVER", "fits 2");
    place.run(&LOCAL).ends(0);
    let last = place.run(&["logs", "weaver-1"]).ends(0).out;
    assert!(
        last.contains("woven 3 of 3") && !last.contains("CUDA out of memory"),
        "{last}"
    );
    let first = place
        .run(&["logs", "weaver-1", "--attempt", "1", "--err"])
        .ends(0)
        .out;
    assert!(
        first.contains("CUDA out of memory") && !first.contains("==>"),
        "{first}"
    );
    let followed = place.run(&["logs", "-f", "weaver-1"]).ends(0).out;
    assert!(followed.contains("woven 3 of 3"), "{followed}");
    let done = place.run(&["logs", "weaver-1", "--attempt", "7"]).ends(2);
    done.says(&["weaver-1 has no attempt 7", "its attempts are 1 to 2"]);
    let paths = place.run(&["logs", "--paths"]).ends(0).out;
    assert!(
        paths.contains("attempt-2/slurm.err") && paths.contains("slurm.out"),
        "{paths}"
    );
}

#[test]
fn followed_logs_go_on_with_the_next_attempt_until_the_run_is_over() {
    let mut place = weaver::project("knobs: { threads: 4 }");
    place.set("WEAVER", "hang");
    let watch = place.start(&["submit", "--watch", "--backend", "local"]);
    place.wait_for_fact("weaver-1", "submitted");
    let follow = place.start(&["logs", "--follow", "weaver-1"]);
    watch.end().ends(0);
    let done = follow.end().ends(0);
    assert!(done.out.contains("CUDA out of memory"), "{}", done.told());
    assert!(done.out.contains("out: woven 3 of 3"), "{}", done.told());
}

#[test]
fn old_runs_are_removed_and_none_that_is_alive() {
    let mut place = failed();
    place.set("WEAVER", "sleep");
    place.run(&["submit", "--backend", "local"]).ends(0);
    let young = place.run(&["prune", "--yes"]).ends(0).out;
    insta::assert_snapshot!("prune_young", place.steady(&young));
    let would = place
        .run(&["prune", "--older-than", "0m", "--dry-run"])
        .ends(0)
        .out;
    assert!(
        would.contains("weaver-1") && would.contains("1 not over"),
        "{would}"
    );
    assert!(place.has(".oomctl/runs/weaver-1"));
    let links = || std::fs::read_dir(place.path("logs")).unwrap().count();
    let before = links();
    place.says("prune --older-than 0m", 2, &["Remove 1 run", "--yes"]);
    place
        .run("prune --older-than 0m --state succeeded --yes")
        .ends(0)
        .says(&["nothing to remove"]);
    let json = place.json("prune --older-than 0m -y -j");
    assert_eq!(
        (&json["runs"][0]["removed"], &json["open"]),
        (&true.into(), &1.into())
    );
    assert!(!place.has(".oomctl/runs/weaver-1") && !place.has(".oomctl/pruned-weaver-1"));
    assert!(links() < before, "links to its logs go with it");
    place.says("prune weaver-2 -y", 2, &["weaver-2 is not over, and stays"]);
    place.run(&["status", "weaver-2"]).ends(0);
    place.run(&["cancel", "weaver-2"]).ends(0);
    // Named runs go whatever their age.
    place
        .run(&["prune", "weaver-2", "-y"])
        .ends(0)
        .says(&["removed 1 run"]);
    place.says("status", 0, &["no runs here"]);
}

/// `srun --output=logs/slurm-%j-%N.out` writes one log a node.
#[test]
fn each_nodes_log_is_printed_with_its_name() {
    let place = weaver::project("knobs: { threads: 2 }");
    place.run(&LOCAL).ends(0);
    let job = place
        .run(&["status", "-o", "job", "--noheader"])
        .ends(0)
        .out;
    let job = job.trim();
    let shown = place.json("status --json");
    let node = shown["runs"][0]["attempts"][0]["nodes"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let own = place.run(&["logs", "--paths"]).ends(0).out;
    let folder = std::path::Path::new(own.lines().next().unwrap())
        .parent()
        .unwrap();
    let missing = place.run(&["logs", "--node", "0"]).ends(2);
    missing.says(&["has no log of its own", "srun --output="]);
    std::fs::write(
        folder.join(format!("step-{job}-{node}.out")),
        "of this node\n",
    )
    .unwrap();
    let one = place.run(&["logs", "--node", "0"]).ends(0);
    assert_eq!(one.out, "of this node\n");
    place.says("logs --node gpu99", 2, &["has no node gpu99", &node]);
    let all = place.run(&["logs", "-f"]).ends(0);
    all.says(&[&format!("{node}: of this node"), "out: woven"]);
}

#[test]
fn a_project_can_ask_that_submit_stays_where_somebody_looks() {
    let place = weaver::project("");
    let file = "preset: weaver\nknobs: { threads: 2 }\nsupervision: { watch: true, poll: 1s, poll_max: 1s, drain: 0s, settle: 2s }\n";
    place.write("oomctl.yaml", file);
    let left = place.run(&["submit", "--backend", "local"]).ends(0);
    left.says(&["Nothing watches it"]);
    let words = ["submit", "--backend", "local", "--plain"];
    assert!(on_a_terminal(&place, &words).contains("succeeded"));
    let left = on_a_terminal(&place, &[&words[..], &["--no-watch"]].concat());
    assert!(left.contains("Nothing watches it"), "{left}");
}

/// A script whose torchrun is this, on a scripted Slurm.
fn on_slurm(torchrun: &str) -> (Place, Slurm) {
    let mut place = own_scripts::place();
    place.write(
        "oomctl.yaml",
        "backend: slurm\none_rung: true\nsupervision: { poll: 1s, settle: 1s, drain: 0s }\n",
    );
    let script = "#!/bin/bash\n#SBATCH --output=job.log\n#SBATCH --gres=gpu:4\ntorchrun train.py --batch_size 32\n";
    place.write("job.slurm", script);
    install(&place.home.join("bin/torchrun"), torchrun);
    let slurm = Slurm::before(&mut place);
    place.first_on_path.push(place.home.join("bin"));
    (place, slurm)
}

/// Whatever the batch, it asks for as much.
const DEAF: &str = "#!/bin/bash
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2
exit 1
";

/// Nobody watched: every command that looks says the same of the job, and none of them writes the ledger.
#[test]
fn what_happened_to_a_job_that_nobody_watched_is_said_alike_by_all_commands() {
    let (place, _slurm) = on_slurm(DEAF);
    place.run("submit --yes --run r job.slurm").ends(0);
    let ledger = place.read(".oomctl/runs/r/ledger.jsonl");
    place.says("status r", 0, &["FAILED", "GPU 0 ran out of memory"]);
    let report = "report --format text --to - r";
    place.says(
        report,
        0,
        &[
            "The last job of r is over, and its log is not read yet",
            "ran out of GPU memory",
        ],
    );
    place.says("history -P", 0, &["FAILED", "cuda_oom"]);
    place.says("fix r", 0, &["batch_size", "32 -> 16"]);
    place.says("diagnose r", 0, &["GPU 0 ran out of memory"]);
    place.says(
        "cancel",
        0,
        &["every run here has ended: nothing to cancel"],
    );
    assert_eq!(place.read(".oomctl/runs/r/ledger.jsonl"), ledger);
    // A number of Slurm's that is no run.
    place.says(
        "status 4711",
        2,
        &["`oomctl watch 4711` takes over a job of Slurm"],
    );
}

#[test]
fn a_job_that_runs_is_said_to_run_and_a_failure_without_a_word_names_no_log_that_is_not_there() {
    let (place, slurm) = on_slurm("#!/bin/bash\nexit 3\n");
    slurm.tell("state.1", "RUNNING 0:0");
    place.run("submit --yes --run r job.slurm").ends(0);
    let running = "the job is still running; its log shows no failure so far";
    place.says("diagnose r", 0, &[running]);
    let done = place.run("submit --yes --watch --run s job.slurm").ends(1);
    done.says(&["`oomctl logs s` prints the log"]);
    assert!(!done.told().contains(".err"), "{}", done.told());
}

/// The program does not read what oomctl changes: no further change is tried, whoever asks.
#[test]
fn a_run_whose_program_does_not_listen_is_not_changed_again() {
    let (place, _slurm) = on_slurm(DEAF);
    let deaf = "so the program does not seem to read what oomctl changes";
    place
        .run("submit --yes --watch --run r job.slurm")
        .ends(1)
        .says(&[deaf]);
    assert_eq!(place.count("r", "intended"), 3);
    place.says("fix r", 1, &[deaf]);
    place.says(
        "retry -w r",
        2,
        &[
            "r failed: the program does not seem to read what oomctl changes. The script and the files that it names have not changed since, so a retry would fail again",
            "after you edit job.slurm: `oomctl submit job.slurm`",
            "`retry --as-submitted`",
        ],
    );
    place.says("retry -w --as-submitted r", 1, &[deaf]);
    assert_eq!(place.count("r", "intended"), 4);
    // One that succeeded and left no checkpoint begins again.
    install(&place.home.join("bin/torchrun"), "#!/bin/bash\necho done\n");
    place
        .run("submit --yes --watch --fresh --run s job.slurm")
        .ends(0);
    place.says(
        "retry s",
        2,
        &["`oomctl submit job.slurm` runs it again from its beginning"],
    );
}
