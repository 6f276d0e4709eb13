//! Scripts of many shapes: what is understood of them, and what a change makes of them.
//!
//! A set is a file in `sets/`: how it is submitted, the values that a reader finds in it, changes to be tried, and
//! the files. The rungs that the ladder of the stack takes are tried for each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::script_job::ScriptJob;
use oomctl::core::config::parse_preset;
use oomctl::core::ladder::Decision;
use oomctl::core::recipe::{KnobSetFile, PresetFile};
use oomctl_base::{Value, ValueKind};
use oomctl_scripts::{
    Adoption, Ask, CopyPlace, KnobState, Launchers, ScriptSource, Span, Stack, Submission,
    SubmissionContext, directives,
};

/// Rungs that are taken one after the other.
const MOST_RUNGS: usize = 24;

/// A set of scripts.
pub(super) struct Set {
    pub name: String,
    pub submission: Submission,
    expected: Vec<(String, String)>,
    changes: Vec<String>,
    pub files: BTreeMap<String, String>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(super) fn files_in(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.is_file() && p.extension().is_some());
    paths.sort();
    paths
}

fn read_yaml<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn presets() -> Vec<PresetFile> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.display().to_string();
        parse_preset(&name, &text).unwrap_or_else(|e| panic!("{e}"))
    };
    files_in("presets").iter().map(read).collect()
}

fn sets_of(preset: &PresetFile) -> Vec<KnobSetFile> {
    let path = |name: &String| folder(&format!("presets/sets/{name}.yaml"));
    preset
        .uses
        .iter()
        .map(|name| read_yaml(&path(name)))
        .collect()
}

fn stacks() -> Arc<Vec<Stack>> {
    let presets = presets();
    let stacks = presets.iter().map(|p| p.clone().with(sets_of(p)).stack());
    Arc::new(stacks.collect())
}

fn launchers() -> Launchers {
    read_yaml(&folder("presets/launchers/known.yaml"))
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |word: &str| {
        word.split_once('=')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    };
    text.split_whitespace().filter_map(pair).collect()
}

pub(super) fn read_set(path: &Path) -> Set {
    let text = std::fs::read_to_string(path).unwrap();
    let (head, rest) = text.split_once("\n-- ").unwrap();
    let lines = |key: &str| -> Vec<String> {
        let lines = head.lines().filter_map(|l| l.strip_prefix(key));
        lines.map(|l| l.trim().to_owned()).collect()
    };
    let mut files = BTreeMap::new();
    for file in rest.split("\n-- ") {
        let (path, text) = file.split_once(" --\n").unwrap();
        files.insert(
            path.to_owned(),
            format!("{}\n", text.trim_end_matches('\n')),
        );
    }
    let words: Vec<String> = lines("submit:")[0]
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let script = words.iter().position(|w| files.contains_key(w)).unwrap();
    Set {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        submission: Submission {
            options: words[..script].to_vec(),
            script: words[script].clone(),
            args: words[script + 1..].to_vec(),
            variables: pairs(&lines("environment:").join(" "))
                .into_iter()
                .collect(),
            is_foreign: false,
        },
        expected: pairs(&lines("expect:").join(" ")),
        changes: lines("change:"),
        files,
    }
}

/// `file:line` of some bytes.
fn place(sources: &[ScriptSource], span: Span) -> String {
    let source = &sources[span.file];
    let before = &source.text[..span.start.min(source.text.len())];
    format!("{}:{}", source.path, before.matches('\n').count() + 1)
}

fn state(adoption: &Adoption<'_>, state: &KnobState) -> String {
    match state {
        KnobState::Known(value) => value.to_string(),
        KnobState::Text(text) => format!("`{text}`, which the program resolves"),
        KnobState::Computed(span, why) => {
            let at = place(&adoption.reading.sources, *span);
            format!("{} at {at}", why.describe())
        }
    }
}

fn shown(adoption: &Adoption<'_>) -> String {
    let sources = &adoption.reading.sources;
    let mut all = String::new();
    let name = adoption.stack.map_or("none", |s| s.name.as_str());
    writeln!(all, "stack: {name}").unwrap();
    for (knob, found) in adoption.knobs() {
        let at = found.place().map(|s| place(sources, s)).unwrap_or_default();
        let maybe = if found.maybe {
            ", under a condition"
        } else {
            ""
        };
        let text = state(adoption, &found.state);
        writeln!(all, "{}: {text} ({at}{maybe})", knob.name).unwrap();
    }
    for directive in directives(&adoption.reading) {
        let value = directive.value.map(|v| v.text()).unwrap_or_default();
        let at = place(sources, directive.span);
        writeln!(all, "--{}={value} ({at})", directive.option).unwrap();
    }
    for wanted in &adoption.reading.wanted {
        writeln!(all, "not there: {wanted}").unwrap();
    }
    for fault in &adoption.reading.faults {
        writeln!(all, "no shell at {}", place(sources, *fault)).unwrap();
    }
    all
}

/// A change as it stands in a set: knobs, and `mem`, `gpus`, `nodes`.
fn wishes<'c>(adoption: &Adoption<'_>, change: &'c str) -> (Vec<(&'c str, Value)>, Vec<Ask>) {
    let (mut knobs, mut asks) = (Vec::new(), Vec::new());
    for word in change.split_whitespace() {
        let (name, text) = word.split_once('=').unwrap();
        match name {
            "mem" => asks.push(Ask::Memory(text.to_owned())),
            "gpus" => asks.push(Ask::GpusPerNode(text.parse().unwrap())),
            "nodes" => asks.push(Ask::Nodes(text.parse().unwrap())),
            _ => {
                let knob = adoption.stack.and_then(|s| s.knob(name));
                let kind = knob.map_or(ValueKind::Text, |k| k.kind);
                knobs.push((name, kind.parse(text).unwrap()));
            }
        }
    }
    (knobs, asks)
}

fn changed(adoption: &Adoption<'_>, change: &str) -> String {
    let (knobs, asks) = wishes(adoption, change);
    let mut all = format!("\n## {change}\n");
    match adoption.change(&knobs, &asks) {
        Ok(patch) => {
            for knob in patch.appended() {
                writeln!(all, "proposed: {knob} is not changed where it stands").unwrap();
            }
            all += &patch.diff();
        }
        Err(refused) => {
            for refused in refused {
                writeln!(all, "{}: {}", refused.knob, refused.why).unwrap();
            }
        }
    }
    all
}

/// The lines that a text loses and gains on the way to another.
fn lines_changed(old: &ScriptSource, new: &ScriptSource) -> String {
    let diff = similar::TextDiff::from_lines(&old.text, &new.text);
    let changes = diff.iter_all_changes().filter_map(|change| {
        let sign = match change.tag() {
            similar::ChangeTag::Equal => return None,
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
        };
        let line = change.value().trim_end_matches('\n').replace('\0', " ");
        Some(format!("{sign}{}: {line}\n", old.path))
    });
    changes.collect()
}

/// What each rung of the stack's ladder makes of the scripts, beside the rung before; each at its first lap.
fn rungs(adoption: &Adoption<'_>, presets: &[PresetFile]) -> String {
    let mut all = String::from("\n# rungs\n");
    let named = |p: &&PresetFile| adoption.stack.is_some_and(|s| s.name == p.preset);
    let Some(preset) = presets.iter().find(named) else {
        return String::new();
    };
    let own = ScriptJob::new(preset.clone(), sets_of(preset), adoption);
    let (mut steps, mut layers) = (Vec::new(), Vec::new());
    let mut before = adoption.reading.sources.clone();
    for _ in 0..MOST_RUNGS {
        let taken = match own.next(&layers) {
            Ok(Decision::Climb { steps, .. }) => steps,
            Ok(Decision::Exhausted { .. }) => break,
            Err(refusal) => {
                let lines = refusal.0.iter().map(|p| format!("refused: {}\n", p.what));
                all.extend(lines);
                break;
            }
        };
        let first = taken.iter().all(|step| {
            let names = steps.iter().map(|s: &oomctl::core::ladder::Step| &s.rung);
            names.into_iter().all(|name| *name != step.rung)
        });
        let names: Vec<&str> = taken.iter().map(|s| s.rung.as_str()).collect();
        let heading = format!("{}:\n", names.join(", "));
        layers.extend(taken.iter().map(|s| s.layer.clone()));
        steps.extend(taken);
        let shown = match own.patched(adoption, &steps) {
            Ok(patch) => {
                let pairs = before.iter().zip(&patch.after);
                let shown: String = pairs.map(|(old, new)| lines_changed(old, new)).collect();
                before = patch.after;
                shown
            }
            Err(refused) => {
                let lines = refused
                    .iter()
                    .map(|r| format!("refused: {}: {}\n", r.knob, r.why));
                lines.collect()
            }
        };
        if first {
            all += &heading;
            all += &shown;
        }
    }
    all
}

fn with_each(mut look: impl FnMut(&Set, &Adoption<'_>)) {
    let (launchers, stacks) = (launchers(), stacks());
    for path in files_in("tests/adopt/sets") {
        let set = read_set(&path);
        let adoption = Adoption::read(SubmissionContext {
            submission: &set.submission,
            files: &set.files,
            launchers: &launchers,
            stacks: &stacks,
        });
        look(&set, &adoption);
    }
}

#[test]
fn each_set_is_understood_and_changed_as_the_snapshots_show() {
    let presets = presets();
    with_each(|set, adoption| {
        let mut all = shown(adoption);
        for change in &set.changes {
            all += &changed(adoption, change);
        }
        all += &rungs(adoption, &presets);
        insta::assert_snapshot!(set.name.as_str(), all);
    });
}

/// Whether a value that a set expects is found so; None where it is not found.
fn as_expected(adoption: &Adoption<'_>, name: &str, expected: &str) -> Option<bool> {
    let knobs = adoption.knobs();
    let (knob, found) = knobs.iter().find(|(knob, _)| knob.name == name)?;
    Some(match &found.state {
        KnobState::Known(value) => knob.kind.parse(expected).as_ref() == Ok(value),
        KnobState::Text(_) => expected == "interpolated",
        KnobState::Computed(..) => expected == "computed",
    })
}

#[test]
fn nothing_is_understood_wrongly_and_the_share_is_told() {
    let (mut fully, mut partly, mut not) = (Vec::new(), Vec::new(), Vec::new());
    with_each(|set, adoption| {
        let look = |(name, value): &(String, String)| as_expected(adoption, name, value);
        let found: Vec<Option<bool>> = set.expected.iter().map(look).collect();
        for ((name, value), right) in set.expected.iter().zip(&found) {
            assert_ne!(*right, Some(false), "{}: {name} is {value}", set.name);
        }
        let some = found.iter().flatten().count();
        match adoption.stack.is_some() && some > 0 {
            true if some == found.len() => fully.push(set.name.clone()),
            true => partly.push(set.name.clone()),
            false => not.push(set.name.clone()),
        }
    });
    let all = fully.len() + partly.len() + not.len();
    println!("of {all} sets {} are fully understood", fully.len());
    println!("partly: {partly:?}; not at all: {not:?}");
    assert!(all >= 40);
}

#[test]
fn a_patch_changes_one_place_and_no_other_byte() {
    let (launchers, stacks) = (launchers(), stacks());
    let (mut patches, mut refused) = (0, Vec::new());
    with_each(|set, adoption| {
        for (knob, found) in adoption.knobs() {
            let Some(value) = another(&found.state) else {
                continue;
            };
            let Ok(patch) = adoption.change(&[(&knob.name, value.clone())], &[]) else {
                refused.push(format!("{}: {}", set.name, knob.name));
                continue;
            };
            patches += 1;
            let pairs = patch.before.iter().zip(&patch.after);
            let changed: Vec<_> = pairs.filter(|(old, new)| old != new).collect();
            let [(old, new)] = changed.as_slice() else {
                panic!("{}: {}: {changed:?}", set.name, knob.name);
            };
            let gone = between(&old.text, &new.text);
            assert!(gone.len() < 80, "{}: {}: {gone:?}", set.name, knob.name);
            let (submission, files) = adoption.resubmitted(&patch);
            let again = Adoption::read(SubmissionContext {
                submission: &submission,
                files: &files,
                launchers: &launchers,
                stacks: &stacks,
            });
            let now = again.knobs();
            let now = now.iter().find(|(k, _)| k.name == knob.name);
            let now = now.map(|(_, f)| &f.state);
            let off = value == Value::Bool(false) && now.is_none();
            let new = now == Some(&KnobState::Known(value));
            assert!(off || new, "{}: {}: {now:?}", set.name, knob.name);
        }
    });
    println!("{patches} patches, {} refused: {refused:?}", refused.len());
    assert!(patches > 50);
}

#[test]
fn copies_name_each_other_and_are_else_the_patched_files() {
    let (mut placed, mut refused) = (0, Vec::new());
    with_each(|set, adoption| {
        for (knob, found) in adoption.knobs() {
            let Some(value) = another(&found.state) else {
                continue;
            };
            let Ok(patch) = adoption.change(&[(&knob.name, value)], &[]) else {
                continue;
            };
            let place = CopyPlace {
                folder: "/runs/attempt-2",
                workdir: "/work",
                taken: &[],
                head: Some("true # ours"),
                runs_in_place: false,
            };
            let Ok(all) = adoption.placed(&patch, &place) else {
                refused.push(format!("{}: {}", set.name, knob.name));
                continue;
            };
            placed += 1;
            for copy in &all.files {
                let patched = patch
                    .after
                    .iter()
                    .find(|s| s.path == copy.original)
                    .unwrap();
                let known: Vec<&str> = patched.text.lines().collect();
                let ours = ["/runs/attempt-2/", "# ours", "oomctl_self"];
                for line in copy.text.lines().filter(|line| !known.contains(line)) {
                    let named = ours.iter().any(|mark| line.contains(mark));
                    assert!(named, "{}: {}: {line}", set.name, knob.name);
                }
            }
        }
    });
    println!(
        "{placed} sets of copies, {} refused: {refused:?}",
        refused.len()
    );
    assert!(placed > 200);
}

/// Another value than the one that is known.
fn another(state: &KnobState) -> Option<Value> {
    match state {
        KnobState::Known(Value::Int(x)) => Some(Value::Int(x * 3 + 1)),
        KnobState::Known(Value::Float(x)) => Some(Value::Float(x / 2.0)),
        KnobState::Known(Value::Bool(on)) => Some(Value::Bool(!on)),
        _ => None,
    }
}

/// The bytes of a text that are not in another, which begins and ends alike.
fn between<'t>(old: &'t str, new: &str) -> &'t str {
    let same = |(a, b): &(u8, u8)| a == b;
    let start = old.bytes().zip(new.bytes()).take_while(same).count();
    let rest = old[start..].bytes().rev().zip(new[start..].bytes().rev());
    let end = rest.take_while(same).count();
    &old[start..old.len() - end]
}
