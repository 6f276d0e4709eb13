//! The user's own modules that a program imports: files beside it.

use std::collections::BTreeMap;

use super::moved_program::{changed_modules, import_root};
use super::python::{
    PythonToken, TokenKind, ends_block, is_main, line, line_begins, mark_lines, statements, tokens,
};
use super::recognise::is_of_settings;
use super::stars::{is_module_file, starred};
use super::traced::Traced;
use super::walk::{Call, HERE, folder_of_file, joined};

/// Most files of a program that are read.
const FILES: usize = 24;
/// Most names of one import that may be modules of a package.
const NAMES: usize = 8;

/// A file of a program.
pub(super) struct ModuleFile<'f> {
    pub path: &'f str,
    /// The name by which the program imports it (`lib.config`).
    pub name: Option<String>,
    pub text: &'f str,
    pub tokens: Vec<PythonToken<'f>>,
    /// The file that imports it, which is read before it.
    pub by: Option<&'f str>,
}

impl<'f> ModuleFile<'f> {
    /// The file that is started.
    pub(super) fn started((path, text): (&'f String, &'f String)) -> Self {
        Self {
            path,
            name: None,
            text,
            tokens: tokens(text),
            by: None,
        }
    }

    /// One that is imported: nothing below `if __name__ == "__main__":` runs.
    fn imported((path, text): (&'f String, &'f String), name: Option<String>, by: &'f str) -> Self {
        let mut tokens = tokens(text);
        let main = line_begins(&tokens).find(|at| is_main(line(&tokens, *at)));
        if let Some(begin) = main {
            cut_block(&mut tokens, begin);
        }
        Self {
            path,
            name,
            text,
            tokens,
            by: Some(by),
        }
    }

    /// Whether another file takes all names of it: `from NAME import *`.
    pub(super) fn is_starred(&self, by: &[Self]) -> bool {
        let mut stars = by.iter().flat_map(|file| starred(&file.tokens));
        stars.any(|module| is_module_file(self.path, module))
    }

    /// Whether it is a module of settings, as far as its name says (`config.py`, `hparams.py`).
    pub(super) fn is_of_settings(&self) -> bool {
        let file = self.path.rsplit('/').next().unwrap_or(self.path);
        let stem = file.strip_suffix(".py").unwrap_or(file);
        stem.starts_with("const") || is_of_settings(&stem.to_lowercase())
    }
}

/// Takes a line away, with the block that it begins.
fn cut_block(tokens: &mut Vec<PythonToken<'_>>, begin: usize) {
    let ends = |at: &usize| tokens[*at].kind == TokenKind::End && ends_block(tokens, begin, *at);
    let end = (begin..tokens.len()).find(ends);
    tokens.drain(begin..end.unwrap_or(tokens.len()));
    mark_lines(tokens);
}

/// Takes the `main` of imported files away that nothing calls.
fn cut_unused_mains(all: &mut [ModuleFile<'_>]) {
    let names_main = |t: &PythonToken<'_>| t.is("main");
    let imports = |line: &[PythonToken<'_>]| {
        let by_name = line.iter().any(|t| t.is("import")) && line.iter().any(names_main);
        by_name || line.windows(2).any(|w| w[0].is(".") && names_main(&w[1]))
    };
    let imported = |file: &ModuleFile<'_>| statements(&file.tokens).any(imports);
    if all.iter().any(imported) {
        return;
    }
    for file in all.iter_mut().skip(1) {
        let mut places = (0..file.tokens.len()).filter(|at| names_main(&file.tokens[*at]));
        if let (Some(at), None) = (places.next(), places.next())
            && at > 0
            && file.tokens[at - 1].is("def")
        {
            cut_block(&mut file.tokens, at - 1);
        }
    }
}

/// The user's own module that `python -m NAME` starts.
pub(super) struct StartedModule {
    /// Its file.
    pub path: String,
    /// The folder from which its package is imported.
    pub root: String,
}

/// The file of a module that a call starts, from the folder in which it runs, one of its `PYTHONPATH`, or `src`, from which packages
/// are installed; else the paths that it may have and that were not given.
pub(super) fn started(
    name: &str,
    call: &Call,
    files: &BTreeMap<String, String>,
) -> Result<StartedModule, Vec<String>> {
    let here = call.folder.clone().into_iter();
    let path = name.replace('.', "/");
    let below = |root: String| {
        let forms = [format!("{path}.py"), format!("{path}/__main__.py")];
        forms.map(|form| (joined(&root, &form), root.clone()))
    };
    let installed = here.clone().map(|folder| joined(&folder, "src"));
    let roots = here.chain(python_path(call)).chain(installed);
    let possible: Vec<_> = roots.flat_map(below).collect();
    match possible.iter().find(|(path, _)| files.contains_key(path)) {
        Some((path, root)) => Ok(StartedModule {
            path: path.clone(),
            root: root.clone(),
        }),
        None => Err(possible.into_iter().map(|(path, _)| path).collect()),
    }
}

/// The folder in which a call's own packages lie beside its program: the first of its `PYTHONPATH` that is below the one in which
/// it runs, or else that.
pub(super) fn own_packages(call: &Call) -> Option<String> {
    let folder = call.folder.as_ref()?;
    let below = |path: &String| {
        let inside = !folder.is_empty() && path.starts_with(folder.as_str());
        inside || !path.starts_with('/')
    };
    let own = python_path(call).into_iter().find(below);
    own.or_else(|| Some(folder.clone()))
}

/// The folders of a call's `PYTHONPATH` that are plain, or below the folder in which it runs.
fn python_path(call: &Call) -> Vec<String> {
    let Some(folder) = &call.folder else {
        return Vec::new();
    };
    let value = call.variables.get("PYTHONPATH").map(Traced::text);
    let value = value.unwrap_or_default();
    let known = value.split(':').filter_map(|entry| {
        let below = HERE.iter().find_map(|code| entry.strip_prefix(code));
        // `$PWD_OF_MINE` is another variable.
        let below = below.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let plain = below.map_or(entry, |rest| rest.trim_start_matches('/'));
        (!entry.is_empty() && !plain.contains('$')).then(|| joined(folder, plain))
    });
    known.collect()
}

/// The files of a program, itself first, and the paths that would be modules of it and were not given. Its imports begin at
/// `root`; a package that lies in the folder `here` in which it runs, or in its `src`, may be installed from there.
pub(super) fn modules<'f>(
    program: (&'f String, &'f String),
    (root, here): (&str, &str),
    files: &'f BTreeMap<String, String>,
) -> (Vec<ModuleFile<'f>>, Vec<String>) {
    let mut all = vec![ModuleFile::started(program)];
    let root = import_root(program.1).unwrap_or(root);
    let changed = changed_modules(program.1);
    let src = joined(here, "src");
    let installed: &[&str] = match here == root {
        true => &[&src],
        false => &[here, &src],
    };
    let mut sought = Vec::new();
    let mut open = vec![0];
    while !open.is_empty() {
        // Not all of many files are read: those that settings are made of come first.
        let of_settings = open.iter().position(|at| is_among_settings(all[*at].path));
        let file = &all[open.remove(of_settings.unwrap_or(0))];
        let by = file.path;
        let own = folder_of_file(by).to_owned();
        let mut named = imported(&file.tokens, (root, &own));
        for from in installed {
            let mut more = imported(&file.tokens, (from, &own));
            more.retain(|module| !named.contains(module));
            named.extend(more);
        }
        let module = file.path.strip_suffix(".py").unwrap_or(file.path);
        named.extend(packages_of(module, root));
        for module in named {
            let roots = std::iter::once(&root).chain(installed);
            // A package of `src` is none of the name `src.…`.
            let roots = roots.filter_map(|from| below(&module, from));
            let name = roots.min_by_key(String::len);
            let copy = changed
                .iter()
                .find(|(copied, _)| name.as_deref() == Some(*copied));
            let paths = match copy {
                Some((_, path)) => vec![(*path).to_owned()],
                None => vec![format!("{module}.py"), format!("{module}/__init__.py")],
            };
            for path in paths {
                match files.get_key_value(&path) {
                    Some((path, _)) if all.iter().any(|known| known.path == path) => {}
                    Some(file) if all.len() < FILES => {
                        open.push(all.len());
                        all.push(ModuleFile::imported(file, name.clone(), by));
                    }
                    Some(_) => {}
                    None => sought.push(path),
                }
            }
        }
    }
    cut_unused_mains(&mut all);
    (all, sought)
}

/// The packages in which a module lies, whose files run before it does.
fn packages_of(module: &str, root: &str) -> Vec<String> {
    let ends = module.match_indices('/').map(|(at, _)| &module[..at]);
    let below_root = ends.filter(|folder| !folder.is_empty() && below(folder, root).is_some());
    below_root.map(str::to_owned).collect()
}

/// Whether a module is one of settings, or lies among such (`config/__init__.py`).
fn is_among_settings(path: &str) -> bool {
    let path = path.strip_suffix(".py").unwrap_or(path).to_lowercase();
    path.rsplit('/').take(2).any(is_of_settings)
}

/// The paths, without their ending, that the imports of a text may mean: from the program's folder, or from that of the file.
fn imported(tokens: &[PythonToken<'_>], (root, own): (&str, &str)) -> Vec<String> {
    let mut found = Vec::new();
    for line in statements(tokens) {
        let names = |list: &[PythonToken<'_>]| -> Vec<String> {
            let parts = list.split(|t| t.is(","));
            parts.map(dotted).filter(|name| !name.is_empty()).collect()
        };
        match line {
            [import, list @ ..] if import.is("import") => {
                found.extend(names(list).iter().map(|name| joined(root, name)));
            }
            [from, rest @ ..] if from.is("from") => {
                let Some(import) = rest.iter().position(|t| t.is("import")) else {
                    continue;
                };
                let (package, list) = (&rest[..import], &rest[import + 1..]);
                let dots = package.iter().take_while(|t| t.is(".")).count();
                let mut folder = if dots == 0 { root } else { own }.to_owned();
                for _ in 1..dots {
                    folder = folder_of_file(&folder).to_owned();
                }
                let package = dotted(&package[dots..]);
                let package = match package.as_str() {
                    "" => folder,
                    name => joined(&folder, name),
                };
                // A name in small letters may be a module of the package.
                let is_module = |name: &String| name.starts_with(|c: char| c.is_lowercase());
                let inner = names(list).into_iter().filter(is_module).take(NAMES);
                let inner: Vec<String> = inner.map(|name| joined(&package, &name)).collect();
                found.push(package);
                found.extend(inner);
            }
            _ => {}
        }
    }
    found
}

/// The name of a module, from the folder from which it is imported.
fn below(module: &str, from: &str) -> Option<String> {
    let rest = match from {
        "" => Some(module).filter(|path| !path.starts_with('/')),
        _ => module.strip_prefix(from)?.strip_prefix('/'),
    };
    rest.map(|path| path.replace('/', "."))
}

/// `a.b as c` as `a/b`.
fn dotted(tokens: &[PythonToken<'_>]) -> String {
    let names = tokens.iter().take_while(|t| !t.is("as"));
    let names = names.filter(|t| t.kind == TokenKind::Name);
    let names: Vec<&str> = names.map(|t| t.text).collect();
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::word_list;

    #[test]
    fn modules_of_settings_are_read_before_the_many_others() {
        let many: String = (0..30).map(|n| format!("import m{n}\n")).collect();
        let mut files: BTreeMap<String, String> = (0..30)
            .map(|n| (format!("m{n}.py"), String::new()))
            .collect();
        for (path, text) in [
            ("train.py", "import model\nfrom config import cfg\n"),
            ("model.py", many.as_str()),
            ("config/__init__.py", "from .defaults import _C\n"),
            ("config/defaults.py", ""),
        ] {
            files.insert(path.to_owned(), text.to_owned());
        }
        let program = files.get_key_value("train.py").unwrap();
        let (all, _) = modules(program, ("", ""), &files);
        assert_eq!(all.len(), FILES);
        assert!(all.iter().any(|file| file.path == "config/defaults.py"));
    }

    #[test]
    fn what_an_imported_file_does_when_it_is_started_is_not_read() {
        let test = "def test(): pass\ndef main():\n  other.add_argument('--crop')\nif __name__ == '__main__':\n  p.add_argument('--batch')\n  p.parse_args()\nAFTER = 1\n";
        let files: BTreeMap<String, String> = [("train.py", "import test\n"), ("test.py", test)]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        let read = |program: &str| {
            let program = files.get_key_value(program).unwrap();
            let (all, _) = modules(program, ("", ""), &files);
            let tokens = all.into_iter().flat_map(|file| file.tokens);
            tokens.map(|t| t.text.to_owned()).collect::<Vec<_>>()
        };
        let imported = read("train.py");
        assert!(
            !imported.iter().any(|t| t == "add_argument"),
            "{imported:?}"
        );
        assert!(imported.iter().any(|t| t == "AFTER"), "{imported:?}");
        assert!(read("test.py").iter().any(|t| t == "add_argument"));
    }

    #[test]
    fn modules_beside_the_program_are_read_and_the_rest_is_sought() {
        let files = [
            (
                "job/train.py",
                "import torch, args as a\nfrom lib.cfg import (make,)\n",
            ),
            ("job/args.py", "x = 1\n"),
            (
                "job/lib/cfg.py",
                "from . import base\nfrom ..args import x\n",
            ),
            ("job/lib/base.py", "import train\n"),
        ];
        let files: BTreeMap<String, String> = files
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        let program = files.get_key_value("job/train.py").unwrap();
        let (all, sought) = modules(program, ("job", "job"), &files);
        let paths: Vec<&str> = all.iter().map(|file| file.path).collect();
        let expected = word_list::<4>("job/train.py job/args.py job/lib/cfg.py job/lib/base.py");
        assert_eq!(paths, expected);
        assert!(sought.contains(&"job/torch.py".to_owned()), "{sought:?}");
        assert!(!sought.contains(&"job/args.py".to_owned()), "{sought:?}");
    }
}
