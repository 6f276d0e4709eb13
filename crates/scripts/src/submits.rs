//! What the text and the words of a program say beside its knobs: one process for several GPUs, further jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::accumulation::{SUM_OF_LOSSES, divided_batches, sum_of_losses};
use super::beside_trainer::{TRAINER_DOUBT, doubts};
use super::by_use::cut_batch;
use super::code::names_in;
use super::code_value::{ConfigClasses, PythonFile};
use super::configs::add_own_path;
use super::configured::ProgramCode;
use super::devices::DeviceScript;
use super::imports::{ModuleFile, modules, own_packages, started};
use super::in_program::reads_options;
use super::keyed::KeyedSettings;
use super::keyed_options::keyed_settings;
use super::listed_options::declared_by;
use super::micro_batch::{SIGNS, signs};
use super::moved_program::{begin, can_move};
use super::other_trainer::{OTHER_LOSS, OtherTrainer, other_trainers};
use super::own_model::{OWN_MODEL, own_model};
use super::parts::{PARTS, parts};
use super::python::{PythonToken, TokenKind, calls_backward, tokens};
use super::recognise::package;
use super::stars::is_module_file;
use super::traced::{Span, Traced};
use super::walk::{CallTarget, FileRole, Reading, folder_of_file, joined};
use super::whole_parser::WholeParser;

/// The override that lets each point of a Hydra multirun be a job of its own.
const HYDRA_LAUNCHER: &str = "hydra/launcher=submitit_slurm";

/// Whether a Python program submits jobs with submitit.
fn submits(text: &str) -> bool {
    text.contains("submitit") && text.contains("Executor(") && text.contains(".submit(")
}

/// The wanted names that the files of a program, with these `texts`, use, each where it first stands.
fn names_of(
    reading: &mut Reading,
    own: &[ModuleFile<'_>],
    texts: &[&[PythonToken<'_>]],
    wanted: &BTreeSet<&str>,
) -> BTreeMap<String, Span> {
    let mut names = BTreeMap::new();
    for module in own {
        let found = names_in(&module.tokens, wanted);
        if found.is_empty() {
            continue;
        }
        let file = reading.add_source(module.path, module.text);
        for (name, (start, end)) in found {
            names.entry(name).or_insert(Span { file, start, end });
        }
    }
    if wanted.contains(OWN_MODEL)
        && let Some((at, (start, end))) = own_model(texts)
    {
        let file = reading.add_source(own[at].path, own[at].text);
        names.insert(OWN_MODEL.to_owned(), Span { file, start, end });
    }
    if wanted.contains(SUM_OF_LOSSES) || SIGNS.iter().any(|sign| wanted.contains(sign)) {
        let options = declared_by(texts);
        let sum = sum_of_losses(texts, &options);
        let sum = sum.map(|(at, bytes)| (SUM_OF_LOSSES, at, bytes));
        let found = sum.into_iter().chain(divided_batches(texts));
        let found = found.chain(cut_batch(texts, &options));
        let found = found.chain(signs(texts, &options));
        for (name, at, (start, end)) in found.filter(|(name, ..)| wanted.contains(name)) {
            let file = reading.add_source(own[at].path, own[at].text);
            names.insert(name.to_owned(), Span { file, start, end });
        }
        let is_read = |module: &str| own.iter().any(|file| is_module_file(file.path, module));
        let parts = parts(texts).map(|(keys, at, bytes)| (format!("{PARTS}{keys}"), at, bytes));
        for (name, at, (start, end)) in doubts(texts, is_read).into_iter().chain(parts) {
            let file = reading.add_source(own[at].path, own[at].text);
            names.insert(name, Span { file, start, end });
        }
    }
    names
}

/// Adds the files through which a program imports its settings, so that they are stored with the run.
fn add_packages(reading: &mut Reading, keyed: &KeyedSettings, all: &[(&str, &str)]) {
    let packages = all.iter().filter(|(path, _)| path.ends_with("__init__.py"));
    for (path, text) in packages.filter(|_| !keyed.values.is_empty()) {
        reading.add_source(path, text);
    }
}

/// Adds what the Trainers of other packages show: the framework's class, and that the loss may be another.
fn add_trainers(
    reading: &mut Reading,
    own: &[ModuleFile<'_>],
    found: &[OtherTrainer<'_>],
    names: &mut BTreeMap<String, Span>,
) {
    let mut add = |name: String, (at, (start, end)): (usize, (usize, usize))| {
        let file = reading.add_source(own[at].path, own[at].text);
        names.entry(name).or_insert(Span { file, start, end });
    };
    for other in found {
        add(other.class.to_owned(), other.arguments);
        if let Some(place) = other.trainer {
            add(format!("{TRAINER_DOUBT}{OTHER_LOSS}"), place);
        }
    }
}

/// Classes with the name of a framework's that the program declares itself, and makes of none of the framework's.
fn classes_of<'t>(texts: &[&[PythonToken<'t>]], wanted: &ConfigClasses<'_>) -> BTreeSet<&'t str> {
    let lines = texts
        .iter()
        .flat_map(|tokens| tokens.split(|t| t.kind == TokenKind::End));
    let own = lines.filter_map(|line| match line {
        [class, name, bases @ ..] if class.is("class") => {
            let mut bases = bases.iter();
            let is_of =
                |base: &PythonToken<'_>| wanted.classes.iter().any(|c| base.text.ends_with(c));
            (!bases.any(is_of)).then_some(name.text)
        }
        _ => None,
    });
    own.collect()
}

/// The folder from which the program of a call imports its modules. A module that `python -m` starts becomes the program, unless
/// its package is `shipped` with a stack.
fn imports_from(
    reading: &mut Reading,
    at: usize,
    files: &BTreeMap<String, String>,
    shipped: &BTreeSet<&str>,
) -> String {
    let call = &reading.calls[at];
    if let CallTarget::Module(name) = &call.target
        && !shipped.contains(package(name))
    {
        match started(name, call, files) {
            Ok(module) => {
                reading.calls[at].program = Some(module.path);
                return module.root;
            }
            Err(sought) => reading.sought.extend(sought),
        }
    }
    let program = reading.calls[at].program.as_deref();
    program.map_or_else(String::new, |path| folder_of_file(path).to_owned())
}

/// A file of the program of a call. The script may write it itself. The program's own file may be changed in a copy, and so may a
/// module of settings that it imports: `begin` is where it begins.
fn read_of<'f>(
    reading: &mut Reading,
    at: usize,
    file: ModuleFile<'f>,
    begin: Option<&Traced>,
) -> PythonFile<'f> {
    let is_of_settings = file.is_of_settings();
    let is_program = reading.calls[at].program.as_deref() == Some(file.path);
    let module = file.name.filter(|_| is_of_settings);
    let (path, tokens) = (file.path, file.tokens);
    if let Some(content) = reading.created.get(path) {
        let (content, can_change) = (content.clone(), true);
        return PythonFile {
            content,
            path,
            tokens,
            can_change,
            is_of_settings,
            is_program,
        };
    }
    let number = reading.add_source(path, file.text);
    let call = &reading.calls[at];
    let named = match is_program {
        true => call.script_word().map(|word| (word, FileRole::Program)),
        false => begin.zip(module.map(FileRole::Module)),
    };
    let named = named.filter(|_| can_move(&tokens));
    let named = named.map(|(word, role)| (word.clone(), role));
    let container = call.container.clone();
    let named =
        named.and_then(|(word, role)| reading.add_named(path, &word, role, container.as_ref()));
    PythonFile {
        content: Traced::file(number, file.text),
        path,
        tokens,
        can_change: named.is_some(),
        is_of_settings,
        is_program,
    }
}

/// The files of a program that say something of its options and settings.
fn files_of<'f>(
    reading: &mut Reading,
    at: usize,
    own: Vec<ModuleFile<'f>>,
    classes: &ConfigClasses<'_>,
) -> Vec<PythonFile<'f>> {
    let begin = begin_of(reading, at, &own);
    let matters = |f: &&ModuleFile<'_>| {
        f.is_of_settings() || PythonFile::matters(f.text, classes) || f.is_starred(&own)
    };
    let matters: BTreeSet<&str> = own.iter().filter(matters).map(|f| f.path).collect();
    // Without the files between, who reads the run again does not find them.
    for file in own.iter().rev() {
        let leads = own.iter().any(|inner| {
            let is_known = matters.contains(inner.path) || reading.number_of(inner.path).is_some();
            inner.by == Some(file.path) && is_known
        });
        if leads {
            reading.add_source(file.path, file.text);
        }
    }
    let own = own.into_iter().filter(|f| matters.contains(f.path));
    own.map(|file| read_of(reading, at, file, begin.as_ref()))
        .collect()
}

/// Where a program begins that can be copied, if one of its own files is a module of settings.
fn begin_of(reading: &mut Reading, at: usize, own: &[ModuleFile<'_>]) -> Option<Traced> {
    let (program, others) = own.split_first()?;
    let has_settings = others.iter().any(ModuleFile::is_of_settings);
    let is_given = !reading.created.contains_key(program.path);
    if !has_settings || !is_given || !can_move(&program.tokens) {
        return None;
    }
    let word = reading.calls[at].script_word()?.clone();
    reading.add_source(program.path, program.text);
    let container = reading.calls[at].container.clone();
    let number = reading.add_named(program.path, &word, FileRole::Program, container.as_ref())?;
    let begin = begin(&program.tokens);
    Some(Traced::file(number, program.text).slice(begin, begin))
}

/// Takes in the files of assignments that the words of a program name, in their order.
fn override_by_files(
    reading: &mut Reading,
    at: usize,
    files: &BTreeMap<String, String>,
    code: &mut ProgramCode,
) {
    let call = &reading.calls[at];
    let words = call.words.get(call.args..).unwrap_or_default().iter();
    let words = words.filter_map(|word| word.text.known());
    let names = words.filter(|word| word.ends_with(".py") && !word.starts_with('-'));
    let folder = call.folder.clone().unwrap_or_default();
    for name in names.collect::<Vec<_>>() {
        let path = joined(&folder, &name);
        let Some((path, text)) = files.get_key_value(&path) else {
            reading.sought.insert(path);
            code.leave_open();
            continue;
        };
        let number = reading.add_source(path, text);
        code.override_by(&PythonFile {
            content: Traced::file(number, text),
            path,
            tokens: tokens(text),
            can_change: false,
            is_of_settings: false,
            is_program: false,
        });
    }
}

/// Looks at the program of a call, which is among the files where it is there.
pub(super) fn look_at(
    reading: &mut Reading,
    at: usize,
    files: &BTreeMap<String, String>,
    (wanted, classes, shipped): (&BTreeSet<&str>, &ConfigClasses<'_>, &BTreeSet<&str>),
) {
    let root = imports_from(reading, at, files, shipped);
    let program = reading.calls[at].program.as_ref();
    if let Some((path, text)) = program.and_then(|path| files.get_key_value(path)) {
        let here = own_packages(&reading.calls[at]).unwrap_or_else(|| root.clone());
        let (own, sought) = modules((path, text), (&root, &here), files);
        let one_process = DeviceScript::is_of_one_process(text);
        let submits = submits(text);
        if one_process || submits {
            reading.add_source(path, text);
        }
        let texts: Vec<&[PythonToken<'_>]> = own.iter().map(|file| &*file.tokens).collect();
        // A copy of the framework beside the program declares the framework's own.
        let is_copy = |file: &&ModuleFile<'_>| {
            let mut parts = file.path.split(['/', '.']);
            parts.any(|part| shipped.contains(part))
        };
        let programs = own.iter().filter(|file| !is_copy(file));
        let programs: Vec<&[PythonToken<'_>]> = programs.map(|file| &*file.tokens).collect();
        let own_classes = classes_of(&programs, classes);
        let wanted = wanted.difference(&own_classes).copied().collect();
        reading.calls[at].trains = texts.iter().any(|text| calls_backward(text));
        let classes = &classes.of_program(&own_classes, &texts, reading.calls[at].trains);
        let mut names = names_of(reading, &own, &texts, &wanted);
        add_trainers(
            reading,
            &own,
            &other_trainers(&texts, &classes.classes, &own_classes),
            &mut names,
        );
        let reads = texts.iter().any(|text| reads_options(text));
        reading.calls[at].takes_no_words = !reads && reading.calls[at].own_texts().is_empty();
        if let Some(parser) = WholeParser::of(&texts) {
            reading.calls[at].refused = reading.calls[at].refused_by(&parser);
        }
        // What shows that a word is refused is stored with the run.
        if !reading.calls[at].refused.is_empty() {
            for file in &own {
                reading.add_source(file.path, file.text);
            }
        }
        let packages: Vec<_> = own.iter().map(|file| (file.path, file.text)).collect();
        let own = files_of(reading, at, own, classes);
        let mut code = (!own.is_empty()).then(|| ProgramCode::read(&own, classes));
        if let Some(code) = code.as_mut().filter(|code| code.is_configured_by_files()) {
            override_by_files(reading, at, files, code);
        }
        if let Some(class) = code.as_ref().and_then(|code| code.class.as_ref()) {
            reading.calls[at].take_unpacked(class);
        }
        if let Some(code) = &mut code {
            add_own_path(reading, at, files, &own, &code.options);
            let words = reading.calls[at].taken_words();
            code.add_evaluation(
                &own,
                words.get(reading.calls[at].args..).unwrap_or_default(),
            );
            code.keyed = keyed_settings(&own, reading, at, files);
            add_packages(reading, &code.keyed, &packages);
        }
        reading.calls[at].code = code;
        reading.sought.extend(sought);
        reading.calls[at].one_process = one_process;
        reading.calls[at].names = Some(names);
        if submits {
            reading.submits.insert(format!("submitit in {path}"));
        }
    }
    let words = reading.calls[at].words.iter().map(|w| w.text.text());
    let launches: Vec<String> = words.filter(|w| w.starts_with(HYDRA_LAUNCHER)).collect();
    reading.submits.extend(launches);
}
