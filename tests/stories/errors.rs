//! Every mistake that a user can make is told with what, where, why and what next: one row each.

use std::fs;

use super::messages::{is_said, sections};
use super::place::{Done, Place, at_once};
use super::weaver;
use oomctl_base::table;

/// A mistake: how it is made, and what is said.
struct Row {
    what: &'static str,
    yaml: String,
    /// Another file of the project, and its text.
    file: Option<(&'static str, String)>,
    command: &'static str,
    code: i32,
    says: &'static str,
    next: &'static str,
}

/// Mistakes in a command line: what, the command, its exit code, what is said, what next.
const COMMANDS: [[&str; 5]; 47] = table(
    r#"
    no command | frobnicate | 2 | unrecognized subcommand 'frobnicate' | --help
    a command misspelled | sbmit | 2 | unrecognized subcommand 'sbmit' | a similar subcommand exists: 'submit'
    a command with letters that change places | paln | 2 | unrecognized subcommand 'paln' | a similar subcommand exists: 'plan'
    a flag misspelled | submit --datset x | 2 | unexpected argument '--datset' | a similar argument exists: '--dataset'
    a value of a flag misspelled | plan --policy prdict | 2 | invalid value 'prdict' | a similar value exists: 'predict'
    a backend misspelled | submit --backend slrm | 2 | invalid value 'slrm' | a similar value exists: 'slurm'
    a flag without its value | plan --dataset | 2 | a value is required | --help
    a preset misspelled | plan --preset waever | 5 | no preset named "waever" | did you mean weaver?
    the beginning of a preset's name | plan --preset verl | 5 | no preset named "verl" | did you mean one of verl-grpo, verl-megatron
    a dataset misspelled | plan --dataset diamonds-sed0 | 5 | no dataset profile named | did you mean diamonds-seed0?
    a cluster misspelled | plan --cluster example-h10 | 5 | no cluster profile named | did you mean example-h100?
    a cluster that is like none | plan --cluster nowhere | 5 | no cluster profile named | there are: example-a100, example-h100
    a name with a path | plan --dataset ../x | 5 | cannot be the name of a dataset profile | `oomctl presets` lists
    a knob misspelled | plan --set thread=4 | 5 | no knob named thread | did you mean threads?
    part of a knob's name | plan --preset verl-grpo --set micro_batch=4 | 5 | no knob named micro_batch | did you mean one of ppo_micro_batch_size_per_gpu
    a knob that is like none | plan --set tile=4 | 5 | no knob named tile | `oomctl presets weaver` lists
    a knob explained that there is not | explain thread | 5 | no knob named thread | did you mean threads?
    no value for a knob | plan --set threads | 5 | is not an assignment | write --set NAME=VALUE
    a value of the wrong kind | plan --set threads=many | 5 | expected a whole number, got `many` | threads takes a whole number from 1 to 4096
    a value out of bounds | plan --set threads=0 | 5 | below its least value 1 | threads takes a whole number from 1 to 4096
    a key handed over without a value | plan --override x | 5 | is not an assignment | write --override NAME=VALUE
    a key that is no knob | plan --set a.b=1 | 5 | no knob named a.b | --override a.b=1
    a probability above one | plan --min-fit-probability 2 | 5 | probability to fit | 0.9 is the default
    two policies | plan --same-math --policy ladder | 2 | cannot be used with | --help
    predict, one rung at a time | plan --policy predict --one-rung | 5 | exclude each other | drop one of the two
    a project file that there is not | plan --config missing.yaml | 5 | missing.yaml | check the path
    a project file that is a folder | plan --config . | 5 | cannot read | name a file in it
    a run that there is not | status nothing-1 | 2 | nothing-1 | `oomctl submit` starts a run
    a run to be watched | watch nothing-1 | 2 | nothing-1 | `oomctl submit` starts a run
    an age that may be minutes or days | prune --older-than 5 | 2 | is not a time | 7d, 12h
    a run to be cancelled | cancel nothing-1 | 2 | nothing-1 | `oomctl submit` starts a run
    a run to be reported | report nothing-1 | 2 | nothing-1 | `oomctl submit` starts a run
    a run to be explained | explain threads --run nothing-1 | 2 | nothing-1 | `oomctl submit` starts a run
    a name that no run can have | submit --backend local --run ../out | 2 | cannot be the name of a run | name it with letters, digits
    a log that there is not | diagnose missing.log | 2 | missing.log |
    a preset shown that there is not | presets torchrn | 5 | torchrn | did you mean torchrun?
    an option of sbatch that is ours | submit --sbatch=--wait | 2 | --wait cannot be used here |
    init twice | init | 5 | already exists | --force
    init with a preset misspelled | init --force --preset waever | 5 | no preset named "waever" | did you mean weaver?
    init without a terminal | init --force --interactive | 2 | not a terminal | --preset NAME --set
    a sweep that there is not | sweep check missing.yaml | 2 | missing.yaml | check the path
    a script that there is not | submit missing.sbatch | 2 | cannot read the job script missing.sbatch | oomctl options come before it
    a program that there is not | run --wait 1s --allow-cpu -- no-such-program-zz | 127 | no-such-program-zz | check that it is installed
    no program | run | 2 | required arguments were not provided | --help
    a schema of nothing | schema prest | 2 | invalid value 'prest' | a similar value exists: 'preset'
    a shell that is not known | completions bsh | 2 | invalid value 'bsh' | a similar value exists: 'bash'
    manual pages into a file | man --out oomctl.yaml | 5 | cannot create oomctl.yaml | give a folder
    "#,
);

/// Mistakes in the project file: what, its text, what is said, what next, and another file with its text.
const FILES: [[&str; 6]; 31] = table(
    r#"
    a key misspelled | knob: { threads: 4 } | unknown key `knob` | did you mean `knobs`?
    a key that is like none | zzqqx: 1 | unknown key `zzqqx` | known keys here: preset, dataset
    a knob misspelled | knobs: { thread: 4 } | no knob named thread | did you mean threads?
    a kind that is wrong | knobs: { threads: many } | expected a whole number, got `many` | threads takes a whole number from 1 to 4096
    a list for a number | knobs: { threads: [1, 2] } | expected a whole number, got a list | threads takes a whole number
    a size without a number | knobs: { mem: lots } | expected an amount of memory | mem takes an amount of memory
    a time that is none | knobs: { time_limit: soon } | expected a duration | time_limit takes a duration
    text that sbatch would misread | knobs: { partition: 'gpu; rm -rf' } | not allowed there | partition takes text of the form
    a key twice | pin: [threads]\npin: [cloth] | the key `pin` is given twice | remove one of the two
    a tab | knobs:\n\tthreads: 4 | tabs | indent with spaces
    a bracket that is not closed | knobs: { threads: 4 | unclosed | close it
    two documents | ---\npreset: weaver | several documents | keep one of them
    text for a map | knobs: threads | expected keys and values, got `threads` | one a line and indented
    a map for text | dataset: { a: b } | expected text, got a map | write one value
    a pin misspelled | pin: [thread] | no knob named thread | did you mean threads?
    pins that are no list | pin: threads | expected a list of knobs | write `pin: [
    a rung misspelled | ladder: [thinn] | no rung named thinn | did you mean thin?
    a ladder that is no list | ladder: thin | expected a list of rungs | write `ladder: [
    a rung without a name | ladder: [{ laps: 2 }] | this rung has no name | add `rung: NAME`
    a policy misspelled | policy: same_math | no policy named | policies: ladder, same-math, predict
    a backend misspelled | backend: slrum | no backend named | backends: auto, slurm, flux, pbs, local
    a switch that is neither | one_rung: sometimes | one_rung is true or false | one rung at a time is `true`
    a probability above one | risk: 2 | probability to fit | 0.9 is the default
    a limit misspelled | limits: { attempt: 3 } | unknown key `attempt` | did you mean `attempts`?
    a limit that is not a number | limits: { attempts: many } | limits: invalid type | counts are whole numbers
    a wait that is no duration | supervision: { poll: soon } | not a duration | 90s, 15m, 12h, 3d
    a rule that is broken | knobs: { threads: 7 } | no multiple of a row of 7 threads | cloth 63 would be legal
    a signature without its text | signatures: [{ id: mine, kind: x }] | signature: missing field | are needed
    a dataset that cannot be read | dataset: mine | unknown key `knob` | did you mean `knobs`? | presets/datasets/mine.yaml | dataset: mine\nknob: {}\n
    a cluster with a fact misspelled | cluster: mine | unknown key `gpu_per_node` | did you mean `gpus_per_node`? | presets/clusters/mine.yaml | cluster: mine\nfacts: { gpu_per_node: 4 }\n
    a preset that cannot be read |  | unknown field `sumary` | did you mean summary? | presets/weaver.yaml | preset: weaver\nsumary: x\n
    "#,
);

fn commands() -> Vec<Row> {
    let row = |[what, command, code, says, next]: [&'static str; 5]| Row {
        what,
        yaml: String::new(),
        file: None,
        command,
        code: code.parse().unwrap(),
        says,
        next,
    };
    COMMANDS.map(row).into()
}

fn files() -> Vec<Row> {
    let text = |written: &str| written.replace("\\n", "\n").replace("\\t", "\t");
    let row = |[what, yaml, says, next, file, content]: [&'static str; 6]| Row {
        what,
        yaml: text(yaml),
        file: (!file.is_empty()).then(|| (file, text(content))),
        command: "plan",
        code: 5,
        says,
        next,
    };
    FILES.map(row).into()
}

fn made(row: &Row) -> Done {
    let place = Place::bare();
    weaver::furnish(&place);
    place.write("oomctl.yaml", &format!("preset: weaver\n{}\n", row.yaml));
    if let Some((name, text)) = &row.file {
        place.write(name, text);
    }
    let words = shlex::split(row.command).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    place.run(&words)
}

/// What is wrong with what was said.
fn lacks(row: &Row, done: &Done) -> Vec<String> {
    let mut lacks = Vec::new();
    if done.code != row.code {
        lacks.push(format!("ends with {}, not {}", done.code, row.code));
    }
    if !done.out.is_empty() {
        lacks.push("speaks on standard output".to_owned());
    }
    if !done.err.lines().any(|l| l.starts_with("error: ")) {
        lacks.push("no line begins with `error:`".to_owned());
    }
    for words in [row.says, row.next] {
        if !done.err.contains(words) {
            lacks.push(format!("does not say {words:?}"));
        }
    }
    let next = ["\nhint: ", "\n  tip: ", "--help"];
    if !next.iter().any(|n| done.err.contains(n)) {
        lacks.push("does not say what next".to_owned());
    }
    lacks
}

/// The mistakes of which the message is a preset's own.
const OF_PRESETS: &[&str] = &["a rule that is broken"];

#[test]
fn every_mistake_is_told_with_what_where_and_what_next() {
    let headings: Vec<String> = sections().into_iter().flat_map(|s| s.quoted).collect();
    let (mut rows, files) = (commands(), files());
    let of_files = rows.len()..;
    rows.extend(files);
    let rows: Vec<(usize, Row)> = rows.into_iter().enumerate().collect();
    let bad = std::sync::Mutex::new(Vec::new());
    at_once(&rows, |(number, row)| {
        let done = made(row);
        let mut lacks = lacks(row, &done);
        if of_files.contains(number) && !done.err.contains(".yaml:") {
            lacks.push("does not say where".to_owned());
        }
        let found = headings.iter().any(|quoted| is_said(quoted, &done.err));
        if !found && !OF_PRESETS.contains(&row.what) {
            lacks.push("has no heading in docs/troubleshooting.md".to_owned());
        }
        if !lacks.is_empty() {
            bad.lock().unwrap().push(format!(
                "{} ({}): {}\n{}",
                row.what,
                row.command,
                lacks.join(", "),
                done.told()
            ));
        }
    });
    let bad = bad.into_inner().unwrap();
    assert!(
        bad.is_empty(),
        "{} of {}:\n{}",
        bad.len(),
        rows.len(),
        bad.join("\n")
    );
}

/// A variable that was meant to set a knob would set nothing in silence.
#[test]
fn a_variable_misspelled_is_told_with_the_knob_that_was_meant() {
    let mut place = weaver::project("");
    place.set("OOMCTL_THREDS", "4");
    place.set("OOMCTL_SOMETHING_ELSE", "4");
    let done = place.run(&["plan"]).ends(0);
    done.says(&["warning: $OOMCTL_THREDS sets nothing; did you mean $OOMCTL_THREADS?"]);
    assert_eq!(done.err.matches("warning").count(), 1, "{}", done.told());
}

/// A run that there is: its name, and that of a knob, are found though they are misspelled.
#[test]
fn the_run_that_was_meant_is_named() {
    let place = weaver::project("");
    place
        .run("submit --backend local --run loom-one --watch")
        .ends(0);
    for command in ["status", "watch", "cancel", "report"] {
        place.says(&[command, "lom-one"], 2, &["did you mean loom-one?"]);
    }
    place
        .run("submit --backend local --run loom-one")
        .ends(2)
        .says(&[
            "a run `loom-one` already exists",
            "`oomctl watch loom-one` continues it",
        ]);
    // A ledger that is damaged in its middle.
    let ledger = place.path(".oomctl/runs/loom-one/ledger.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(&ledger, text.replacen("{\"v\":1", "{\"v\":?", 1)).unwrap();
    place.says("status loom-one", 7, &["damaged here", "Recovery"]);
}

/// Slurm tells of all jobs if it is asked for job 0: an empty variable would take somebody's job over.
#[test]
fn there_is_no_job_0_and_the_scheduler_is_not_asked_for_it() {
    let mut place = Place::bare();
    place
        .shell("mkdir bin; for c in sbatch squeue scontrol sacct scancel sinfo; do printf '#!/bin/sh\\ntouch %s/asked\\n' \"$PWD\" > bin/$c; done; chmod +x bin/*")
        .ends(0);
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", place.path("bin").display()));
    for command in [
        "watch",
        "cancel -y",
        "diagnose",
        "logs",
        "status",
        "retry",
        "report",
    ] {
        for id in ["0", "00", "0_1"] {
            let words: Vec<&str> = command.split(' ').chain([id]).collect();
            let done = place.run(&words).ends(2);
            done.says(&[&format!("no job {id}: the first has the id 1")]);
        }
    }
    assert!(!place.path("asked").exists());
}
