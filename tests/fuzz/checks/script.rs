//! A script that somebody submits, or something that only looks like one: it is read to its end, and a patch
//! changes what it says and nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use oomctl::core::recipe::PresetFile;
use oomctl_base::Value;
use oomctl_scripts::{
    Adoption, Ask, KnobState, Launchers, Stack, Submission, SubmissionContext, directives, hydra,
    settings::SettingsFormat, shell,
};

use super::allocations::within;

/// Bytes that a script may become, beside a multiple of its own length: a variable is used again and again.
const MOST_MEMORY: usize = 512 << 20;

static LAUNCHERS: LazyLock<Launchers> = LazyLock::new(|| {
    let text = include_str!("../../../presets/launchers/known.yaml");
    serde_yaml::from_str(text).unwrap()
});

static STACKS: LazyLock<Arc<Vec<Stack>>> = LazyLock::new(|| {
    let texts = [
        include_str!("../../../presets/verl-grpo.yaml"),
        include_str!("../../../presets/torchrun.yaml"),
    ];
    let read = |text: &str| serde_yaml::from_str::<PresetFile>(text).unwrap().stack();
    Arc::new(texts.into_iter().map(read).collect())
});

/// A program that composes its configuration.
const PROGRAM: &str = "@hydra.main('conf', 'config', '1.3')\ndef main(c): ...\n";

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // Both are made before what is held is counted.
    let known = (LazyLock::force(&LAUNCHERS), LazyLock::force(&STACKS));
    within(MOST_MEMORY, || {
        words(&text);
        adoption(&text, known.0, known.1);
    });
}

/// Every byte that a reader names stands in the text.
fn words(text: &str) {
    let script = shell::read(text);
    assert!(script.faults.iter().all(|at| *at <= text.len()));
    let formats = [
        SettingsFormat::Json,
        SettingsFormat::Toml,
        SettingsFormat::Yaml,
    ];
    let read: Vec<_> = formats.iter().filter_map(|f| f.read(text)).collect();
    for line in text.lines().take(50) {
        if let Some(read) = hydra::read(line) {
            assert!(read.value.is_none_or(|at| line.get(at).is_some()));
        }
        for read in &read {
            let found = read.find(line);
            assert!(found.is_none_or(|entry| text.get(entry.bytes.clone()).is_some()));
        }
    }
}

fn adoption(text: &str, launchers: &Launchers, stacks: &Arc<Vec<Stack>>) {
    let mut files = BTreeMap::from([("a.sh".to_owned(), text.to_owned())]);
    // Scripts that call each other, and themselves; configurations, too.
    for part in "run.sh conf.json conf.yaml conf/config.yaml conf/a/b.yaml".split_whitespace() {
        files.insert(part.to_owned(), text.to_owned());
    }
    files.insert("train.py".to_owned(), PROGRAM.to_owned());
    let submission = Submission {
        script: "a.sh".to_owned(),
        args: vec!["--x".to_owned(), "1".to_owned()],
        ..Submission::default()
    };
    let adoption = Adoption::read(SubmissionContext {
        submission: &submission,
        files: &files,
        launchers,
        stacks,
    });
    let sources = &adoption.reading.sources;
    for directive in directives(&adoption.reading) {
        let source = &sources[directive.span.file].text;
        assert!(
            source
                .get(directive.span.start..directive.span.end)
                .is_some()
        );
    }
    let _ = adoption.change(&[], &[Ask::Memory("7G".to_owned()), Ask::GpusPerNode(3)]);
    for (knob, found) in adoption.knobs().into_iter().take(3) {
        let KnobState::Known(Value::Int(old)) = found.state else {
            continue;
        };
        let new = Value::Int(old.wrapping_add(1).max(1));
        if let Ok(patch) = adoption.change(&[(&knob.name, new)], &[]) {
            // One place for each time that the program is started.
            let pairs = patch.before.iter().zip(&patch.after);
            let changed = pairs.filter(|(old, new)| old != new).count();
            assert!(changed <= adoption.calls().count());
        }
    }
}
