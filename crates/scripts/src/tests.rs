//! For any way of writing a value: after a patch it is the new one, and nothing else has changed.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::{Adoption, KnobState, Launchers, Stack, StackKnob, Submission, SubmissionContext};
use crate::{Recognise, SettingsReader, Spelling};
use oomctl_base::{Effect, Value, ValueKind};

static LAUNCHERS: LazyLock<Launchers> = LazyLock::new(|| {
    let text = include_str!("../../../presets/launchers/known.yaml");
    serde_yaml::from_str(text).unwrap()
});

fn stack() -> Stack {
    let knob = |name: &str, spellings: Vec<Spelling>| StackKnob {
        name: name.to_owned(),
        role: None,
        kind: ValueKind::Int,
        effect: Effect::SameMath,
        reader: SettingsReader::Any,
        styles: vec![0; spellings.len()],
        endings: Vec::new(),
        spellings,
    };
    let batch = vec![
        Spelling::Hydra("a.batch".to_owned()),
        Spelling::Flag("--batch_size".to_owned()),
    ];
    Stack {
        name: "any".to_owned(),
        recognise: Recognise {
            modules: vec!["m".to_owned()],
            ..Recognise::default()
        },
        knobs: vec![
            knob("batch", batch),
            knob("other", vec![Spelling::Flag("--other".to_owned())]),
        ],
    }
}

/// What a script starts before and after a change, and the script after it.
fn changed(script: &str, value: i64) -> Result<(String, Vec<String>, Vec<String>), String> {
    let stacks = Arc::new(vec![stack()]);
    let submission = Submission {
        script: "a.sh".to_owned(),
        ..Submission::default()
    };
    let files = BTreeMap::from([("a.sh".to_owned(), script.to_owned())]);
    let given = SubmissionContext {
        submission: &submission,
        files: &files,
        launchers: &LAUNCHERS,
        stacks: &stacks,
    };
    let adoption = Adoption::read(given);
    let patch = adoption
        .change(&[("batch", Value::Int(value))], &[])
        .map_err(|refused| format!("{refused:?}"))?;
    let (submission, files) = adoption.resubmitted(&patch);
    let again = Adoption::read(SubmissionContext {
        submission: &submission,
        files: &files,
        ..given
    });
    let words = |adoption: &Adoption<'_>| -> Vec<String> {
        let call = adoption.calls().next().unwrap();
        call.words.iter().map(|w| w.text.text()).collect()
    };
    let knobs = again.knobs();
    let (_, found) = knobs.iter().find(|(k, _)| k.name == "batch").unwrap();
    assert_eq!(found.state, KnobState::Known(Value::Int(value)), "{script}");
    Ok((files["a.sh"].clone(), words(&adoption), words(&again)))
}

/// Lines that define a variable, and the word that uses it.
fn sources(value: i64) -> Vec<(String, &'static str)> {
    vec![
        (String::new(), "V"),
        (format!("X={value}\n"), "$X"),
        (format!("X=\"{value}\" # so many\n"), "${X}"),
        (format!("export X='{value}'\n"), "\"$X\""),
        (format!("X=${{X:-{value}}}\n"), "$X"),
        (format!(": \"${{X:={value}}}\"\n"), "${X}"),
        (format!("Y={value} Z=1\nX=$Y\n"), "$X"),
        (format!("declare -i X={value}\n"), "${X}"),
    ]
}

const WORDS: [&str; 7] = [
    "a.batch=%",
    "+a.batch=%",
    "++a.batch=% c=d",
    "--batch_size %",
    "--batch-size=%",
    "--batch_size 7 --batch_size %",
    "x=1 a.batch=1 a.batch=%",
];
/// What starts the words, and whether a double quote can stand in them.
const FRAMES: [(&str, bool); 9] = [
    ("python -m m % --other 5\n", true),
    (
        "srun \\\n  python3 -m m \\\n    % \\\n    --other 5 2>&1 | tee log\n",
        true,
    ),
    (
        "ARGS=(\n  --other 5\n  % # one\n)\npython -m m \"${ARGS[@]}\"\n",
        true,
    ),
    (
        "ARGS+=(%)\nARGS+=(--other 5)\ntorchrun -m m ${ARGS[@]}\n",
        true,
    ),
    ("ARGS=\"% \\\n --other 5\"\npython -m m $ARGS\n", false),
    ("go() {\n  python -m m \"$@\" --other 5\n}\ngo %\n", true),
    ("if true; then\n  python -m m % --other 5\nfi\n", true),
    ("export X\nbash -c \"python -m m % --other 5\"\n", false),
    (
        "for i in 1 2 3; do python -m m % --other 5 --seed $i; done\n",
        true,
    ),
];
/// Another use of the value, which must stay.
const OTHERS: [&str; 4] = [
    "",
    "python -m m.prepare --n $X\n",
    "OUT=run-$X\n",
    "echo $X\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_value_is_changed_and_nothing_else(
        old in 1_i64..5_000,
        new in 1_i64..5_000,
        source in 0_usize..8,
        word in 0..WORDS.len(),
        frame in 0..FRAMES.len(),
        other in 0..OTHERS.len(),
    ) {
        let (define, used) = sources(old).swap_remove(source);
        let (frame, quotes) = FRAMES[frame];
        let used = if quotes { used.to_owned() } else { used.replace('"', "") };
        let value = used.replace('V', &old.to_string());
        let body = frame.replace('%', &WORDS[word].replace('%', &value));
        let script = format!("#!/bin/bash\n#SBATCH --mem=1G\n{define}{}{body}", OTHERS[other]);
        let (after, was, is) = changed(&script, new).map_err(TestCaseError::fail)?;
        // One place differs, and holds nothing but the value.
        let same = |(a, b): &(u8, u8)| a == b;
        let start = script.bytes().zip(after.bytes()).take_while(same).count();
        let rest = script[start..].bytes().rev().zip(after[start..].bytes().rev());
        let end = rest.take_while(same).count();
        prop_assert!(script.len() - end - start <= 4, "{script}\n{after}");
        prop_assert_eq!(was.len(), is.len());
        let differing = was.iter().zip(&is).filter(|(a, b)| a != b).count();
        prop_assert!(differing <= 1, "{}\n{}", script, after);
        // What else used the value has it still.
        if OTHERS[other].contains("OUT") || OTHERS[other].contains("prepare") {
            prop_assert!(after.contains(OTHERS[other]));
            let defined = define.is_empty() || after.contains(&define);
            prop_assert!(defined, "{}\n{}", script, after);
        }
    }
}

/// A stack with a knob of each kind, which a file gives under `sec` and words as flags or overrides.
fn told() -> Stack {
    let knob = |name: &str, kind: ValueKind| {
        let spellings = vec![
            Spelling::Flag(format!("--{name}")),
            Spelling::Hydra(format!("sec.{name}")),
        ];
        StackKnob {
            name: name.to_owned(),
            role: None,
            kind,
            effect: Effect::SameMath,
            reader: SettingsReader::Any,
            styles: vec![0; spellings.len()],
            endings: Vec::new(),
            spellings,
        }
    };
    let kinds = [
        ("text", ValueKind::Text),
        ("count", ValueKind::Int),
        ("share", ValueKind::Float),
        ("on", ValueKind::Bool),
    ];
    Stack {
        name: "any".to_owned(),
        recognise: Recognise {
            modules: vec!["m".to_owned()],
            ..Recognise::default()
        },
        knobs: kinds.map(|(name, kind)| knob(name, kind)).to_vec(),
    }
}

/// Files of a job: the script, and one in which `^` stands for the value of `%`.
const FILES: [(&str, &str, &str); 12] = [
    (
        "python -m m c.json\n",
        "c.json",
        "{\n  \"sec\": {\"a\": 1, \"%\": ^}, // one\n  \"z\": [1, 2]\n}\n",
    ),
    (
        "python -m m --c=c.json\n",
        "c.json",
        "{\"z\": {\"%\": 7},\r\n \"sec\": {\r\n\t\"%\": ^\r\n }\r\n}",
    ),
    (
        "python -m m c.toml\n",
        "c.toml",
        "z = 1 # no\n[sec]\n% = ^   # one\na = 'b'\n",
    ),
    (
        "python -m m c.toml\n",
        "c.toml",
        "[z]\n% = 7\n[sec]\na = [1]\n  % = ^\n",
    ),
    (
        "python -m m c.yaml\n",
        "c.yaml",
        "z: 1  # no\nsec:\n  a: [1, 2]\n  %: ^  # one\n  b: x\n",
    ),
    (
        "python -m m c.yaml --x 1\n",
        "c.yaml",
        "# all\nsec: {a: 1, %: ^, b: 'x y'}\nz: |\n  %: 7\n",
    ),
    (
        "python -m m c.yml\n",
        "c.yml",
        "sec:\r\n    %:   ^\r\nz:\r\n- %: 7\r\n",
    ),
    (
        "cat > c.yaml <<'EOF'\nz: $X\nsec:\n  %: ^ # one\nEOF\npython -m m c.yaml\n",
        "",
        "",
    ),
    ("python -m m --a 'x y' --% ^ --b \"$HOME\" # one\n", "", ""),
    (
        "ARGS=(--a \"x\"\n  --%=^ # one\n)\npython -m m \"${ARGS[@]}\"\n",
        "",
        "",
    ),
    ("python -m m sec.%=^ +b='[1, 2]' \\\n  c=d\n", "", ""),
    ("V=^\nsrun python -m m --% \"$V\" --b 1\n", "", ""),
];

/// A value as a file of this name, or else a script, writes it, in one of its ways.
fn shown(value: &Value, file: &str, way: usize) -> String {
    let text = value.to_string();
    let quoted = [format!("\"{text}\""), format!("'{text}'"), text.clone()];
    match (value, file.rsplit('.').next()) {
        (Value::Text(_), Some("json")) => quoted[0].clone(),
        (Value::Text(_), Some("toml")) => quoted[way % 2].clone(),
        (Value::Text(_), _) => quoted[way % 3].clone(),
        _ => text,
    }
}

fn pair() -> impl Strategy<Value = (&'static str, Value, Value)> {
    let shares = (1_u32..99, 1_u32..99);
    prop_oneof![
        ("[a-z]{2,8}", "[ -~]{1,10}").prop_map(|(a, b)| (
            "text",
            Value::Text(format!("w{a}")),
            Value::Text(b)
        )),
        ("[a-z]{2,8}", "[a-z0-9]{1,10}").prop_map(|(a, b)| (
            "text",
            Value::Text(format!("w{a}")),
            Value::Text(format!("v{b}"))
        )),
        (1_000_i64..5_000, 1_i64..5_000).prop_map(|(a, b)| ("count", Value::Int(a), Value::Int(b))),
        shares.prop_map(|(a, b)| (
            "share",
            Value::Float(f64::from(a) / 100.0),
            Value::Float(f64::from(b) / 100.0)
        )),
        any::<bool>().prop_map(|a| ("on", Value::Bool(a), Value::Bool(!a))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn in_every_format_a_value_is_changed_and_no_other_byte(
        (name, old, new) in pair(),
        number in 0..FILES.len(),
        way in 0_usize..3,
    ) {
        let (script, file, text) = FILES[number];
        let value = shown(&old, file, way);
        let filled = |text: &str| text.replace('%', name).replace('^', &value);
        let mut files = BTreeMap::from([("a.sh".to_owned(), format!("#!/bin/bash\n{}", filled(script)))]);
        if !file.is_empty() {
            files.insert(file.to_owned(), filled(text));
        }
        let stacks = Arc::new(vec![told()]);
        let submission = Submission { script: "a.sh".to_owned(), ..Submission::default() };
        let given = SubmissionContext { submission: &submission, files: &files, launchers: &LAUNCHERS, stacks: &stacks };
        let adoption = Adoption::read(given);
        let knobs = adoption.knobs();
        let found = knobs.iter().find(|(k, _)| k.name == name).map(|(_, f)| f.state.clone());
        prop_assert_eq!(found, Some(KnobState::Known(old.clone())), "{:?}", files);
        let patch = match adoption.change(&[(name, new.clone())], &[]) {
            Ok(patch) => patch,
            Err(refused) => {
                let plain = new.to_string().chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
                prop_assert!(!plain, "{refused:?} {files:?}");
                return Ok(());
            }
        };
        let (submission, after) = adoption.resubmitted(&patch);
        let again = Adoption::read(SubmissionContext { submission: &submission, files: &after, ..given });
        let knobs = again.knobs();
        let found = knobs.iter().find(|(k, _)| k.name == name).map(|(_, f)| f.state.clone());
        prop_assert_eq!(found, Some(KnobState::Known(new.clone())), "{:?}", after);
        // All bytes before and behind the value are what they were.
        let changed: Vec<&String> = files.keys().filter(|path| files[*path] != after[*path]).collect();
        prop_assert!(changed.len() <= 1);
        for path in changed {
            let (old, new) = (&files[path], &after[path]);
            // Where nothing can take the value's place, another is given behind it.
            let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
            let at = old.find(&value).unwrap();
            let (before, behind) = match patch.appended().next().is_none() {
                true => (&old[..at], &old[at + value.len()..]),
                false => old.split_at(same),
            };
            let kept = new.starts_with(before) && new.ends_with(behind);
            prop_assert!(kept, "{old}\n{new}");
        }
    }
}

/// Looks at what is read of a script with a stack.
pub(crate) fn reading<T>(stack: Stack, script: &str, look: impl FnOnce(&Adoption<'_>) -> T) -> T {
    let submission = Submission {
        script: "a.sh".to_owned(),
        ..Submission::default()
    };
    let files = BTreeMap::from([("a.sh".to_owned(), script.to_owned())]);
    look(&Adoption::read(SubmissionContext {
        submission: &submission,
        files: &files,
        launchers: &LAUNCHERS,
        stacks: &Arc::new(vec![stack]),
    }))
}

/// The program of a script, as one process is started with it.
fn program(script: &str) -> Result<super::JobProgram, String> {
    reading(stack(), script, |adoption| adoption.program())
}

#[test]
fn a_job_is_one_process_of_those_that_its_launchers_start() {
    let start = |script: &str| program(script).unwrap();
    let of_srun = start("export A=1\ncd sub\nsrun -n 8 nice -n 5 python3 -m m --batch_size 4\n");
    assert_eq!(of_srun.words.join(" "), "python3 -m m --batch_size 4");
    assert_eq!(of_srun.folder.as_deref(), Some("sub"));
    assert_eq!(of_srun.variables["A"], "1");
    assert!(of_srun.plays_a_rank && !of_srun.open_options);
    let nodes = "srun torchrun --nnodes $N --rdzv_endpoint=$(hostname):1 train.py --out x/$(date)";
    let of_torchrun = start(nodes);
    let words = "torchrun --nnodes 1 --rdzv_endpoint=1:1 train.py --out x/oomctl-measure";
    assert_eq!(of_torchrun.words.join(" "), words);
    assert!(of_torchrun.open_options);
    let program = start("srun ./train.sh.bin a\ntimeout 3h torchrun train.py\n");
    assert_eq!(program.words.join(" "), "torchrun train.py");
    assert_eq!(start("srun ./train 1\n").words.join(" "), "./train 1");
    let written = start("cat >c.yaml <<E\na: 1\nE\npython3 -m m --batch_size 4 --config c.yaml\n");
    assert_eq!(written.files["c.yaml"], "a: 1\n");
}

#[test]
fn a_job_whose_command_is_not_known_has_no_program() {
    for (script, part) in [
        ("python3 -m m --batch_size $((4 * X))", "value of batch"),
        ("docker run image python3 -m m", "with docker"),
        (
            "srun bash -c 'apptainer exec i python3 -m m'",
            "with apptainer",
        ),
        (
            "x=\nif test -e f; then x=--other; fi\npython3 -m m $x",
            "depends on a condition",
        ),
        ("sleep 1", "starts no program"),
    ] {
        let refused = program(script).unwrap_err();
        assert!(refused.contains(part), "{script}: {refused}");
    }
}
