//! Every mistake that a user can make is told with what, where, why and what next: one row each.

use std::fs;

use super::messages::{is_said, sections};
use super::place::{Done, Place, at_once};
use super::weaver;

/// A mistake: how it is made, and what is said.
struct Row {
    what: &'static str,
    yaml: &'static str,
    /// Another file of the project, and its text.
    file: Option<(&'static str, &'static str)>,
    command: &'static str,
    code: i32,
    says: &'static str,
    next: &'static str,
}

const fn row(
    what: &'static str,
    command: &'static str,
    code: i32,
    says: &'static str,
    next: &'static str,
) -> Row {
    Row {
        what,
        yaml: "",
        file: None,
        command,
        code,
        says,
        next,
    }
}

const fn yaml(
    what: &'static str,
    yaml: &'static str,
    says: &'static str,
    next: &'static str,
) -> Row {
    Row {
        what,
        yaml,
        file: None,
        command: "plan",
        code: 5,
        says,
        next,
    }
}

impl Row {
    const fn file(mut self, name: &'static str, text: &'static str) -> Self {
        self.file = Some((name, text));
        self
    }
}

/// Mistakes in a command line, by command.
const COMMANDS: &[Row] = &[
    row(
        "no command",
        "frobnicate",
        2,
        "unrecognized subcommand 'frobnicate'",
        "--help",
    ),
    row(
        "a command misspelled",
        "sbmit",
        2,
        "unrecognized subcommand 'sbmit'",
        "a similar subcommand exists: 'submit'",
    ),
    row(
        "a flag misspelled",
        "submit --datset x",
        2,
        "unexpected argument '--datset'",
        "a similar argument exists: '--dataset'",
    ),
    row(
        "a value of a flag misspelled",
        "plan --policy prdict",
        2,
        "invalid value 'prdict'",
        "a similar value exists: 'predict'",
    ),
    row(
        "a backend misspelled",
        "submit --backend slrm",
        2,
        "invalid value 'slrm'",
        "a similar value exists: 'slurm'",
    ),
    row(
        "a flag without its value",
        "plan --dataset",
        2,
        "a value is required",
        "--help",
    ),
    row(
        "a preset misspelled",
        "plan --preset waever",
        5,
        "no preset named \"waever\"",
        "did you mean weaver?",
    ),
    row(
        "a dataset misspelled",
        "plan --dataset diamonds-sed0",
        5,
        "no dataset profile named",
        "did you mean diamonds-seed0?",
    ),
    row(
        "a cluster misspelled",
        "plan --cluster example-h10",
        5,
        "no cluster profile named",
        "did you mean example-h100?",
    ),
    row(
        "a cluster that is like none",
        "plan --cluster nowhere",
        5,
        "no cluster profile named",
        "there are: example-a100, example-h100",
    ),
    row(
        "a name with a path",
        "plan --dataset ../x",
        5,
        "cannot be the name of a dataset profile",
        "`oomctl presets` lists",
    ),
    row(
        "a knob misspelled",
        "plan --set thread=4",
        5,
        "no knob named thread",
        "did you mean threads?",
    ),
    row(
        "part of a knob's name",
        "plan --preset verl-grpo --set micro_batch=4",
        5,
        "no knob named micro_batch",
        "did you mean one of ppo_micro_batch_size_per_gpu",
    ),
    row(
        "a knob that is like none",
        "plan --set tile=4",
        5,
        "no knob named tile",
        "`oomctl presets weaver` lists",
    ),
    row(
        "a knob explained that there is not",
        "explain thread",
        5,
        "no knob named thread",
        "did you mean threads?",
    ),
    row(
        "no value for a knob",
        "plan --set threads",
        5,
        "is not an assignment",
        "write --set NAME=VALUE",
    ),
    row(
        "a value of the wrong kind",
        "plan --set threads=many",
        5,
        "expected a whole number, got `many`",
        "threads takes a whole number from 1 to 4096",
    ),
    row(
        "a value out of bounds",
        "plan --set threads=0",
        5,
        "below its least value 1",
        "threads takes a whole number from 1 to 4096",
    ),
    row(
        "a key handed over without a value",
        "plan --override x",
        5,
        "is not an assignment",
        "write --override NAME=VALUE",
    ),
    row(
        "a key that is no knob",
        "plan --set a.b=1",
        5,
        "no knob named a.b",
        "--override a.b=1",
    ),
    row(
        "a probability above one",
        "plan --risk 2",
        5,
        "probability to fit",
        "0.9 is the default",
    ),
    row(
        "two policies",
        "plan --same-math --policy ladder",
        2,
        "cannot be used with",
        "--help",
    ),
    row(
        "predict, one rung at a time",
        "plan --policy predict --one-rung",
        5,
        "exclude each other",
        "drop one of the two",
    ),
    row(
        "a project file that there is not",
        "plan --config missing.yaml",
        5,
        "missing.yaml",
        "check the path",
    ),
    row(
        "a project file that is a folder",
        "plan --config .",
        5,
        "cannot read",
        "name a file in it",
    ),
    row(
        "a run that there is not",
        "status nothing-1",
        2,
        "nothing-1",
        "`oomctl submit` starts a run",
    ),
    row(
        "a run to be watched",
        "watch nothing-1",
        2,
        "nothing-1",
        "`oomctl submit` starts a run",
    ),
    row(
        "a run to be cancelled",
        "cancel nothing-1",
        2,
        "nothing-1",
        "`oomctl submit` starts a run",
    ),
    row(
        "a run to be reported",
        "report nothing-1",
        2,
        "nothing-1",
        "`oomctl submit` starts a run",
    ),
    row(
        "a run to be explained",
        "explain threads --run nothing-1",
        2,
        "nothing-1",
        "`oomctl submit` starts a run",
    ),
    row(
        "a name that no run can have",
        "submit --backend local --run ../out",
        2,
        "cannot be the name of a run",
        "name it with letters, digits",
    ),
    row(
        "a log that there is not",
        "diagnose missing.log",
        2,
        "missing.log",
        "",
    ),
    row(
        "a preset shown that there is not",
        "presets torchrn",
        5,
        "torchrn",
        "did you mean torchrun?",
    ),
    row(
        "an option of sbatch that is ours",
        "submit --sbatch=--wait",
        2,
        "--wait cannot be used here",
        "",
    ),
    row("init twice", "init", 5, "already exists", "--force"),
    row(
        "init with a preset misspelled",
        "init --force --preset waever",
        5,
        "no preset named \"waever\"",
        "did you mean weaver?",
    ),
    row(
        "init without a terminal",
        "init --force --interactive",
        2,
        "not a terminal",
        "--preset NAME --set",
    ),
    row(
        "a sweep that there is not",
        "sweep check missing.yaml",
        2,
        "missing.yaml",
        "check the path",
    ),
    row(
        "a script that there is not",
        "submit missing.sbatch",
        5,
        "cannot read the job script missing.sbatch",
        "oomctl options come before it",
    ),
    row(
        "a program that there is not",
        "run --wait 1s --allow-cpu -- no-such-program-zz",
        127,
        "no-such-program-zz",
        "check that it is installed",
    ),
    row(
        "no program",
        "run",
        2,
        "required arguments were not provided",
        "--help",
    ),
    row(
        "a schema of nothing",
        "schema prest",
        2,
        "invalid value 'prest'",
        "a similar value exists: 'preset'",
    ),
    row(
        "a shell that is not known",
        "completions bsh",
        2,
        "invalid value 'bsh'",
        "a similar value exists: 'bash'",
    ),
    row(
        "manual pages into a file",
        "man --out oomctl.yaml",
        5,
        "cannot create oomctl.yaml",
        "give a folder",
    ),
];

/// Mistakes in the project file.
const FILES: &[Row] = &[
    yaml(
        "a key misspelled",
        "knob: { threads: 4 }",
        "unknown key `knob`",
        "did you mean `knobs`?",
    ),
    yaml(
        "a key that is like none",
        "zzqqx: 1",
        "unknown key `zzqqx`",
        "known keys here: preset, dataset",
    ),
    yaml(
        "a knob misspelled",
        "knobs: { thread: 4 }",
        "no knob named thread",
        "did you mean threads?",
    ),
    yaml(
        "a kind that is wrong",
        "knobs: { threads: many }",
        "expected a whole number, got `many`",
        "threads takes a whole number from 1 to 4096",
    ),
    yaml(
        "a list for a number",
        "knobs: { threads: [1, 2] }",
        "expected a whole number, got a list",
        "threads takes a whole number",
    ),
    yaml(
        "a size without a number",
        "knobs: { mem: lots }",
        "expected an amount of memory",
        "mem takes an amount of memory",
    ),
    yaml(
        "a time that is none",
        "knobs: { time_limit: soon }",
        "expected a duration",
        "time_limit takes a duration",
    ),
    yaml(
        "text that sbatch would misread",
        "knobs: { partition: 'gpu; rm -rf' }",
        "not allowed there",
        "partition takes text of the form",
    ),
    yaml(
        "a key twice",
        "pin: [threads]\npin: [cloth]",
        "the key `pin` is given twice",
        "remove one of the two",
    ),
    yaml(
        "a tab",
        "knobs:\n\tthreads: 4",
        "tabs",
        "indent with spaces",
    ),
    yaml(
        "a bracket that is not closed",
        "knobs: { threads: 4",
        "unclosed",
        "close it",
    ),
    yaml(
        "two documents",
        "---\npreset: weaver",
        "several documents",
        "keep one of them",
    ),
    yaml(
        "text for a map",
        "knobs: threads",
        "expected keys and values, got `threads`",
        "one a line and indented",
    ),
    yaml(
        "a map for text",
        "dataset: { a: b }",
        "expected text, got a map",
        "write one value",
    ),
    yaml(
        "a pin misspelled",
        "pin: [thread]",
        "no knob named thread",
        "did you mean threads?",
    ),
    yaml(
        "pins that are no list",
        "pin: threads",
        "expected a list of knobs",
        "write `pin: [",
    ),
    yaml(
        "a rung misspelled",
        "ladder: [thinn]",
        "no rung named thinn",
        "did you mean thin?",
    ),
    yaml(
        "a ladder that is no list",
        "ladder: thin",
        "expected a list of rungs",
        "write `ladder: [",
    ),
    yaml(
        "a rung without a name",
        "ladder: [{ laps: 2 }]",
        "this rung has no name",
        "add `rung: NAME`",
    ),
    yaml(
        "a policy misspelled",
        "policy: same_math",
        "no policy named",
        "policies: ladder, same-math, predict",
    ),
    yaml(
        "a backend misspelled",
        "backend: slrum",
        "no backend named",
        "backends: auto, slurm, local",
    ),
    yaml(
        "a switch that is neither",
        "one_rung: sometimes",
        "one_rung is true or false",
        "one rung at a time is `true`",
    ),
    yaml(
        "a probability above one",
        "risk: 2",
        "probability to fit",
        "0.9 is the default",
    ),
    yaml(
        "a limit misspelled",
        "limits: { attempt: 3 }",
        "unknown key `attempt`",
        "did you mean `attempts`?",
    ),
    yaml(
        "a limit that is not a number",
        "limits: { attempts: many }",
        "limits: invalid type",
        "counts are whole numbers",
    ),
    yaml(
        "a wait that is no duration",
        "supervision: { poll: soon }",
        "not a duration",
        "90s, 15m, 12h, 3d",
    ),
    yaml(
        "a rule that is broken",
        "knobs: { threads: 7 }",
        "no multiple of a row of 7 threads",
        "cloth 63 would fit",
    ),
    yaml(
        "a signature without its text",
        "signatures: [{ id: mine, kind: x }]",
        "signature: missing field",
        "are needed",
    ),
    yaml(
        "a dataset that cannot be read",
        "dataset: mine",
        "unknown key `knob`",
        "did you mean `knobs`?",
    )
    .file("presets/datasets/mine.yaml", "dataset: mine\nknob: {}\n"),
    yaml(
        "a cluster with a fact misspelled",
        "cluster: mine",
        "unknown key `gpu_per_node`",
        "did you mean `gpus_per_node`?",
    )
    .file(
        "presets/clusters/mine.yaml",
        "cluster: mine\nfacts: { gpu_per_node: 4 }\n",
    ),
    yaml(
        "a preset that cannot be read",
        "",
        "unknown field `sumary`",
        "did you mean summary?",
    )
    .file("presets/weaver.yaml", "preset: weaver\nsumary: x\n"),
];

fn made(row: &Row) -> Done {
    let place = Place::bare();
    weaver::furnish(&place);
    place.write("oomctl.yaml", &format!("preset: weaver\n{}\n", row.yaml));
    if let Some((name, text)) = row.file {
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
    let rows: Vec<&Row> = COMMANDS.iter().chain(FILES).collect();
    let bad = std::sync::Mutex::new(Vec::new());
    at_once(&rows, |row| {
        let done = made(row);
        let mut lacks = lacks(row, &done);
        let has_place = !FILES.iter().any(|f| std::ptr::eq(f, *row)) || done.err.contains(".yaml:");
        if !has_place {
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
        .call("submit --backend local --run loom-one --watch")
        .ends(0);
    for command in ["status", "watch", "cancel", "report"] {
        place
            .run(&[command, "lom-one"])
            .ends(2)
            .says(&["did you mean loom-one?"]);
    }
    place
        .run(&["submit", "--backend", "local", "--run", "loom-one"])
        .ends(2)
        .says(&[
            "a run `loom-one` already exists",
            "`oomctl watch loom-one` continues it",
        ]);
    // A ledger that is damaged in its middle.
    let ledger = place.path(".oomctl/runs/loom-one/ledger.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(&ledger, text.replacen("{\"v\":1", "{\"v\":?", 1)).unwrap();
    place
        .run(&["status", "loom-one"])
        .ends(7)
        .says(&["damaged here", "Recovery"]);
}
