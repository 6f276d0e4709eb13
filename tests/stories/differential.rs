//! Differential execution: a script, and what each attempt would make of it, start the same programs with the same
//! words, but for those that a rung declares. In place of every program stands one that writes its words down.
//!
//! `tests/adopt/differential TREE` does so for all scripts of a checkout.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::adopt::{files_in, read_set};
use super::place::{Place, install};
use oomctl_base::word_list;

/// Programs that a script may use as they are: they read and print.
const PLAIN: [&str; 19] = [
    "basename", "bash", "cat", "cut", "date", "dirname", "expr", "grep", "head", "mkdir",
    "realpath", "sed", "seq", "sh", "sort", "tail", "timeout", "tr", "wc",
];
/// Programs that scripts name; every other one is met by bash's own handler.
const RECORDED: [&str; 16] = word_list(
    "accelerate deepspeed docker git huggingface-cli module nvidia-smi pip python python3 ray rm
     scontrol sleep srun torchrun",
);
/// Writes a line, at once, since programs run side by side: the allocator's settings, then the words, each behind a unit
/// separator.
const RECORD: &str = r#"line="$(printf '\037%s' "${0##*/}" "$@" | tr '\n' ' ')"
printf '%s%s\n' "${PYTORCH_CUDA_ALLOC_CONF:-}" "$line" >>"$RECORDED"
"#;

/// What was found over some scripts.
#[derive(Debug, Default)]
struct Found {
    understood: usize,
    /// Scripts of which nothing is changed, with the reason that is told.
    declined: Vec<String>,
    attempts: usize,
    undeclared: Vec<String>,
    illegal: Vec<String>,
}

fn sandbox(place: &Place) {
    let bin = place.home.join("stubs");
    fs::create_dir_all(&bin).unwrap();
    for name in PLAIN {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        let found = found.into_iter().find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), bin.join(name)).unwrap();
    }
    for name in RECORDED {
        install(&bin.join(name), &format!("#!/bin/bash\n{RECORD}"));
    }
    let handler = format!(
        "RANDOM=7\ntrap wait EXIT\ncommand_not_found_handle() {{ set -- \"$@\"; (\n{RECORD}); }}\nexport -f command_not_found_handle\n"
    );
    fs::write(
        place.home.join("handler"),
        handler.replace("\"${0##*/}\" ", ""),
    )
    .unwrap();
}

/// The words of all programs that a script starts, one list each.
fn executed(
    place: &Place,
    script: &Path,
    args: &[String],
    variables: &[(String, String)],
) -> Vec<Vec<String>> {
    let record = place.home.join("recorded");
    fs::write(&record, "").unwrap();
    let mut command = Command::new("timeout");
    command.args(["5", "bash"]).arg(script).args(args);
    command.env_clear().current_dir(&place.root);
    command
        .env("PATH", place.home.join("stubs"))
        .env("HOME", &place.home);
    command
        .env("BASH_ENV", place.home.join("handler"))
        .env("RECORDED", &record);
    command
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_NODELIST", "n1");
    command.envs(variables.iter().cloned());
    command.output().unwrap();
    let text = fs::read_to_string(&record).unwrap_or_default();
    let words = |line: &str| line.split('\u{1f}').map(str::to_owned).collect();
    text.lines().map(words).collect()
}

/// A unified diff applied to the files below `root`; each new text by its new name. None where it is no file's.
fn applied(root: &Path, diff: &str) -> Option<Vec<(String, String, String)>> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    let mut at = 0;
    let mut old: Vec<String> = Vec::new();
    let rest = |from: usize, old: &[String]| old.get(from..).unwrap_or_default().concat();
    for line in diff.split_inclusive('\n') {
        let Some((_, _, new)) = all.last_mut().filter(|_| !line.starts_with("--- a/")) else {
            if let Some((_, _, new)) = all.last_mut() {
                new.push_str(&rest(at, &old));
            }
            let path = line.strip_prefix("--- a/")?.trim_end();
            let text = fs::read_to_string(root.join(path)).ok()?;
            old = text.split_inclusive('\n').map(str::to_owned).collect();
            at = 0;
            all.push((path.to_owned(), String::new(), String::new()));
            continue;
        };
        if let Some(name) = line.strip_prefix("+++ b/") {
            let name = name.trim_end().to_owned();
            all.last_mut()?.1 = name;
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            let start = hunk.split([',', ' ']).next()?.parse::<usize>().ok()?;
            let start = start.saturating_sub(1);
            new.push_str(&old.get(at..start).unwrap_or_default().concat());
            at = start;
        } else if let Some(added) = line.strip_prefix('+') {
            new.push_str(added);
        } else if line.starts_with('-') || line.starts_with(' ') {
            new.push_str(line.strip_prefix(' ').unwrap_or_default());
            at += 1;
        }
    }
    if let Some((_, _, new)) = all.last_mut() {
        new.push_str(&rest(at, &old));
    }
    Some(all)
}

/// The texts of values as programs are told them.
fn told(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_lowercase(),
        // A whole number of a share is written without its point.
        other => {
            let text = other.to_string().to_lowercase();
            text.trim_end_matches(".0").to_owned()
        }
    }
}

/// Words that differ and that no change declares.
fn undeclared(
    before: &[Vec<String>],
    after: &[Vec<String>],
    declared: &BTreeMap<String, String>,
) -> Vec<String> {
    if before.len() != after.len() {
        return vec![format!("{} programs, then {}", before.len(), after.len())];
    }
    let mut all = Vec::new();
    for (old, new) in before.iter().zip(after) {
        let diff = similar::TextDiff::from_slices(
            &old.iter().map(String::as_str).collect::<Vec<_>>(),
            &new.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        // Each knob accounts for the words of its value, once.
        let words = declared.values().flat_map(|value| value.split_whitespace());
        let mut left: Vec<&str> = words.collect();
        for change in diff.iter_all_changes() {
            let word = change.value().to_lowercase();
            let value = word
                .rsplit('=')
                .next()
                .unwrap_or(&word)
                .trim_matches(['\'', '"']);
            let flag = word.starts_with("--") && !word.contains('=');
            if change.tag() != similar::ChangeTag::Insert || flag {
                continue;
            }
            match left.iter().position(|to| *to == value || *to == word) {
                Some(at) => drop(left.remove(at)),
                None => all.push(word),
            }
        }
    }
    all
}

/// What was recorded, in an order of its own (some of it runs side by side), each word split where code stands in it.
fn lines(recorded: &[Vec<String>], plain: &impl Fn(&str) -> String) -> Vec<Vec<String>> {
    let words = |line: &Vec<String>| {
        let words = line.iter().flat_map(|word| {
            // In code a line that ends in a backslash goes on in the next.
            let code = word.contains(' ');
            let words = word.split_whitespace();
            words.filter(move |part| !(code && *part == "\\"))
        });
        words.map(plain).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = recorded.iter().map(words).collect();
    all.sort();
    all
}

/// Executes a script before and after each attempt that a plan has for it.
fn compare(place: &Place, script: &str, args: &[String], found: &mut Found) {
    let mut words = vec!["plan", "--json", script];
    words.extend(args.iter().map(String::as_str));
    let done = place.run(&words);
    let Ok(view) = serde_json::from_str::<Value>(&done.out) else {
        let why = done.err.lines().next().unwrap_or("nothing is said");
        found.declined.push(format!("{script}: {why}"));
        return;
    };
    let attempts = view["attempts"].as_array().cloned().unwrap_or_default();
    if view["preset"].is_null() || attempts.len() < 2 {
        let why = match (&view["preset"], view["problem"].as_str()) {
            (Value::Null, _) => "no preset knows what this starts",
            (_, Some(problem)) => problem,
            _ => "no rung can be taken",
        };
        found.declined.push(format!("{script}: {why}"));
        found
            .illegal
            .extend(view["problem"].as_str().map(|p| format!("{script}: {p}")));
        return;
    }
    found.understood += 1;
    let before = executed(place, &place.path(script), args, &place.variables);
    let mut declared = BTreeMap::new();
    for attempt in attempts.iter().skip(1).take(5) {
        let rungs = attempt["rungs"].as_array().unwrap();
        let changes = rungs.iter().flat_map(|r| r["changes"].as_array().unwrap());
        let named = |c: &Value| (c["knob"].to_string(), told(&c["to"]));
        declared.extend(changes.map(named));
        let Some(copies) = applied(&place.root, attempt["diff"].as_str().unwrap()) else {
            continue;
        };
        let number = attempt["attempt"].as_u64().unwrap();
        let run = view["run"].as_str().unwrap();
        let folder = place.path(&format!(".oomctl/runs/{run}/attempt-{number}"));
        fs::create_dir_all(&folder).unwrap();
        for (_, name, text) in &copies {
            let ours = |line: &&str| {
                !line.contains("# oomctl: attempt") && !line.contains("# oomctl: samples")
            };
            let text: String = text.split_inclusive('\n').filter(ours).collect();
            fs::write(folder.join(name), text).unwrap();
        }
        let Some(entry) = copies.iter().find(|(original, ..)| original == script) else {
            continue;
        };
        found.attempts += 1;
        let after = executed(place, &folder.join(&entry.1), args, &place.variables);
        let plain = |word: &str| {
            let mut word = word.to_owned();
            for (original, name, _) in &copies {
                word = word.replace(&format!("{}/{name}", folder.display()), original);
            }
            let word = word.replace(&format!("{}/", place.root.display()), "");
            word.strip_prefix("./").unwrap_or(&word).to_owned()
        };
        let odd = undeclared(&lines(&before, &plain), &lines(&after, &plain), &declared);
        found.undeclared.extend(
            odd.iter()
                .map(|w| format!("{script}, attempt {number}: {w}")),
        );
    }
}

#[test]
fn attempts_of_our_sets_start_what_the_scripts_start_but_for_what_is_declared() {
    let mut found = Found::default();
    for path in files_in("tests/adopt/sets") {
        let set = read_set(&path);
        if !set.submission.options.is_empty() {
            continue;
        }
        let mut place = Place::with("backend: local");
        sandbox(&place);
        for (path, text) in &set.files {
            let file = place.path(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        place.variables = set.submission.variables.clone().into_iter().collect();
        let before = found.undeclared.len();
        compare(
            &place,
            &set.submission.script,
            &set.submission.args,
            &mut found,
        );
        for odd in &mut found.undeclared[before..] {
            odd.insert_str(0, &format!("{}: ", set.name));
        }
    }
    println!("{found:#?}");
    assert_eq!(found.undeclared, Vec::<String>::new());
    assert!(found.attempts > 150, "{}", found.attempts);
}

fn scripts_below(folder: &Path, all: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|e| e.path());
    for path in entries.filter(|path| !path.is_symlink()) {
        let hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
        let ending = path.extension().map(|e| e.to_string_lossy().into_owned());
        let is_script = ending.is_some_and(|e| ["sh", "slurm", "sbatch"].contains(&e.as_str()));
        match path.is_dir() {
            true if !hidden => scripts_below(&path, all),
            false if is_script => all.push(path),
            _ => {}
        }
    }
}

/// A checkout of somebody's, which `OOMCTL_DIFFERENTIAL` names; nothing is run but its shell scripts, in a copy.
#[test]
fn scripts_of_a_checkout() {
    let Some(tree) = std::env::var_os("OOMCTL_DIFFERENTIAL") else {
        return;
    };
    let place = Place::with("backend: local");
    sandbox(&place);
    let from = Path::new(&tree).join(".");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(from)
        .arg(&place.root)
        .status();
    assert!(copied.unwrap().success());
    let mut scripts = Vec::new();
    scripts_below(&place.root, &mut scripts);
    scripts.sort();
    let mut found = Found::default();
    for script in &scripts {
        let name = script.strip_prefix(&place.root).unwrap();
        compare(&place, &name.display().to_string(), &[], &mut found);
    }
    let all = found.undeclared.iter().chain(&found.declined);
    for line in all.chain(&found.illegal) {
        println!("{line}");
    }
    println!(
        "{} scripts: {} understood ({} attempts executed), {} declined, {} undeclared words, {} refused",
        scripts.len(),
        found.understood,
        found.attempts,
        found.declined.len(),
        found.undeclared.len(),
        found.illegal.len()
    );
}
