//! The direction of imports: `main → cli → view → drive → io → core → libraries`, and inside core as `CORE` has it.
//! Nothing imports to the left, siblings in braces do not import each other, and there are no loops.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{LIBRARY, Source, attributes, code_tokens, in_sources, is_test_item};
use oomctl_base::word_list;

/// The rooms, leftmost first.
const ROOMS: [&str; 6] = ["main", "cli", "view", "drive", "io", "core"];

/// The parts of core, leftmost first; each part of a row may import from the rows after it.
const CORE: [&[&str]; 9] = [
    &["report"],
    &["engine"],
    &["request"],
    &["learn", "adopt", "launch"],
    &["ladder", "sweep"],
    &["memory", "config", "render"],
    &["recipe"],
    &["measure"],
    &["exit"],
];

/// Libraries that a part of core does not import, with the reason.
const REFUSED: [(&str, &str, &str); 4] = [
    ("memory", "oomctl_diagnose", "only ladder knows both"),
    (
        "recipe",
        "oomctl_diagnose",
        "what a configuration is knows no log",
    ),
    ("config", "oomctl_diagnose", "configuration knows no log"),
    ("render", "oomctl_diagnose", "rendering knows no log"),
];

/// What `view` does not import, for it is there to show what was decided: what climbs the ladder and what asks the
/// memory model. `view` takes what they give.
const DECIDES: [(&str, &[&str]); 5] = [
    (
        "ladder",
        &word_list::<7>("advise ascend climb costs predict tune ClimbContext"),
    ),
    ("memory", &["spec_of"]),
    ("oomctl_memory", &["estimate", "Spec"]),
    ("request", &["Request"]),
    ("adopt", &["Own"]),
];

/// One reference from a file to a module of this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub from: Vec<String>,
    pub to: Vec<String>,
    place: String,
}

/// Every `crate::`, `self::`, `super::` and `oomctl::` path in the code of `source`, resolved.
pub fn imports(source: &Source) -> Vec<Import> {
    let tokens = code_tokens(source);
    let mut found = Vec::new();
    let mut inside = vec![(source.module(), 0_usize)];
    let mut depth = 0_usize;
    for (at, (word, line)) in tokens.iter().enumerate() {
        match word.as_str() {
            "{" => {
                depth += 1;
                if at >= 2 && tokens[at - 2].0 == "mod" {
                    let mut module = inside.last().unwrap().0.clone();
                    module.push(tokens[at - 1].0.clone());
                    inside.push((module, depth));
                }
            }
            "}" => {
                inside.pop_if(|(_, opened)| *opened == depth && depth > 0);
                depth -= 1;
            }
            name if is_root(name) && starts_path(&tokens, at) => {
                let base = &inside.last().unwrap().0;
                for to in expand(&tokens, at, base) {
                    found.push(Import {
                        from: source.module(),
                        to,
                        place: format!("{}:{line}", source.path),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

fn is_root(name: &str) -> bool {
    matches!(name, "crate" | "self" | "super" | "oomctl") || name.starts_with(LIBRARY)
}

/// True if the word at `at` begins a path (is followed by `::`, and is not itself inside one).
fn starts_path(tokens: &[(String, usize)], at: usize) -> bool {
    let word = |offset: usize| tokens.get(offset).map_or("", |(text, _)| text.as_str());
    let follows = word(at + 1) == ":" && word(at + 2) == ":";
    let inside =
        at >= 2 && word(at - 1) == ":" && word(at - 2) == ":" || at >= 1 && word(at - 1) == "$";
    follows && !inside
}

/// The modules that the path at `at` names: one, or several for `crate::{a, b}`.
fn expand(tokens: &[(String, usize)], at: usize, base: &[String]) -> Vec<Vec<String>> {
    let mut prefix: Vec<String> = match tokens[at].0.as_str() {
        "crate" => crate_of(base),
        "oomctl" => Vec::new(),
        "self" => base.to_vec(),
        name if name.starts_with(LIBRARY) => vec![name.to_owned()],
        _ => base[..base.len().saturating_sub(1)].to_vec(),
    };
    let mut next = at + 1;
    loop {
        let word = |offset: usize| tokens.get(offset).map_or("", |(text, _)| text.as_str());
        if word(next) != ":" || word(next + 1) != ":" {
            return vec![prefix];
        }
        match word(next + 2) {
            "super" => {
                prefix.pop();
            }
            "{" => return group(tokens, next + 3, &prefix),
            "*" | "<" => return vec![prefix],
            name => prefix.push(name.to_owned()),
        }
        next += 3;
    }
}

/// Where the paths of a module's crate begin: our libraries have a name of their own.
pub fn crate_of(module: &[String]) -> Vec<String> {
    let library = module.iter().take(1);
    library
        .filter(|n| n.starts_with(LIBRARY))
        .cloned()
        .collect()
}

/// The entries of a `{a::b, c}` group, each on top of `prefix`; deeper groups are cut at two names.
fn group(tokens: &[(String, usize)], start: usize, prefix: &[String]) -> Vec<Vec<String>> {
    let (mut found, mut current, mut depth) = (Vec::new(), prefix.to_vec(), 0);
    for (word, _) in &tokens[start..] {
        match word.as_str() {
            "{" => depth += 1,
            "}" if depth > 0 => depth -= 1,
            "}" => break,
            "," if depth == 0 => found.push(std::mem::replace(&mut current, prefix.to_vec())),
            "," if current.len() < 2 => {
                // `crate::{core::{a, b}}`: each name of the inner group is an entry of its own.
                found.push(current.clone());
            }
            "," => {
                found.push(current.clone());
                current.pop();
            }
            ":" | "*" | "self" | "as" => {}
            name => current.push(name.to_owned()),
        }
    }
    found.push(current);
    found.retain(|path| path.len() > prefix.len() || !prefix.is_empty());
    found
}

/// Why an import is against the direction, or None.
fn fault(import: &Import) -> Option<String> {
    let from_room = import.from.first().map_or("main", String::as_str);
    let to_room = import.to.first()?.as_str();
    // Between libraries the compiler sees to it: `each_library_needs_only_what_it_says`.
    if from_room.starts_with(LIBRARY) {
        return None;
    }
    if from_room == "view" && decides(&import.to) {
        return Some(format!(
            "view imports {}: it shows, and decides nothing",
            import.to.join("::")
        ));
    }
    if to_room.starts_with(LIBRARY) {
        let own = import.from.get(1)?;
        let refused =
            |(a, b, _): &&(&str, &str, &str)| from_room == "core" && a == own && *b == to_room;
        let (_, _, why) = REFUSED.iter().find(refused)?;
        return Some(format!("core::{own} imports {to_room}: {why}"));
    }
    let (Some(from), Some(to)) = (room(from_room), room(to_room)) else {
        return Some(format!("`{to_room}` is none of the rooms {ROOMS:?}"));
    };
    if to < from {
        return Some(format!("{from_room} imports from {to_room}, to its left"));
    }
    if from_room != "core" || to_room != "core" {
        return None;
    }
    let own = import.from.get(1)?.as_str();
    let Some(other) = import.to.get(1) else {
        return Some("core as a whole is imported: name the part".to_owned());
    };
    core_fault(own, other)
}

/// Does this path name what decides?
fn decides(path: &[String]) -> bool {
    let (part, name) = match path {
        [library, .., name] if library.starts_with(LIBRARY) => (library, name),
        [_, part, .., name] => (part, name),
        _ => return false,
    };
    let mut of_part = DECIDES.iter().filter(|(known, _)| known == part);
    of_part.any(|(_, names)| names.contains(&name.as_str()))
}

fn core_fault(own: &str, other: &str) -> Option<String> {
    if own == other {
        return None;
    }
    match (part(own), part(other)) {
        (Some(from), Some(to)) if to > from => None,
        (Some(from), Some(to)) if to == from => {
            Some(format!("core::{own} imports its sibling core::{other}"))
        }
        (Some(_), Some(_)) => Some(format!("core::{own} imports core::{other}, to its left")),
        _ => Some(format!(
            "core::{own} or core::{other} is no part of core that this test knows"
        )),
    }
}

fn room(name: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == name)
}

fn part(name: &str) -> Option<usize> {
    CORE.iter().position(|row| row.contains(&name))
}

fn faults(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| !source.is_test())
        .flat_map(imports)
        .filter_map(|import| Some(format!("{}: {}", import.place, fault(&import)?)))
        .collect()
}

/// The first loop between modules (room and part), as `a → b → a`.
fn import_loop(sources: &[Source]) -> Option<String> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for import in sources.iter().filter(|s| !s.is_test()).flat_map(imports) {
        let (from, to) = (node(&import.from), node(&import.to));
        let library = from.starts_with(LIBRARY) || to.starts_with(LIBRARY);
        if from != to && !library && from.contains("::") && to.contains("::") {
            edges.entry(from).or_default().insert(to);
        }
    }
    let starts: Vec<&String> = edges.keys().collect();
    starts
        .iter()
        .find_map(|start| follow(start, &edges, &mut Vec::new(), &mut BTreeSet::new()))
}

fn node(path: &[String]) -> String {
    path[..path.len().min(2)].join("::")
}

fn follow(
    at: &str,
    edges: &BTreeMap<String, BTreeSet<String>>,
    trail: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<String> {
    if let Some(start) = trail.iter().position(|seen| seen == at) {
        return Some(format!("{} → {at}", trail[start..].join(" → ")));
    }
    if !done.insert(at.to_owned()) {
        return None;
    }
    trail.push(at.to_owned());
    let found = edges
        .get(at)
        .into_iter()
        .flatten()
        .find_map(|next| follow(next, edges, trail, done));
    trail.pop();
    found
}

#[test]
fn nothing_imports_against_the_direction() {
    let found = in_sources(faults);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_modules_import_each_other_in_a_loop() {
    assert_eq!(in_sources(import_loop), None);
}

/// Parts of core that `CORE` does not name.
fn without_place(sources: &[Source]) -> Vec<String> {
    let mut core = sources.iter().filter(|s| s.path == "src/core/mod.rs");
    let items = &core.next().unwrap().syntax.items;
    let modules = items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if !is_test_item(attributes(item)) => Some(module.ident.to_string()),
        _ => None,
    });
    modules.filter(|name| part(name).is_none()).collect()
}

#[test]
fn every_part_of_core_has_its_place_in_the_order() {
    assert_eq!(in_sources(without_place), Vec::<String>::new());
}

fn check(path: &str, text: &str) -> Vec<String> {
    faults(&[Source::parse(path, text)])
}

#[test]
fn planted_wrong_imports_are_found() {
    let planted = [
        ("src/core/exit.rs", "use crate::io::files::read;"),
        (
            "src/core/exit.rs",
            "use std::fs; fn f() -> u8 { crate::drive::perform() }",
        ),
        ("src/io/files.rs", "use crate::{core::exit::Exit, view};"),
        ("src/drive/mod.rs", "fn f(x: crate::cli::View) {}"),
        (
            "src/core/measure/phase.rs",
            "use crate::core::recipe::Knob;",
        ),
        (
            "src/core/measure/phase.rs",
            "use super::super::recipe::Knob;",
        ),
        ("src/core/memory/mod.rs", "use oomctl_diagnose::Incident;"),
        (
            "src/core/memory/mod.rs",
            "use crate::core::{recipe::Knob, ladder::Rung};",
        ),
        (
            "src/core/config/mod.rs",
            "fn f() { println!(\"{}\", crate::core::ladder::floor()); }",
        ),
        (
            "src/core/recipe/mod.rs",
            "mod inner { use super::super::ladder::Rung; }",
        ),
        ("src/core/recipe/mod.rs", "use crate::core;"),
        (
            "src/core/recipe/mod.rs",
            "use crate::core::{measure::{Peak, Figure}, ladder};",
        ),
        ("src/io/files.rs", "use crate::somewhere::Thing;"),
        (
            "src/view/plan_view.rs",
            "use crate::core::ladder::{Step, climb};",
        ),
        (
            "src/view/rung_view.rs",
            "fn f() { oomctl_memory::estimate(1) }",
        ),
        ("src/view/mod.rs", "use crate::cli::session::Session;"),
    ];
    for (path, text) in planted {
        assert_eq!(
            check(path, text).len(),
            1,
            "{path}: {text}: {:?}",
            check(path, text)
        );
    }
}

#[test]
fn right_imports_pass() {
    let right = [
        ("src/main.rs", "fn main() { oomctl::cli::run(); }"),
        (
            "src/cli/commands/submit.rs",
            "use crate::{core::exit::Exit, drive, io::ledger::Ledger};",
        ),
        (
            "src/drive/mod.rs",
            "use crate::core::engine::{Event, Fact}; use oomctl_follow::Look;",
        ),
        (
            "src/core/ladder/mod.rs",
            "use crate::core::{memory::spec_of, recipe::Layer}; use oomctl_diagnose::Incident;",
        ),
        (
            "src/core/exit.rs",
            "use oomctl_base::units::Bytes; use self::inner::X; mod inner { use super::Y; }",
        ),
        (
            "src/core/recipe/knob.rs",
            "use super::layer::Layer; use super::super::measure::Peak;",
        ),
        (
            "src/core/memory/mod.rs",
            "#[cfg(test)] mod tests { use oomctl_diagnose::Incident; }",
        ),
        (
            "src/core/memory/mod.rs",
            "/// See oomctl_diagnose::Incident.\nfn f() {}",
        ),
    ];
    for (path, text) in right {
        assert_eq!(check(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn a_planted_loop_is_found() {
    let one = Source::parse("src/io/ledger/mod.rs", "use crate::io::files::read;");
    let two = Source::parse("src/io/files.rs", "use crate::io::ledger::Ledger;");
    assert_eq!(
        import_loop(&[one, two]).as_deref(),
        Some("io::files → io::ledger → io::files")
    );
}
