//! Wrong configuration: what, where, the line itself, and the nearest right name.

use super::place::{Done, Place};
use super::slurm::Slurm;
use super::weaver;
use oomctl_base::word_list;

fn bare(yaml: &str) -> Place {
    let place = Place::bare();
    weaver::furnish(&place);
    place.write("oomctl.yaml", yaml);
    place
}

/// The error of each file, one below the other.
fn errors(cases: &[(&str, &str)]) -> String {
    let (mut text, mut accepted) = (String::new(), Vec::new());
    for (what, yaml) in cases {
        let place = bare(yaml);
        let done = place.run(&["submit", "--backend", "local"]);
        if done.code != 5 || !done.out.is_empty() || place.has(".oomctl") {
            accepted.push(format!("{what}: {}", done.told()));
        }
        text.push_str(&format!("## {what}\n{}\n", place.steady(&done.err)));
    }
    assert!(accepted.is_empty(), "{}\n{text}", accepted.join("\n"));
    text
}

#[test]
fn each_fault_of_the_project_file_is_shown_with_its_place_and_what_was_meant() {
    let text = errors(&[
        ("unknown key", "preset: weaver\nknob: { threads: 4 }\n"),
        ("unknown knob", "preset: weaver\nknobs:\n  thread: 4\n"),
        ("an option of sbatch", "preset: weaver\npartition: gpu\n"),
        ("a script", "preset: weaver\nscript: job.sh\n"),
        ("no colon", "preset: weaver\nthreads\nrisk: 0.9\n"),
        ("wrong type", "preset: weaver\nknobs:\n  threads: many\n"),
        ("not whole", "preset: weaver\nknobs:\n  threads: 2.5\n"),
        (
            "duplicate key",
            "preset: weaver\nknobs:\n  threads: 4\n  threads: 8\n",
        ),
        ("out of bounds", "preset: weaver\nknobs:\n  threads: 0\n"),
        (
            "far out of bounds",
            "preset: weaver\nknobs:\n  threads: 99999999999999999999\n",
        ),
        ("unknown preset", "preset: waever\n"),
        (
            "unknown dataset",
            "preset: weaver\ndataset: diamonds-seed1\n",
        ),
        ("unknown cluster", "preset: weaver\ncluster: example-h10\n"),
        ("unknown policy", "preset: weaver\npolicy: same_math\n"),
        (
            "a policy that has no rungs, one rung at a time",
            "preset: weaver\npolicy: predict\none_rung: true\n",
        ),
        ("bad version", "preset: verl-grpo\nverl_version: 9.9.9\n"),
        (
            "version of another framework",
            "preset: weaver\nverl_version: 0.9.1\n",
        ),
        ("tab", "preset: weaver\nknobs:\n\tthreads: 4\n"),
        ("list instead of map", "- preset: weaver\n"),
        ("text instead of map", "preset: weaver\nknobs: threads\n"),
        ("unclosed", "preset: weaver\nknobs: { threads: 4\n"),
        ("broken rule", "preset: weaver\nknobs:\n  threads: 7\n"),
        ("unknown pin", "preset: weaver\npin: [thread]\n"),
        ("unknown rung", "preset: weaver\nladder: [thinn]\n"),
        (
            "rung of a knob that there is not",
            "preset: weaver\nladder:\n  - { rung: thin, moves: [{ knob: tread, times: 0.5 }] }\n",
        ),
        (
            "rung with an unknown name",
            "preset: weaver\nladder:\n  - { rung: slow, title: t, moves: [{ knob: threads, to_expr: 'bundels * 2' }] }\n",
        ),
        ("bad limit", "preset: weaver\nlimits: { attempts: none }\n"),
        ("unknown limit", "preset: weaver\nlimits: { attempt: 3 }\n"),
        (
            "bad duration",
            "preset: weaver\nsupervision: { poll: soon }\n",
        ),
        (
            "pattern",
            "preset: weaver\nknobs: { partition: 'gpu; rm -rf' }\n",
        ),
        (
            "alias bomb",
            "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n",
        ),
        ("two documents", "preset: weaver\n---\npreset: weaver\n"),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn each_fault_of_a_flag_or_variable_is_shown_with_the_flag() {
    let place = weaver::project("");
    let mut text = String::new();
    for arguments in [
        &["--set", "thread=4"][..],
        &["--set", "threads"],
        &["--set", "threads="],
        &["--set", "=4"],
        &["--set", "threads=four"],
        &["--set", "threads=0"],
        &["--preset", "waever"],
        &["--dataset", "../../etc/passwd"],
        &["--cluster", "nowhere"],
        &["--config", "missing.yaml"],
        &["--run", "../out"],
        &["--run", "a b"],
        &["--run", "-x"],
        &["--run", ""],
    ] {
        let mut command = vec!["submit", "--backend", "local"];
        command.extend(arguments);
        let done = place.run(&command);
        assert!(
            matches!(done.code, 2 | 5 | 7),
            "{arguments:?}: {}",
            done.told()
        );
        assert!(!place.has(".oomctl"), "{arguments:?}");
        text.push_str(&format!(
            "## {} ({})\n{}\n",
            arguments.join(" "),
            done.code,
            place.steady(&done.err)
        ));
    }
    let mut command = place.command(&["submit", "--backend", "local"]);
    let done: Done = command.env("OOMCTL_THREADS", "x").output().unwrap().into();
    text.push_str(&format!(
        "## OOMCTL_THREADS=x ({})\n{}\n",
        done.code,
        place.steady(&done.err)
    ));
    insta::assert_snapshot!(text);
}

#[test]
fn an_unknown_backend_is_refused_with_the_known_ones() {
    let place = bare("preset: weaver\nbackend: slrum\n");
    let done = place.run(&["submit"]).ends(5);
    insta::assert_snapshot!(done.err);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let place = weaver::project("");
    std::fs::write(
        place.path("oomctl.yaml"),
        b"preset: weaver\nknobs: { motto: '\xff\xfe' }\n",
    )
    .unwrap();
    place.says("plan", 5, &["oomctl.yaml", "UTF-8"]);
    place.write(
        "oomctl.yaml",
        &format!("# {}\npreset: weaver\n", "x".repeat(2 << 20)),
    );
    place.says("plan", 5, &["oomctl.yaml"]);
    std::fs::remove_file(place.path("oomctl.yaml")).unwrap();
    std::fs::create_dir(place.path("oomctl.yaml")).unwrap();
    place.says("plan --config oomctl.yaml", 5, &["oomctl.yaml"]);
}

#[test]
fn faults_of_a_preset_are_shown_in_the_preset() {
    let (mut text, mut accepted) = (String::new(), Vec::new());
    for (from, to) in [
        ("role: micro_batch", "role: microbatch"),
        ("must: cloth % row == 0", "must: cloth % rwo == 0"),
        ("must: cloth % row == 0", "must: cloth % row =="),
        ("to_expr: bundles * 2", "to_expr: bundels * 2"),
        (
            "{ knob: threads, times: 0.5 }",
            "{ knob: tread, times: 0.5 }",
        ),
        ("default: 8", "default: eight"),
        ("unit: threads", "units: threads"),
        ("uses: [slurm]", "uses: [slrm]"),
        ("woven (?P<step>", "woven (?P<step"),
    ] {
        let place = weaver::project("");
        assert!(weaver::PRESET.contains(from));
        place.write("presets/weaver.yaml", &weaver::PRESET.replacen(from, to, 1));
        let done = place.run(&["plan"]);
        if done.code != 5 {
            accepted.push(format!("{to}: {}", done.told()));
        }
        text.push_str(&format!("## {to}\n{}\n", place.steady(&done.err)));
    }
    assert!(accepted.is_empty(), "{}\n{text}", accepted.join("\n"));
    insta::assert_snapshot!(text);
}

#[test]
fn an_option_that_would_break_a_submission_is_refused_before_there_is_a_run() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    let slurm = Slurm::before(&mut place);
    for (option, why) in [
        ("--wait", "oomctl watch"),
        ("--array=0-3", "one run is one job"),
        ("gpu", "would take it for the script"),
    ] {
        let done = place.run(&["submit", &format!("--sbatch={option}")]);
        done.ends(2).says(&[option, why]);
    }
    assert!(slurm.calls("sbatch").is_empty());
    assert!(!place.has(".oomctl"), "a run was left behind");
}

#[test]
fn the_gpus_are_asked_for_by_the_one_option_that_the_site_wants() {
    for (habit, line) in [
        ("gres", "#SBATCH --gres=gpu:h100:4\n"),
        ("gpus-per-node", "#SBATCH --gpus-per-node=h100:4\n"),
        ("gpus-per-task", "#SBATCH --gpus-per-task=h100:4\n"),
        ("gpus", "#SBATCH --gpus=h100:8\n"),
        ("tres-per-task", "#SBATCH --tres-per-task=gres/gpu:h100=4\n"),
    ] {
        let yaml = format!(
            "preset: verl-grpo\nknobs: {{ gpu_request: {habit}, gpu_type: h100, nnodes: 2, n_gpus_per_node: 4, model.path: Qwen/Qwen2.5-0.5B-Instruct, train_files: a.parquet, val_files: b.parquet }}\n"
        );
        let done = bare(&yaml).run(&["render"]).ends(0);
        done.says(&[line]);
        let asked = ["--gres", "--gpus", "--tres"]
            .map(|o| done.out.matches(&format!("#SBATCH {o}")).count());
        assert_eq!(asked.iter().sum::<usize>(), 1, "{}", done.told());
    }
    let unknown = bare("preset: verl-grpo\nknobs: { gpu_request: tres }\n");
    unknown.says("plan", 5, &["gpus-per-node"]);
}

#[test]
fn a_number_alone_is_mib_where_sbatch_says_so_and_refused_elsewhere() {
    for (given, asked) in [
        ("400", "400M"),
        ("128000", "128000M"),
        ("100KiB", "1M"),
        ("4GiB", "4096M"),
        ("0", "0"),
    ] {
        let place = bare(&format!("preset: weaver\nknobs: {{ mem: {given} }}\n"));
        let line = format!("#SBATCH --mem={asked}\n");
        place.says("render", 0, &[&line]);
    }
    for yaml in [
        "preset: weaver\nknobs: { gpu_memory: 80 }\n",
        "preset: weaver\nknobs: { gpu_memory: '80' }\n",
    ] {
        let refused = bare(yaml).run(&["plan"]).ends(5);
        refused.says(&["got `80` without a unit: 80GiB?", "oomctl.yaml:2"]);
    }
    let flag = bare("preset: weaver\n").run(&["plan", "--set", "gpu_memory=80"]);
    flag.ends(5).says(&["80GiB?"]);
}

#[test]
fn a_dry_run_refuses_what_a_submission_refuses() {
    let place = bare("preset: weaver\n");
    place.write(
        "sweep.yaml",
        "method: grid\nparameters: { threads: { values: [1, 2] } }\n",
    );
    for words in [
        &["submit", "--backend", "local", "--run", "../../x"][..],
        &word_list::<7>("sweep submit --backend local sweep.yaml --run ../../x"),
    ] {
        let really = place.run(words);
        let dry = place.run(&[words, &["--dry-run"]].concat());
        dry.says(&["`../../x` cannot be the name of a run"]);
        assert_eq!(
            (really.code, &really.err),
            (dry.code, &dry.err),
            "{words:?}"
        );
        let none = [words, &["--attempts", "0"]].concat();
        place.says(&none, 2, &["--attempts"]);
    }
    let place = bare("preset: weaver\nlimits: { attempts: 0 }\n");
    let done = place.run(&["submit", "--backend", "local"]).ends(5);
    done.says(&["`attempts: 0` would submit nothing"]);
    assert!(!place.has(".oomctl"));
}
