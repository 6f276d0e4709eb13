//! Code that was not read and that a program hands the settings of its Trainer to, or takes them from.

use std::collections::BTreeSet;

use super::accumulation::assigned_to;
use super::python::{PythonToken, TokenKind, arguments, calls, line_of, statements};
use oomctl_base::word_list;

/// Packages of Python itself.
const STANDARD: [&str; 96] = word_list(
    "__future__ abc argparse array ast asyncio atexit base64 bisect builtins bz2 cProfile code codecs collections concurrent \
     configparser contextlib copy csv ctypes dataclasses datetime decimal difflib dis email enum errno fcntl fnmatch fractions \
     functools gc getpass glob gzip hashlib heapq html http importlib inspect io itertools json locale logging lzma math \
     multiprocessing numbers operator os pathlib pickle pkgutil platform pprint queue random re resource secrets select shlex shutil \
     signal site socket sqlite3 ssl stat statistics string struct subprocess sys tarfile tempfile textwrap threading time timeit \
     traceback types typing unicodedata unittest urllib uuid warnings weakref xml zipfile zlib",
);
/// Packages that leave the settings of a Trainer as they are.
const LIBRARIES: [&str; 118] = word_list(
    "absl accelerate adapters aim aiohttp albumentations apex attr attrs av bitsandbytes boto3 click colorama comet_ml cv2 datasets \
     decord deepspeed diffusers docx dotenv einops evaluate faiss fastapi filelock fire flash_attn fsspec ftfy google gradio h5py \
     httpx huggingface_hub hydra imageio jieba jinja2 jiwer joblib jsonlines latex2sympy2_extended librosa liger_kernel lightning \
     lmdb loguru lxml math_verify matplotlib mlflow monai neptune networkx nltk numpy nvidia omegaconf openai optimum orjson \
     packaging pandas peft PIL psutil pyarrow pycocotools pydantic pytorch_lightning qwen_vl_utils ray regex requests rich rouge \
     rouge_score sacrebleu safetensors scipy seaborn sentence_transformers sentencepiece seqeval sglang sklearn soundfile spacy \
     swanlab sympy tabulate tensorboard tensorboardX tensorflow termcolor tiktoken timm tokenizers torch torchaudio torchmetrics \
     torchvision tqdm transformers triton trl typer typing_extensions tyro ujson vllm wandb xformers yaml zmq zstandard",
);
/// Calls that run code of another file.
const RUNS: [&str; 6] =
    word_list("exec import_module __import__ run_path run_module spec_from_file_location");

/// The first place where the settings of a Trainer meet code that was not read: the file and the token. `is_read` says of a
/// module whether it was.
pub(super) fn unread_code(
    files: &[&[PythonToken<'_>]],
    is_read: impl Fn(&str) -> bool,
) -> Option<(usize, usize)> {
    let mut settings: BTreeSet<&str> = files.iter().flat_map(|tokens| settings(tokens)).collect();
    // Without a Trainer here nothing is known anyway.
    if settings.is_empty() {
        return None;
    }
    settings.insert("parser");
    files.iter().enumerate().find_map(|(file, tokens)| {
        let unread = Imported::unread(tokens, &is_read);
        let runs = calls(tokens, |t| RUNS.contains(&t.text)).next();
        let met = || unread.met(tokens, &settings);
        let at = runs.or(unread.for_its_effects).or_else(met)?;
        Some((file, at))
    })
}

/// The names that a text hands over as the settings of a Trainer: `args=training_args`.
fn settings<'t>(tokens: &[PythonToken<'t>]) -> Vec<&'t str> {
    let handed = tokens.windows(4).filter(|w| {
        let ends = w[3].is(",") || w[3].is(")");
        w[0].is("args") && w[1].is("=") && is_name(&w[2]) && ends
    });
    handed
        .map(|w| w[2].text)
        .filter(|name| *name != "None")
        .collect()
}

/// What a text imports from code that was not read.
struct Imported<'t> {
    /// The names.
    names: BTreeSet<&'t str>,
    /// The first module of it that is imported and never named again.
    for_its_effects: Option<usize>,
}

impl<'t> Imported<'t> {
    fn unread(tokens: &[PythonToken<'t>], is_read: &impl Fn(&str) -> bool) -> Self {
        let mut found = Self {
            names: BTreeSet::new(),
            for_its_effects: None,
        };
        let mut begin = 0;
        for statement in statements(tokens) {
            match statement {
                [from, rest @ ..] if from.is("from") => {
                    let import = rest.iter().position(|t| t.is("import")).unwrap_or(0);
                    let (module, names) = rest.split_at(import);
                    if is_unread(module, is_read) {
                        let names = names.iter().skip(1);
                        found
                            .names
                            .extend(names.filter(|t| is_name(t)).map(|t| t.text));
                    }
                }
                [import, rest @ ..] if import.is("import") => {
                    for module in rest.split(|t| t.is(",")) {
                        if is_unread(module, is_read) {
                            found.take_module(tokens, begin, module);
                        }
                    }
                }
                // A class that is made of one of its classes does what that does.
                [class, name, bases @ ..]
                    if class.is("class") && bases.iter().any(|t| found.names.contains(t.text)) =>
                {
                    found.names.insert(name.text);
                }
                _ => {}
            }
            begin += statement.len() + 1;
        }
        found
    }

    /// `import lab.tools as tools`, in the statement that begins at a place.
    fn take_module(
        &mut self,
        tokens: &[PythonToken<'t>],
        begin: usize,
        module: &[PythonToken<'t>],
    ) {
        let named = module.iter().filter(|t| is_name(t));
        let named = [named.clone().next(), named.clone().next_back()];
        let named: Vec<&'t str> = named.into_iter().flatten().map(|t| t.text).collect();
        let is_used = |name: &&str| tokens.iter().filter(|t| t.is(name)).count() > 1;
        if !named.iter().any(is_used) {
            self.for_its_effects.get_or_insert(begin);
        }
        self.names.extend(named);
    }

    /// The first of the names that meets settings: it is called with them, gives them, is a callback of a Trainer, or decorates
    /// what takes them.
    fn met(&self, tokens: &[PythonToken<'t>], settings: &BTreeSet<&str>) -> Option<usize> {
        let is_own = |at: usize| {
            let after_dot = at > 0 && tokens[at - 1].is(".");
            is_name(&tokens[at]) && !after_dot && self.names.contains(tokens[at].text)
        };
        (0..tokens.len()).filter(|at| is_own(*at)).find(|at| {
            is_called_with(tokens, *at, settings)
                || gives(tokens, *at, settings)
                || is_callback(tokens, *at)
                || decorates(tokens, *at, settings)
        })
    }
}

fn is_name(token: &PythonToken<'_>) -> bool {
    token.kind == TokenKind::Name
}

/// Whether a name stands in a decorator of a function that takes settings.
fn decorates(tokens: &[PythonToken<'_>], at: usize, settings: &BTreeSet<&str>) -> bool {
    let mut below = statements(&tokens[line_of(tokens, at)..]);
    let is_first = |statement: &[PythonToken<'_>]| statement.first().is_some_and(|t| t.is("@"));
    if !below.next().is_some_and(is_first) {
        return false;
    }
    let function = below
        .find(|statement| !is_first(statement))
        .unwrap_or_default();
    function.iter().any(|t| settings.contains(t.text))
}

/// Whether a module that is imported is of no library, and was not read.
fn is_unread(module: &[PythonToken<'_>], is_read: impl Fn(&str) -> bool) -> bool {
    let module: Vec<&PythonToken<'_>> = module.iter().take_while(|t| !t.is("as")).collect();
    let mut names = module.iter().filter(|t| is_name(t));
    let Some(package) = names.clone().next() else {
        return false;
    };
    let known = [&STANDARD[..], &LIBRARIES];
    let is_known = known.iter().any(|all| all.contains(&package.text));
    let is_relative = module.first().is_some_and(|t| t.is("."));
    !is_known && !is_relative && !names.any(|name| is_read(name.text))
}

/// Whether the call that begins with a name is given settings: `prepare(args)`, `tools.CoTrainer(model, args=args)`.
fn is_called_with(tokens: &[PythonToken<'_>], at: usize, settings: &BTreeSet<&str>) -> bool {
    let Some(open) = opens(tokens, at) else {
        return false;
    };
    let is_settings = |t: &PythonToken<'_>| settings.contains(t.text);
    arguments(&tokens[open + 1..])
        .iter()
        .any(|argument| match argument {
            [one] => is_settings(one),
            [_, equals, one] => equals.is("=") && is_settings(one),
            _ => false,
        })
}

/// The bracket of the call that begins with a name.
fn opens(tokens: &[PythonToken<'_>], at: usize) -> Option<usize> {
    let path = |t: &PythonToken<'_>| is_name(t) || t.is(".");
    let after = tokens[at..].iter().position(|t| !path(t))?;
    tokens[at + after].is("(").then_some(at + after)
}

/// Whether settings get what a name gives: `args = get_args()`.
fn gives(tokens: &[PythonToken<'_>], at: usize, settings: &BTreeSet<&str>) -> bool {
    let Some(left) = assigned_to(tokens, at) else {
        return false;
    };
    let is_first = line_of(tokens, at) + left.len() + 1 == at;
    is_first && opens(tokens, at).is_some() && left.iter().any(|t| settings.contains(t.text))
}

/// Whether a name stands among `callbacks=[…]`.
fn is_callback(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let mut before = tokens[..at]
        .iter()
        .rev()
        .take_while(|t| t.kind != TokenKind::End);
    let open = before.by_ref().find(|t| !t.is(",") && !is_name(t));
    open.is_some_and(|t| t.is("["))
        && before.next().is_some_and(|t| t.is("="))
        && before.next().is_some_and(|t| t.is("callbacks"))
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    fn is_found(text: &str) -> bool {
        let text = format!("{text}\nTrainer(model=m, args=args, train_dataset=d).train()\n");
        unread_code(&[&tokens(&text)], |module| module == "mine").is_some()
    }

    #[test]
    fn settings_that_meet_code_which_was_not_read_are_found() {
        let import =
            "from lab.tools import get_args, prepare, Co, configured\nimport lab.more as more";
        for text in [
            "args = get_args()",
            "args = prepare(args, 3)",
            "more.fix(args)",
            "t = Co(model=m, args=args)",
            "t = Trainer(model=m, args=args, callbacks=[Co()])",
            "class Mine(Co): pass\nt = Mine(model=m, args=args)",
            "import os, lab.kit\nlab.kit.set(args)",
            "@configured(TrainingArguments)\ndef main(args): pass",
            "parse = prepare(parser)",
        ] {
            assert!(is_found(&format!("{import}\n{text}")), "{text}");
        }
        for text in [
            "import lab.patch",
            "exec(open('a.py').read())",
            "import_module('a')",
        ] {
            assert!(is_found(text), "{text}");
        }
    }

    #[test]
    fn what_is_known_read_or_given_no_settings_is_let_be() {
        for text in [
            "import torch.nn as nn\nimport numpy as np\nx = nn.Linear(args)",
            "from mine import prepare\nargs = prepare(args)",
            "from . import prepare\nargs = prepare(args)",
            "import lab.op as op\nclass D(op.Data): pass\n@op.trace\ndef score(x): pass\nd = D(data_args)",
            "from lab.data import load, score\nd = load(data_args.path)\nt = Trainer(model=m, args=args, compute_metrics=score)",
        ] {
            assert!(!is_found(text), "{text}");
        }
    }
}
