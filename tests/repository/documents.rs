//! The documents hold what they say: every command line parses, what is cheap is really run, exit
//! codes, keys, facts, kinds and rungs are those of the code, and the worked example of
//! `docs/presets.md` goes from OOM to success.

#[path = "documents/messages.rs"]
mod messages;
#[path = "documents/terminal.rs"]
mod terminal;
#[path = "documents/troubleshooting.rs"]
mod troubleshooting;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::source::{files, root};
use oomctl::core::config::{parse_knob_set, parse_preset};
use oomctl::core::engine::{Budget, Fact, Outcome, RetryCause};
use oomctl::core::exit::Exit;
use oomctl::core::measure::TRIED;
use oomctl_base::Role;
use oomctl_base::job::JobState;

/// Commands that need no run and no file besides the example's: these are run as they stand.
const RUN: [&str; 9] = [
    "history",
    "schema",
    "completions",
    "plan",
    "render",
    "explain",
    "presets",
    "submit --dry-run",
    "tune diamonds-seed0 --dry-run",
];

/// Every document that is about the program, as (path, text).
fn documents() -> Vec<(String, String)> {
    let mut all = files("docs", &["md"]);
    for name in ["README.md", "CHANGELOG.md", "ARCHITECTURE.md"] {
        all.push((
            name.to_owned(),
            fs::read_to_string(root().join(name)).unwrap(),
        ));
    }
    all
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Fenced blocks of a document, as (language, line before the fence, text).
fn blocks(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> = lines
                .by_ref()
                .take_while(|l| !l.starts_with("```"))
                .collect();
            found.push((language.to_owned(), before.clone(), body.join("\n") + "\n"));
        } else if !line.trim().is_empty() {
            before = line.to_owned();
        }
    }
    found
}

/// The command lines of our program in a document: in `sh` blocks all lines, in sessions those after
/// the prompt. Without what the shell does to them.
fn command_lines(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (language, _, body) in blocks(text) {
        for line in body.lines() {
            let line = match language.as_str() {
                "sh" => line,
                "console" => match line.strip_prefix("$ ") {
                    Some(line) => line,
                    None => continue,
                },
                _ => continue,
            };
            let line = line.split(['|', '>', '<']).next().unwrap_or(line);
            if line.starts_with("oomctl ") {
                found.push(line.trim().to_owned());
            }
        }
    }
    found
}

fn oomctl(folder: &Path, words: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .args(words)
        .current_dir(folder)
        .env_remove("OOMCTL_SITE_CONFIG")
        .env("XDG_CONFIG_HOME", folder.join("no-user-file"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap().split_off(1)
}

/// Standard output and error of a command that must end with `code`.
fn said(out: &Output, code: i32, what: &str) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert_eq!(out.status.code(), Some(code), "{what}\n{text}");
    text
}

/// A folder with what commands read of the example that a document is about.
fn example(document: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (name, more) = match document {
        "docs/data-parallel.md" => ("data-parallel", None),
        "docs/swarm.md" => ("swarm", Some("rgym_exp/config/rg-swarm.yaml")),
        _ => ("diamonds-grpo", None),
    };
    for file in ["oomctl.yaml"].into_iter().chain(more) {
        let to = dir.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(root().join("examples").join(name).join(file), to).unwrap();
    }
    // The script that the reader of docs/adopt.md and README.md has.
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=4\n";
    for name in ["submit_grpo.slurm", "my_job.slurm", "train.sbatch"] {
        fs::write(dir.path().join(name), script).unwrap();
    }
    dir
}

#[test]
fn every_command_line_parses_and_cheap_ones_run() {
    let (mut parsed, mut run) = (0, 0);
    for (path, text) in documents() {
        let folder = example(&path);
        for line in command_lines(&text) {
            let mut words = words(&line);
            let what = format!("{path}: {line}");
            let own_example = path == "docs/presets.md" && line.contains("batch_size");
            let refused = line.contains("tensor_model_parallel_size=8");
            let sweep = words[0] == "sweep";
            let cheap = |c: &str| c.split(' ').all(|w| words.iter().any(|x| x == w));
            // Those of a run or a log that only the reader has.
            let theirs = ["--run ", "--after ", "--measure"]
                .iter()
                .any(|o| line.contains(o));
            if !own_example && !theirs && !sweep && RUN.iter().any(|c| cheap(c)) {
                said(
                    &oomctl(folder.path(), &words),
                    if refused { 5 } else { 0 },
                    &what,
                );
                run += 1;
            }
            // Behind a `--` it would be the program's, and behind a script the script's.
            let takes_script =
                ["estimate", "fix", "measure", "plan", "submit"].contains(&words[0].as_str());
            let script = |w: &String| takes_script && w.contains(".s") && !w.starts_with('-');
            let end = words.iter().position(|w| w == "--" || script(w));
            words.truncate(end.unwrap_or(words.len()));
            words.push("--help".to_owned());
            said(&oomctl(folder.path(), &words), 0, &what);
            parsed += 1;
        }
    }
    assert!(parsed > 30 && run > 8, "{parsed} parsed, {run} run");
}

#[test]
fn what_was_tried_on_phantoms_is_what_the_page_says() {
    let page = document("docs/measure.md");
    let rows = page.lines().filter(|line| line.starts_with("| 2."));
    let first = rows.filter_map(|row| row.split(" | ").next());
    let told: Vec<&str> = first.map(|cell| cell.trim_start_matches("| ")).collect();
    assert_eq!(told, TRIED);
}

/// The page on sweeps is one session in the folder of its example.
#[test]
fn the_commands_of_the_page_on_sweeps_run_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let example = root().join("examples/path-star");
    for (path, text) in files("examples/path-star", &["yaml", "j2", "py"]) {
        let path = root().join(path);
        let to = folder.path().join(path.strip_prefix(&example).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, text).unwrap();
    }
    let mut run = 0;
    for line in command_lines(&document("docs/sweeps.md")) {
        let out = oomctl(folder.path(), &words(&line));
        let code = if line.contains("check sweep.yaml") {
            3
        } else {
            0
        };
        let text = said(&out, code, &line);
        if line.contains("--watch") {
            assert!(text.contains("10 runs: 10 succeeded"), "{text}");
        }
        run += 1;
    }
    assert!(run >= 9, "{run}");
}

/// The first page of the help leaves out what is rarely used, so each command is asked for its own.
#[test]
fn commands_named_in_passing_exist() {
    let named = regex::Regex::new(r"`oomctl ([a-z]+)").unwrap();
    let mut commands = BTreeSet::from(["help".to_owned()]);
    for (path, text) in documents() {
        for found in named.captures_iter(&text) {
            let (what, command) = (&found[0], found[1].to_owned());
            if commands.insert(command.clone()) {
                let words = [command, "-h".to_owned()];
                said(&oomctl(&root(), &words), 0, &format!("{path}: {what}"));
            }
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)#:]+)(?:#[^)]*)?\)").unwrap();
    for (path, text) in documents() {
        let folder = root().join(&path).parent().unwrap().to_owned();
        for found in link.captures_iter(&text) {
            assert!(folder.join(&found[1]).exists(), "{path}: {}", &found[1]);
        }
    }
}

#[test]
fn the_page_about_yaml_files_says_what_the_program_does() {
    let name = "docs/swarm.md";
    let (text, folder) = (document(name), example(name));
    let preset = fs::read_to_string(root().join("presets/rl-swarm.yaml")).unwrap();
    for rung in parse_preset("rl-swarm.yaml", &preset).unwrap().ladder {
        assert!(
            text.contains(&format!("| `{}` |", rung.rung)),
            "{}",
            rung.rung
        );
    }
    let run = |line: &str, code: i32| said(&oomctl(folder.path(), &words(line)), code, line);
    let quoted: Vec<&str> = text.lines().collect();
    for (line, code) in [
        ("oomctl estimate", 0),
        ("oomctl plan --set gradient_accumulation_steps=8", 5),
    ] {
        let told = run(line, code);
        let shown = told
            .lines()
            .filter(|l| quoted.iter().any(|q| !q.is_empty() && l.starts_with(q)));
        assert!(shown.count() > 0, "{line}\n{told}");
    }
    // The answers as flags make a file that can be planned with.
    fs::remove_file(folder.path().join("oomctl.yaml")).unwrap();
    let lines = command_lines(&text);
    let init = lines.iter().find(|l| l.contains("init --preset")).unwrap();
    run(init, 0);
    assert!(run("oomctl explain fp16", 0).contains("fp16 = true"));
}

#[test]
fn exit_codes_of_the_page_and_of_the_help_are_those_of_the_program() {
    let text = document("docs/exit-codes.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let codes = cells.flat_map(|cell| cell.split(", "));
    let documented: BTreeSet<u8> = codes.filter_map(|code| code.parse().ok()).collect();
    let all: BTreeSet<u8> = Exit::ALL.into_iter().map(Exit::code).collect();
    assert_eq!(documented, all);
    let folder = tempfile::tempdir().unwrap();
    let help = said(&oomctl(folder.path(), &["--help".to_owned()]), 0, "--help");
    let (_, told) = help.split_once("Exit codes:").unwrap();
    let told = told.replace(['\n', ','], " ");
    let told: BTreeSet<u8> = told.split(' ').filter_map(|w| w.parse().ok()).collect();
    let of_runs = all.iter().copied().filter(|c| !(10..128).contains(c));
    assert_eq!(told, of_runs.collect());
}

#[test]
fn exit_codes_are_those_of_the_code() {
    let text = document("docs/exit-codes.md");
    let outcomes = [
        Outcome::Succeeded,
        Outcome::Failed {
            reason: String::new(),
            skipped: Vec::new(),
        },
        Outcome::Exhausted {
            skipped: Vec::new(),
            shortfall: None,
        },
        Outcome::Refused {
            reason: String::new(),
            hint: None,
            rung: None,
            program: false,
        },
        Outcome::Configuration {
            reason: String::new(),
        },
        Outcome::RetriesSpent {
            cause: RetryCause::TimeLimit,
            state: JobState::Timeout,
            retries: 0,
            setting: None,
        },
        Outcome::BudgetSpent {
            budget: Budget::Attempts { limit: 1 },
        },
        Outcome::Pruned {
            by: String::new(),
            reason: String::new(),
        },
        Outcome::Cancelled { by: None },
    ];
    for outcome in outcomes {
        let row = format!("| {} | `{}` |", outcome.exit_code(), outcome.word());
        assert!(text.contains(&row), "{row}");
    }
    let folder = tempfile::tempdir().unwrap();
    for (code, log) in [
        (0, "step 1/2\n"),
        (
            10,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        ),
        (
            11,
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4711.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.\n",
        ),
        (
            12,
            "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 'x'\n",
        ),
    ] {
        fs::write(folder.path().join("x.log"), log).unwrap();
        let arguments = ["diagnose", "--exit-code", "x.log"].map(str::to_owned);
        said(&oomctl(folder.path(), &arguments), code, log);
        let row = regex::Regex::new(&format!(r"[:,|]\s{code}\s")).unwrap();
        assert!(row.is_match(&text), "{code}");
    }
}

/// The keys in the hint of an error about an unknown key.
fn known_keys(file: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("presets/clusters")).unwrap();
    fs::write(
        folder.path().join("presets/clusters/c.yaml"),
        "cluster: c\nsummary: s\nfacts: { zzqqx: 1 }\n",
    )
    .unwrap();
    fs::write(folder.path().join("oomctl.yaml"), file).unwrap();
    let out = said(&oomctl(folder.path(), &["plan".to_owned()]), 5, file);
    let keys = out.split("known keys here: ").nth(1).expect(&out);
    keys.trim().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_is_described() {
    let text = document("docs/configuration.md");
    for file in [
        "zzqqx: 1\n",
        "limits: { zzqqx: 1 }\n",
        "supervision: { zzqqx: 1 }\n",
        "notices: { zzqqx: 1 }\n",
        "cluster: c\n",
    ] {
        for key in known_keys(file) {
            let there = text.contains(&format!("`{key}`")) || text.contains(&format!("  {key}: "));
            assert!(
                there || text.contains(&format!("  {key}:  ")),
                "{key} ({file})"
            );
        }
    }
}

/// The kinds of failure.
fn kinds() -> Vec<String> {
    let table = document("presets/signatures/kinds.yaml");
    let rows = table.lines().filter_map(|l| l.strip_prefix("- kind: "));
    let named: Vec<String> = rows.map(str::to_owned).collect();
    assert!(named.len() > 20, "{named:?}");
    named
}

#[test]
fn facts_kinds_roles_and_rungs_are_described() {
    let ledger = document("docs/ledger.md");
    for fact in Fact::KINDS {
        assert!(ledger.contains(&format!("`{fact}`")), "{fact}");
    }
    let diagnosis = document("docs/diagnosis.md");
    for kind in kinds() {
        assert!(diagnosis.contains(&format!("`{kind}`")), "{kind}");
    }
    let path = "presets/verl-grpo.yaml";
    let preset = parse_preset(path, &document(path)).unwrap();
    let ladder = document("docs/ladder.md");
    for rung in preset.ladder {
        assert!(
            ladder.contains(&format!("| `{}` |", rung.rung)),
            "{}",
            rung.rung
        );
    }
    let presets = document("docs/presets.md");
    let list = presets
        .split("Roles: ")
        .nth(1)
        .unwrap()
        .split(". The list")
        .next()
        .unwrap();
    for role in list.split(',') {
        let known: Result<Role, _> = serde_json::from_value(role.trim().into());
        assert!(known.is_ok(), "{role}");
    }
}

#[test]
fn the_worked_example_goes_from_oom_to_success() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for (_, before, text) in blocks(&document("docs/presets.md")) {
        let Some(name) = before.strip_prefix('`').and_then(|b| b.split('`').next()) else {
            continue;
        };
        if !before.ends_with(':') || written.contains(&name.to_owned()) {
            continue;
        }
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        written.push(name.to_owned());
    }
    assert_eq!(
        written,
        [
            "oomctl.yaml",
            "presets/caption.yaml",
            "templates/caption/job.sbatch.j2",
            "train.py"
        ]
    );
    for line in command_lines(&document("docs/presets.md")) {
        if !line.contains("torchrun") && !line.contains("--watch") {
            said(&oomctl(folder.path(), &words(&line)), 0, &line);
        }
    }
    let plan = said(&oomctl(folder.path(), &["plan".to_owned()]), 0, "plan");
    assert!(
        plan.contains("batch_size 32 -> 16 -> 8 -> 4 -> 2") && plan.contains("accumulate 1 -> 2"),
        "{plan}"
    );
    let line = "oomctl submit --backend local --watch";
    assert!(document("docs/presets.md").contains(line));
    let story = said(&oomctl(folder.path(), &words(line)), 0, line);
    assert!(story.contains("batch_size  16 -> 8"), "{story}");
    assert!(story.contains("caption-1 succeeded (3 attempts"), "{story}");
}

/// The page of the stacks says of each preset what the preset says, and its example is recognised in a script.
#[test]
fn the_page_of_the_stacks_lists_every_preset_and_its_example_works() {
    let page = document("docs/stacks.md");
    let presets = files("presets", &["yaml"]).into_iter();
    let top = presets.filter(|(path, _)| path.matches('/').count() == 1);
    for (path, text) in top {
        let preset = parse_preset(&path, &text).unwrap();
        let versions = preset.framework.as_ref().map_or("-".to_owned(), |f| {
            let text = f.supported.to_string().replace(">=", "");
            text.replace(", <=", " to ")
        });
        // Sets whose knobs are spelled are the framework's own.
        let sets = preset.uses.iter().map(|set| {
            let path = format!("presets/sets/{set}.yaml");
            parse_knob_set(&path, &document(&path)).unwrap()
        });
        let own = sets.filter(|set| set.knobs.iter().any(|k| k.spelling.is_some()));
        let preset = preset.clone().with(own.collect());
        let counts = [preset.knobs.len(), preset.rules.len(), preset.ladder.len()];
        let counts = counts.map(|n| n.to_string()).join(" | ");
        let row = page
            .lines()
            .find(|l| l.starts_with(&format!("| `{}` |", preset.preset)));
        let row = row.unwrap_or_else(|| panic!("{path} has no row"));
        assert!(
            row.contains(&format!("| {versions} | {counts} |")),
            "{row}: {versions} | {counts}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let example = blocks(&page)
        .into_iter()
        .find(|(language, ..)| language == "yaml");
    fs::create_dir(folder.path().join("presets")).unwrap();
    fs::write(folder.path().join("presets/mylab.yaml"), example.unwrap().2).unwrap();
    fs::write(
        folder.path().join("conf.yaml"),
        "parallel:\n  offload: false\n",
    )
    .unwrap();
    let script = "#!/bin/bash\ntorchrun train_mylab.py --config conf.yaml --tokens_per_gpu 512\n";
    fs::write(folder.path().join("a.sh"), script).unwrap();
    let adopt = ["plan", "--all", "a.sh"].map(str::to_owned);
    let adopted = said(&oomctl(folder.path(), &adopt), 0, "adopt");
    for line in [
        "recognised as mylab",
        "halve-tokens",
        "+torchrun",
        "512 -> 256",
    ] {
        assert!(adopted.contains(line), "{line}\n{adopted}");
    }
    // Without templates there is nothing to render.
    fs::write(folder.path().join("oomctl.yaml"), "preset: trl\n").unwrap();
    let refused = said(&oomctl(folder.path(), &["render".to_owned()]), 5, "render");
    assert!(refused.contains("it has no templates"), "{refused}");
    assert!(refused.contains("oomctl plan SCRIPT"), "{refused}");
}

/// A story without what differs from run to run: durations, GPU-hours, how often the job was seen.
fn steady(story: &str) -> String {
    let changing = [
        (r"(?m)^ +step \d+.*\n", ""),
        (r"\d+s\b", "#s"),
        (r"[\d.]+ GPU-hours", "# GPU-hours"),
        // Whether a job of a second is seen while it runs is a matter of luck.
        (r"(?m)^attempt \d+  RUNNING on .*\n", ""),
        (r"(?m) +$", ""),
    ];
    changing
        .iter()
        .fold(story.to_owned(), |text, (pattern, with)| {
            regex::Regex::new(pattern)
                .unwrap()
                .replace_all(&text, *with)
                .into_owned()
        })
}

/// The picture of README.md, which `INSTA_UPDATE=always cargo test --test repository session` draws anew.
const SESSION: &str = "docs/session.svg";

#[test]
fn the_session_of_the_first_run_is_what_happens_and_the_readme_has_its_picture() {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp")
        .args(["-r", "examples/diamonds-grpo"])
        .arg(folder.path().join("example"))
        .current_dir(root())
        .status()
        .unwrap();
    assert!(copied.success());
    // README's first command runs in that folder and leaves its runs there.
    for left in [".oomctl", "logs"] {
        fs::remove_dir_all(folder.path().join("example").join(left)).ok();
    }
    let (_, _, session) = blocks(&document("docs/first-run.md"))
        .into_iter()
        .find(|(language, _, _)| language == "console")
        .unwrap();
    let (line, told) = session.split_once('\n').unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .args(words(line.strip_prefix("$ ").unwrap()))
        .current_dir(folder.path().join("example"))
        .envs([
            ("SIM_START_S", "0.1"),
            ("SIM_STEP_S", "0.05"),
            ("CLICOLOR_FORCE", "1"),
        ])
        .env_remove("NO_COLOR")
        .env_remove("OOMCTL_SITE_CONFIG")
        .output()
        .unwrap();
    // Talk first, data last, as a terminal shows them.
    let coloured = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stderr),
        String::from_utf8_lossy(&out.stdout)
    );
    assert_eq!(steady(&terminal::plain(&coloured)), steady(told));
    assert_eq!(out.status.code(), Some(0));
    let drawn = terminal::drawn(line, &coloured);
    roxmltree::Document::parse(&drawn).unwrap();
    assert!(drawn.contains("prefers-color-scheme: dark"));
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        fs::write(root().join(SESSION), &drawn).unwrap();
    }
    assert_eq!(
        drawn,
        document(SESSION),
        "INSTA_UPDATE=always draws it anew"
    );
    assert!(document("README.md").contains(SESSION));
}

/// README convinces in thirty seconds: why not a loop is on its first screen, one's own script comes first, and it is short.
#[test]
fn the_readme_is_short_and_begins_with_what_one_wants() {
    let text = document("README.md");
    assert!(text.lines().count() <= 120);
    let at = |words: &str| text.lines().position(|l| l.contains(words)).expect(words);
    assert!(at("Why not a bash loop?") < 15);
    assert!(at("oomctl submit --watch my_job.slurm") < at("oomctl init"));
    for set_up in [
        "cargo run --locked -- submit --fresh",
        "cargo install --locked --path .",
        "tests/all",
    ] {
        assert!(text.lines().any(|l| l.starts_with(set_up)), "{set_up}");
    }
}

/// Words of our own that stay, each with its row.
#[test]
fn the_glossary_has_our_dozen_words() {
    let page = document("docs/glossary.md");
    for word in "rung knob layer run attempt incident ledger preset recipe shape signature fact"
        .split_whitespace()
    {
        assert!(page.contains(&format!("| **{word}** |")), "{word}");
    }
}

/// Below its heading every page begins with a command, or with at most a few lines before one.
#[test]
fn every_page_opens_with_the_command_that_one_wants() {
    let pages = files("docs", &["md"]).into_iter();
    for (path, text) in pages.filter(|(path, _)| !path.ends_with("SUMMARY.md")) {
        let first: Vec<&str> = text.lines().take(15).collect();
        let command = first.iter().any(|l| {
            l.starts_with("oomctl ")
                || l.starts_with("$ oomctl ")
                || l.starts_with("pip install")
                || l.starts_with("cargo ")
        });
        assert!(command, "{path} has no command in its first lines");
    }
}
