//! For any way of writing a value: after a patch it is the new one, and nothing else has changed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Adoption, Given, Launchers, Stack, StackKnob, State, Submission};
use crate::core::recipe::{Effect, Kind, Recognise, Spelling, Value};

static LAUNCHERS: LazyLock<Launchers> = LazyLock::new(|| {
    let text = include_str!("../../../presets/launchers/known.yaml");
    serde_yaml::from_str(text).unwrap()
});

fn stack() -> Stack {
    let knob = |name: &str, spellings: Vec<Spelling>| StackKnob {
        name: name.to_owned(),
        role: None,
        kind: Kind::Int,
        effect: Effect::SameMath,
        styles: vec![0; spellings.len()],
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
    let stacks = [stack()];
    let submission = Submission {
        script: "a.sh".to_owned(),
        ..Submission::default()
    };
    let files = BTreeMap::from([("a.sh".to_owned(), script.to_owned())]);
    let given = Given {
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
    let again = Adoption::read(Given {
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
    assert_eq!(found.state, State::Known(Value::Int(value)), "{script}");
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
