//! The constants of a program that reads no options for them: `batch_size = 8`, or `batch_size: int = 8` in a class of settings,
//! where that is the only value that the name gets.

use std::collections::BTreeMap;

use super::code_value::{CodeValue, PythonFile};
use super::declared::is_divided;
use super::literal::product;
use super::loaded::load;
use super::local_variables::lines_of;
use super::python::{
    PythonToken, TokenKind, argument, arguments, block, calls, ends_block, functions_around,
    is_named, keyword, path_begin, rest_of_line,
};
use super::stars::{is_module_file, starred};
use oomctl_base::word_list;

/// By these names a program may give a variable any value.
const REBINDS: [&str; 3] = ["exec", "setattr", "globals"];

/// Methods by which the object that has settings gets other values (of dictionaries with attributes, and of yacs).
const FILLS: [&str; 6] =
    word_list("update merge_from_file merge_from_list merge_from_other_cfg merge __dict__");

/// Statements that begin so only tell a value.
const TELLS: [&str; 6] = ["print", "logger", "logging", "log", "wandb", "tqdm"];

/// A constant, and whether it is a batch of all GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constant {
    pub value: CodeValue,
    pub is_global: bool,
}

/// The constants of a program that trains by itself, by their names in small letters.
pub(super) fn constants(files: &[PythonFile<'_>]) -> BTreeMap<String, Constant> {
    // An imported module may have loops and settings of its own, but one of settings has those of the loop.
    let trained = files.iter().any(|f| trains(&f.tokens));
    let mut found = given_once(files, |f| trains(&f.tokens) || trained && f.is_of_settings);
    let batches = loaded_batches(files);
    let named = named_batch(&batches).and_then(|name| found.get(&name.to_lowercase()).cloned());
    if let Some(constant) = named {
        found.entry(BATCH.to_owned()).or_insert(constant);
    }
    if !may_rebind(files) {
        for (key, constant) in loaded(&batches) {
            found.entry(key.to_owned()).or_insert(constant);
        }
    }
    found
}

/// The constants of a program's modules of settings, which no file of settings replaces.
pub(super) fn settings(files: &[PythonFile<'_>]) -> BTreeMap<String, Constant> {
    match files.iter().any(|f| f.is_of_settings) && !load(files) {
        true => given_once(files, |f| f.is_of_settings),
        false => BTreeMap::new(),
    }
}

/// The constants of some files that nothing else in the program gives a value, by their names in small letters.
fn given_once<'t>(
    files: &[PythonFile<'t>],
    counts: impl Fn(&PythonFile<'t>) -> bool,
) -> BTreeMap<String, Constant> {
    let (mut found, mut several) = (BTreeMap::new(), Vec::new());
    if may_rebind(files) {
        return found;
    }
    for file in files.iter().filter(|f| counts(f)) {
        for (at, name, value) in (0..file.tokens.len()).filter_map(|at| given(file, at)) {
            let key = name.to_lowercase();
            let divided =
                |f: &PythonFile<'_>| [false, true].map(|a| is_divided(&f.tokens, name, a));
            let of_class = block(&file.tokens, at).is_some_and(|(_, word)| word == "class");
            let own = functions_around(&file.tokens, at).next();
            let own = own.map(|(begin, _)| (file.path, begin));
            let seen: Vec<_> = files.iter().flat_map(|f| lines_of(f, name, own)).collect();
            let lines = || seen.iter().copied();
            let Some(value) = CodeValue::written(file, value) else {
                continue;
            };
            let constant = Constant {
                is_global: files.iter().flat_map(divided).any(|is| is),
                value: CodeValue {
                    is_own: value.is_own && !lines().any(|line| carries(line, name, false)),
                    ..value
                },
            };
            let times = lines().map(|line| sets(line, name, of_class));
            let trains = lines().any(|line| is_of_training(line, name));
            let filled = file.is_of_settings && is_filled(files, name);
            if times.sum::<usize>() != 1
                || !trains
                || filled
                || found.insert(key.clone(), constant).is_some()
            {
                several.push(key);
            }
        }
    }
    found.retain(|key, _| !several.contains(key));
    found
}

/// Whether a call may give other values to an object as whose attribute a name is looked up.
fn is_filled(files: &[PythonFile<'_>], name: &str) -> bool {
    let after = |wanted: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let triples = files.iter().flat_map(|f| f.tokens.windows(3));
        let of =
            triples.filter(|w| w[0].kind == TokenKind::Name && w[1].is(".") && wanted(w[2].text));
        of.map(|w| w[0].text).collect()
    };
    let objects = after(&|attribute| attribute == name);
    let filled = after(&|attribute| FILLS.contains(&attribute));
    filled.iter().any(|object| objects.contains(object))
}

/// Calls that take a batch, of PyTorch and of Keras.
const LOADERS: [&str; 5] =
    word_list("DataLoader fit flow flow_from_directory image_dataset_from_directory");

/// The options for which the batches of such calls stand: of training, and of an evaluation.
pub(super) const BATCH: &str = "batch_size";
pub(super) const EVAL_BATCH: &str = "eval_batch_size";

/// Libraries whose trainers go through the data that they are handed.
const TRAINERS: [&str; 4] = word_list("keras tensorflow lightning pytorch_lightning");

/// Whether a text trains by itself: with PyTorch's `backward`, or the `fit` of Keras and of Lightning, whose data may stand in a
/// module of its own.
pub(super) fn trains(tokens: &[PythonToken<'_>]) -> bool {
    let trainer = |t: &PythonToken<'_>| TRAINERS.iter().any(|name| t.is(name));
    let of_library = || tokens.iter().any(trainer);
    let fits = || calls(tokens, |t| t.is("fit")).next().is_some();
    let gives_data = || tokens.iter().any(|t| t.is("train_dataloader"));
    tokens.iter().any(|t| t.is("backward")) || of_library() && (fits() || gives_data())
}

/// A batch where data is loaded.
pub(super) struct LoadedBatch<'s, 't> {
    /// The option that it stands for.
    pub key: &'static str,
    pub file: &'s PythonFile<'t>,
    /// What is given, or the name of a call that is given none.
    pub value: &'s [PythonToken<'t>],
    /// Nothing is given: PyTorch's `DataLoader` takes one sample at a time.
    pub is_default: bool,
}

/// The batches that are handed to calls which load data (`DataLoader(data, batch_size=32)`): for training where the text trains, for an
/// evaluation anywhere.
pub(super) fn loaded_batches<'s, 't>(files: &'s [PythonFile<'t>]) -> Vec<LoadedBatch<'s, 't>> {
    let batches = files.iter().flat_map(|file| {
        let tokens = &file.tokens;
        let trains = trains(tokens);
        let loads = |t: &PythonToken<'_>| LOADERS.contains(&t.text) || t.text.ends_with(LOADERS[0]);
        calls(tokens, loads).filter_map(move |at| {
            let all = arguments(&tokens[at + 2..]);
            // Keras' `fit` is given data to validate on as well.
            let key = match is_beside(tokens, at) && !tokens[at].is("fit") {
                true => EVAL_BATCH,
                false => BATCH,
            };
            let given = keyword(&all, BATCH);
            let keyed = |name: &str| keyword(&all, name).is_some();
            let spread = || all.iter().any(|a| a.first().is_some_and(|t| t.is("*")));
            let plain = || tokens[at].is(LOADERS[0]) && all.first().is_some_and(|a| !is_named(a));
            let second = || all.get(1).is_some_and(|a| !is_named(a));
            let is_default = given.is_none()
                && key == EVAL_BATCH
                && plain()
                && !(second() || keyed("batch_sampler") || spread());
            let value = given.or(is_default.then_some(&tokens[at..=at]))?;
            (trains || key == EVAL_BATCH).then_some(LoadedBatch {
                key,
                file,
                value,
                is_default,
            })
        })
    });
    batches.collect()
}

/// Whether a call loads data for something beside training, as far as the name of its function, what its statement says before it,
/// and the name of its data tell.
fn is_beside(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let ends = |t: &PythonToken<'_>| t.kind == TokenKind::End || t.is(";");
    let before = tokens[..at].iter().rposition(ends);
    let begin = before.map_or(0, |end| end + 1);
    let function = block(tokens, at).filter(|(_, word)| *word == "def");
    let function = function.and_then(|(begin, _)| tokens.get(begin + 1));
    let all = arguments(&tokens[at + 2..]);
    let data = argument(&all, "dataset", 0).unwrap_or_default();
    let mut names = function.into_iter().chain(&tokens[begin..at]).chain(data);
    names.any(|t| t.kind == TokenKind::Name && is_aside(t.text))
}

/// The name of the option that gives training its batch where data is loaded: `args.samples` in each place.
pub(super) fn loaded_option<'t>(files: &[PythonFile<'t>]) -> Option<&'t str> {
    let all = loaded_batches(files);
    let training = all.iter().filter(|loaded| loaded.key == BATCH);
    let mut names = training.map(|loaded| match loaded.value {
        [_, dot, name] if dot.is(".") => Some(name.text),
        _ => None,
    });
    let first = names.next()??;
    names.all(|other| other == Some(first)).then_some(first)
}

/// The batches that are written out where data is loaded, by the options that they stand for: where there is one.
fn loaded(all: &[LoadedBatch<'_, '_>]) -> Vec<(&'static str, Constant)> {
    let is_number =
        |value: &[PythonToken<'_>]| matches!(value, [one] if one.kind == TokenKind::Number);
    let written = all.iter().filter(|loaded| is_number(loaded.value));
    let single = |key: &str| {
        let same = written.clone().filter(|other| other.key == key);
        same.count() == 1
    };
    let constants = written.clone().filter(|loaded| single(loaded.key));
    let constants = constants.map(|loaded| {
        let value = CodeValue::literal(loaded.file, &loaded.value[0]);
        let is_global = false;
        (loaded.key, Constant { value, is_global })
    });
    constants.collect()
}

/// The one name that gives training its batch where data is loaded.
fn named_batch<'t>(all: &[LoadedBatch<'_, 't>]) -> Option<&'t str> {
    let training = all.iter().filter(|loaded| loaded.key == BATCH);
    let mut values = training.map(|loaded| loaded.value);
    let first = match values.next()? {
        [name] if name.kind == TokenKind::Name => name.text,
        _ => return None,
    };
    values
        .all(|other| matches!(other, [name] if name.is(first)))
        .then_some(first)
}

/// Whether a program may give a name a value where nobody sees it.
pub(super) fn may_rebind(files: &[PythonFile<'_>]) -> bool {
    let by_name = |f: &PythonFile<'_>| {
        let mut names = f.tokens.iter().filter(|t| t.kind == TokenKind::Name);
        names.any(|t| REBINDS.contains(&t.text))
    };
    let is_read = |module: &str| files.iter().any(|f| is_module_file(f.path, module));
    let stars = |f: &PythonFile<'_>| starred(&f.tokens).any(|module| !is_read(module));
    files.iter().any(|f| by_name(f) || stars(f))
}

/// `name = 8` or `name: int = 8`, a statement of its own that no condition guards, whose name stands at `at`.
fn given<'s, 't>(
    file: &'s PythonFile<'t>,
    at: usize,
) -> Option<(usize, &'t str, &'s [PythonToken<'t>])> {
    let tokens = &file.tokens;
    let rest = match &tokens[at..] {
        [_, equals, rest @ ..] if equals.is("=") => rest,
        [_, colon, _, equals, rest @ ..] if colon.is(":") && equals.is("=") => rest,
        _ => return None,
    };
    let value = rest_of_line(rest);
    let is_known = matches!(value, [one] if is_plain(one)) || product(value).is_some();
    (is_known && is_fixed_here(file, at)).then(|| (at, tokens[at].text, value))
}

/// Whether a statement that begins at `at` with a name gives it a value once and for all: outside of functions, in a class of
/// settings that nobody fills, or in the function that trains. In a module of settings it may be an attribute (`cfg.TRAIN.lr = 1`),
/// also of what a class makes.
pub(super) fn is_fixed_here(file: &PythonFile<'_>, at: usize) -> bool {
    let tokens = &file.tokens;
    let is_end = |at: usize| tokens[at].kind == TokenKind::End;
    let begin = match file.is_of_settings {
        true => path_begin(tokens, at),
        false => at,
    };
    let begins = begin.checked_sub(1).is_none_or(is_end);
    if !begins || tokens[at].kind != TokenKind::Name {
        return false;
    }
    match block(tokens, at) {
        None => true,
        Some((begin, "class")) => {
            let name = tokens.get(begin + 1).map_or("", |t| t.text);
            let filled = |at: usize| !arguments(&tokens[at + 2..]).iter().all(|a| is_named(a));
            // pydantic-settings fills it from the environment.
            let header = rest_of_line(&tokens[begin..]);
            !header.iter().any(|t| t.is("BaseSettings"))
                && !is_aside(name)
                && !calls(tokens, |t| t.is(name)).any(filled)
        }
        Some((begin, "def")) if file.is_of_settings => {
            let is_class =
                |begin: usize| block(tokens, begin).is_some_and(|(_, word)| word == "class");
            tokens.get(begin + 1).is_some_and(|t| t.is("__init__")) && is_class(begin)
        }
        // The function that trains.
        Some((begin, "def")) => {
            let end = (at..tokens.len())
                .find(|end| tokens[*end].kind == TokenKind::End && ends_block(tokens, begin, *end));
            let inside = &tokens[begin..end.unwrap_or(tokens.len())];
            let names = ["backward", "fit"];
            trains(tokens) && inside.iter().any(|t| names.contains(&t.text))
        }
        Some(_) => false,
    }
}

/// Words of what runs beside training.
const ASIDE: [&str; 9] = [
    "eval", "val", "test", "infer", "embed", "predict", "generat", "token", "cache",
];

/// Whether a name is of something beside training.
pub(super) fn is_aside(name: &str) -> bool {
    let name = name.to_lowercase();
    ASIDE.iter().any(|word| name.contains(word))
}

/// Whether a statement uses a constant, and for training as far as its words tell.
fn is_of_training(line: &[PythonToken<'_>], name: &str) -> bool {
    // The name of an argument is none of the constant's uses.
    let uses = (1..line.len()).any(|at| {
        let is_argument = line.get(at + 1).is_some_and(|t| t.is("="));
        line[at].is(name) && !is_argument
    });
    uses && !runs_aside(line)
}

/// Whether the words of a statement say that it runs beside training.
pub(super) fn runs_aside(line: &[PythonToken<'_>]) -> bool {
    let aside = |t: &PythonToken<'_>| t.is("map") || t.kind == TokenKind::Name && is_aside(t.text);
    line.iter().any(aside)
}

/// Whether a value is a number or a truth value.
pub(super) fn is_plain(value: &PythonToken<'_>) -> bool {
    value.kind == TokenKind::Number || value.is("True") || value.is("False")
}

/// How often a statement gives a name a value. A named argument is one where the name is that `of_class`, or of a function, unless
/// it hands the same name on.
fn sets(line: &[PythonToken<'_>], name: &str, of_class: bool) -> usize {
    let is =
        |at: Option<usize>, text: &str| at.and_then(|at| line.get(at)).is_some_and(|t| t.is(text));
    let operators = ["+", "-", "*", "/", "%", ":"];
    let declares = line
        .first()
        .is_some_and(|t| ["def", "async"].contains(&t.text));
    let loops = line.iter().any(|t| t.is("for"));
    let mut depth = 0_usize;
    let mut count = 0;
    for (at, token) in line.iter().enumerate() {
        depth = token.depth_after(depth);
        if token.kind != TokenKind::Name || token.text.to_lowercase() != name.to_lowercase() {
            continue;
        }
        let mut next = at + 1;
        while operators.iter().any(|o| is(Some(next), o)) {
            next += 1;
        }
        let annotated = is(Some(at + 1), ":") && is(Some(at + 3), "=") && depth == 0;
        let equals = is(Some(next), "=") && !is(Some(next + 1), "=");
        let attribute = is(at.checked_sub(1), ".");
        let argument = depth > 0 && next == at + 1 && !attribute;
        let handed_on = || {
            let rest = line[next + 1..]
                .iter()
                .take_while(|t| !t.is(",") && !t.is(")"));
            rest.last().is_some_and(|t| t.text == token.text)
        };
        let parameter = declares && depth > 0 && !equals && !attribute;
        let given = match argument {
            true if parameter => true,
            true => equals && (of_class || declares) && !handed_on(),
            false => equals || annotated,
        };
        let bound = is(at.checked_sub(1), "as") || loops && is(Some(at + 1), "in");
        count += usize::from(given || bound);
    }
    count
}

/// Whether a statement carries a value into something else that must stay: a name of a file or of a run, a learning rate. The value
/// is that of a name, or of a key.
pub(super) fn carries(line: &[PythonToken<'_>], name: &str, is_key: bool) -> bool {
    let first = line.first().map_or("", |t| t.text);
    let in_text = |t: &PythonToken<'_>| {
        t.kind == TokenKind::Other && t.text.len() > name.len() && t.text.contains(name)
    };
    let rate = ["lr", "learning", "warmup"]
        .iter()
        .any(|word| first.contains(word));
    let is = |t: &PythonToken<'_>| t.text == name && (t.kind == TokenKind::Text) == is_key;
    let named = || line.iter().skip(1).any(is);
    !TELLS.contains(&first) && line.iter().any(in_text) || rate && named()
}
