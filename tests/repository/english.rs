//! Plain English: phrasings that one has to read twice stand in no message, no help and no page. The guide is in CONTRIBUTING.md.

use std::process::Command;

use regex::Regex;

use crate::source::{Source, code_tokens, files, in_sources, root};

/// Phrasings, each with what to write instead.
const BANNED: [(&str, &str); 68] = [
    ("are not known", "unknown"),
    ("are told", "say who prints what"),
    ("as asked", "unchanged; as you requested"),
    ("as it stands", "unchanged"),
    ("as they stand", "unchanged"),
    ("as was asked", "requested by"),
    ("be told", "say who prints what"),
    ("behind all others", "at the end of the command"),
    ("behind the others", "at the end of the command"),
    ("by the letter", "exactly"),
    ("came to nothing", "did nothing; failed"),
    ("cannot be had", "is missing"),
    ("cannot tell", "it is unclear"),
    ("do not tell", "do not say"),
    ("do without", "do not need"),
    ("does not tell", "does not say"),
    ("does without", "does not need"),
    ("for want of", "without; because there is no"),
    ("go on from", "resume from; continue from"),
    ("goes on from", "resumes from; continues from"),
    ("hand over", "pass"),
    ("handed over", "passed to"),
    ("hands over", "passes"),
    ("in vain", "no use; without need"),
    ("is asked for", "say who requests what"),
    ("is known of", "say what is unknown"),
    ("is looked for", "say who searches"),
    ("is nobody's", "say who may not"),
    ("is none of those that", "is not a"),
    ("is not known", "is unknown"),
    ("is nothing of", "name what is missing"),
    ("is said", "oomctl says; the log says"),
    ("is taken for", "counts as; oomctl assumes"),
    ("is told", "say who prints what"),
    ("looks after", "supervises"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("no business of", "does not concern"),
    ("nothing of it", "say what is missing"),
    ("of anybody's", "of any user"),
    ("of one's own", "your own"),
    ("of ours", "oomctl's"),
    ("of theirs", "their"),
    ("of yours", "your"),
    ("put down", "record"),
    ("puts down", "records"),
    ("sees to it", "makes sure"),
    ("so many", "this many"),
    ("stand behind", "come after"),
    ("stands behind", "comes after"),
    ("stood behind", "came after"),
    ("take up", "continue"),
    ("taken for", "counted as; assumed"),
    ("taken up", "continued"),
    ("takes up", "continues"),
    ("that is said", "and oomctl says so"),
    ("the like", "name the things"),
    ("there is nobody", "no process is left"),
    ("to be had", "available"),
    ("to go away", "to end; to be freed"),
    ("was told", "say who printed what"),
    ("were told", "say who printed what"),
    ("what becomes of", "what happens to"),
    ("what is known", "say what is unknown"),
    ("whatever ends", "every retry"),
    ("which is said", "and oomctl says so"),
    ("written down", "recorded; stored"),
];

/// Text in one line, with its place.
type Text = (String, String);

/// What is found in the texts, and what to write.
fn found(texts: &[Text]) -> Vec<String> {
    let phrases: Vec<&str> = BANNED.iter().map(|(phrase, _)| *phrase).collect();
    let pattern = format!(r"(?i)\b(?:{})\b", phrases.join("|"));
    let banned = Regex::new(&pattern).unwrap();
    let mut found = Vec::new();
    for (place, text) in texts {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for hit in banned.find_iter(&text) {
            let phrase = hit.as_str().to_lowercase();
            let instead = BANNED.iter().find(|(banned, _)| *banned == phrase);
            let instead = instead.map_or("", |(_, instead)| instead);
            let around: String = text[hit.start()..].chars().take(60).collect();
            found.push(format!("{place}: `{around}…`: {instead}"));
        }
    }
    found
}

fn none(texts: &[Text]) {
    assert!(texts.len() > 10, "{} texts", texts.len());
    let found = found(texts);
    assert!(
        found.is_empty(),
        "CONTRIBUTING.md, Plain English\n{}",
        found.join("\n")
    );
}

/// The string literals of the code outside its tests, and the words of its error types.
fn messages(sources: &[Source]) -> Vec<Text> {
    let of_error = Regex::new(r#"#\[error\(\s*("(?:[^"\\]|\\.)*")"#).unwrap();
    let shipped = sources.iter().filter(|source| !source.is_test());
    let mut texts = Vec::new();
    for source in shipped {
        let literals = code_tokens(source).into_iter();
        let literals = literals.map(|(token, line)| (token, format!("{}:{line}", source.path)));
        let errors = of_error.captures_iter(&source.text);
        let errors = errors.map(|found| (found[1].to_owned(), source.path.clone()));
        for (token, place) in literals.chain(errors) {
            if let Ok(text) = syn::parse_str::<syn::LitStr>(&token) {
                texts.push((place, text.value()));
            }
        }
    }
    texts
}

#[test]
fn messages_are_plain_english() {
    none(&in_sources(messages));
}

/// Presets print what they say of knobs, rungs, rules and failures. Comments, sources and lines of logs are another matter.
#[test]
fn presets_are_plain_english() {
    let quoted = ["source:", "contains:", "example:", "log:", "pattern:"];
    let mut texts = Vec::new();
    for (path, text) in files("presets", &["yaml"]) {
        for (number, line) in text.lines().enumerate() {
            let shown = line.trim_start().trim_start_matches("- ");
            if !shown.starts_with('#') && !quoted.iter().any(|key| shown.starts_with(key)) {
                texts.push((format!("{path}:{}", number + 1), line.to_owned()));
            }
        }
    }
    none(&texts);
}

/// The manual pages hold the help of every command.
#[test]
fn help_is_plain_english() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .args(["man", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let pages = std::fs::read_dir(folder.path()).unwrap();
    let pages = pages.map(|page| page.unwrap().path());
    let texts: Vec<Text> = pages
        .map(|page| {
            let text = std::fs::read_to_string(&page).unwrap();
            (page.display().to_string(), text.replace('\\', ""))
        })
        .collect();
    none(&texts);
}

/// Pages without their code. The guide itself shows what not to write.
#[test]
fn pages_are_plain_english() {
    let root = root();
    let mut pages = files("docs", &["md"]);
    for folder in ["examples", "crates", "python", "benches"] {
        pages.extend(files(folder, &["md"]));
    }
    for name in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        pages.push((name.to_owned(), text));
    }
    let mut texts = Vec::new();
    for (path, text) in pages {
        let (mut guide, mut paragraph, mut begins) = (false, String::new(), 1);
        for (number, line) in text.lines().chain([""]).enumerate() {
            if line.starts_with("## ") {
                guide = path == "CONTRIBUTING.md" && line == "## Plain English";
            }
            if line.trim().is_empty() {
                texts.push((format!("{path}:{begins}"), std::mem::take(&mut paragraph)));
                begins = number + 2;
            } else if !guide {
                paragraph.push_str(line);
                paragraph.push('\n');
            }
        }
    }
    none(&texts);
}

#[test]
fn a_phrasing_is_found_across_lines_and_in_any_case() {
    let texts = [
        ("a".to_owned(), "Which is\n  told once".to_owned()),
        ("b".to_owned(), "a recommended, unmended thing".to_owned()),
    ];
    assert_eq!(found(&texts), ["a: `is told once…`: say who prints what"]);
}
