//! Loops of files that import each other, found by the file that defines a name, not by the one that re-exports it.
//! The loops that there are today are listed; the list may only become shorter.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, UseTree, Visibility};

use crate::architecture::{crate_of, imports};
use crate::source::{LIBRARY, Source, in_sources};

/// The folder that the files of a loop have in common, and their number.
const KNOWN: [(&str, usize); 2] = [("view::live", 2), ("view::live", 5)];

type Path = Vec<String>;

/// Files as modules, and the names that they re-export with where those come from.
struct Files {
    modules: BTreeSet<Path>,
    reexports: BTreeMap<(Path, String), Path>,
}

impl Files {
    fn of(sources: &[Source]) -> Self {
        let mut files = Self {
            modules: sources.iter().map(Source::module).collect(),
            reexports: BTreeMap::new(),
        };
        for source in sources {
            for item in &source.syntax.items {
                if let Item::Use(item) = item
                    && !matches!(item.vis, Visibility::Inherited)
                {
                    files.reexported(&source.module(), &item.tree, Vec::new());
                }
            }
        }
        files
    }

    fn reexported(&mut self, module: &Path, tree: &UseTree, before: Path) {
        let mut add = |name: String, ident: String| {
            let path = [before.clone(), vec![ident]].concat();
            let path = absolute(module, &path);
            self.reexports.insert((module.clone(), name), path);
        };
        match tree {
            UseTree::Path(path) => {
                let before = [before, vec![path.ident.to_string()]].concat();
                self.reexported(module, &path.tree, before);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.reexported(module, tree, before.clone());
                }
            }
            UseTree::Name(name) => add(name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(name) => add(name.rename.to_string(), name.ident.to_string()),
            UseTree::Glob(_) => {}
        }
    }

    /// The file that defines what a path names.
    fn defines(&self, path: &[String]) -> Option<Path> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let known = (1..=path.len())
                .rev()
                .find(|n| self.modules.contains(&path[..*n]))?;
            let (module, rest) = (path[..known].to_vec(), &path[known..]);
            let name = rest.first().cloned().unwrap_or_default();
            match self.reexports.get(&(module.clone(), name)) {
                Some(target) => path = [target.clone(), rest[1..].to_vec()].concat(),
                None => return Some(module),
            }
        }
        None
    }

    /// Which file needs which.
    fn edges(&self, sources: &[Source]) -> BTreeMap<Path, BTreeSet<Path>> {
        let mut edges: BTreeMap<Path, BTreeSet<Path>> = BTreeMap::new();
        for import in sources.iter().filter(|s| !s.is_test()).flat_map(imports) {
            let of_module = |((module, _), target): (&(Path, String), &Path)| {
                *module == import.from && *target == import.to
            };
            if self.reexports.iter().any(of_module) {
                continue;
            }
            let Some(to) = self.defines(&import.to) else {
                continue;
            };
            if to != import.from {
                edges.entry(import.from).or_default().insert(to);
            }
        }
        edges
    }
}

/// The path from the crate's root of one that stands in a module.
fn absolute(module: &[String], path: &[String]) -> Path {
    let mut at = module.to_vec();
    let mut rest = path;
    loop {
        match rest.first().map(String::as_str) {
            Some("crate") => at = crate_of(&at),
            Some("self") => {}
            Some("super") => {
                at.pop();
            }
            Some(name) if name.starts_with(LIBRARY) => return rest.to_vec(),
            _ => return [at, rest.to_vec()].concat(),
        }
        rest = &rest[1..];
    }
}

/// Files from which a file can be reached and that it reaches, largest loop first.
fn loops(edges: &BTreeMap<Path, BTreeSet<Path>>) -> Vec<BTreeSet<Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = edges
        .keys()
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                let next = edges.get(at).into_iter().flatten();
                open.extend(next.filter(|to| seen.insert(*to)));
            }
            (start, seen)
        })
        .collect();
    let mut found: BTreeSet<BTreeSet<Path>> = BTreeSet::new();
    for (start, seen) in &reached {
        if !seen.contains(*start) {
            continue;
        }
        let back = |to: &&&Path| reached.get(**to).is_some_and(|all| all.contains(start));
        found.insert(seen.iter().filter(back).map(|p| (**p).clone()).collect());
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|files| std::cmp::Reverse(files.len()));
    found
}

/// The loops as folder and number of files, and the same in words.
fn described(sources: &[Source]) -> (Vec<(String, usize)>, String) {
    let files = Files::of(sources);
    let found = loops(&files.edges(sources));
    let folder = |files: &BTreeSet<Path>| {
        let first = files.first().unwrap();
        let shared = (0..first.len()).find(|n| files.iter().any(|f| f.get(*n) != Some(&first[*n])));
        first[..shared.unwrap_or(first.len())].join("::")
    };
    let counts = found.iter().map(|f| (folder(f), f.len())).collect();
    let words = found.iter().map(|files| {
        let names: Vec<String> = files.iter().map(|f| f.join("::")).collect();
        format!("{} files: {}", files.len(), names.join(", "))
    });
    (counts, words.collect::<Vec<_>>().join("\n"))
}

#[test]
fn files_import_each_other_in_no_loop_but_the_known_ones() {
    let (found, words) = in_sources(described);
    let mut found: Vec<(&str, usize)> = found.iter().map(|(f, n)| (f.as_str(), *n)).collect();
    let mut known = KNOWN;
    found.sort_unstable();
    known.sort_unstable();
    assert_eq!(
        found, known,
        "a loop that is gone goes from the list, too:\n{words}"
    );
}

#[test]
fn a_planted_loop_of_files_is_found_through_a_re_export() {
    let sources = [
        ("src/io/mod.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
        ("src/io/a.rs", "use super::B; pub struct A;"),
        ("src/io/b.rs", "use crate::io::A; pub struct B;"),
        ("src/io/c.rs", "use super::{A, B};"),
    ];
    let sources = sources.map(|(path, text)| Source::parse(path, text));
    assert_eq!(described(&sources).0, [("io".to_owned(), 2)]);
}
