//! Values that the text of a program gives to names by itself, for which it may have no option: `batch_size = 16`,
//! `cpu_offload = False`.

use serde::{Deserialize, Serialize};

use super::constants::runs_aside;
use super::imports::ModuleFile;
use super::python::{PythonToken, TokenKind, calls_backward, line_of};
use super::spelling::OF_EVALUATION;
use oomctl_base::{line_and_column, word_list};

/// Short names of batches; the others end in `batch_size`.
const NAMES: [&str; 3] = ["batchsize", "bs", "bsz"];
/// What a program uses that reads options.
const OPTIONS: [&str; 20] = word_list(
    "add_argument ArgumentParser HfArgumentParser TrlParser click typer fire hydra absl gin argv docopt tyro parse_args \
     parse_known_args OmegaConf simple_parsing configargparse jsonargparse LightningCLI",
);
/// What a program uses that reads a file of settings.
const LOADS: [&str; 6] = word_list("yaml toml OmegaConf merge_from_file cfg_from_file load_config");
/// Most of them that are kept.
const MOST: usize = 32;

/// Parts of the names of switches that free memory of a GPU.
const SWITCHES: [&str; 2] = ["offload", "checkpointing"];

/// A value that the text of a program gives a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberInProgram {
    /// The name, in small letters.
    pub name: String,
    /// It is an inference engine's share of a GPU, else a batch.
    #[serde(default)]
    pub is_share: bool,
    /// It is a switch that is off and would free memory of a GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_switch: bool,
    /// It is a device for a part of what the program holds, and names a GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_device: bool,
    /// It is a field of settings, and the program loads a file of settings, which may give it another value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// `batch_size = 16`.
    pub text: String,
    /// File and line.
    pub place: String,
}

/// What a program has in its own text, where nobody can give it from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InProgram {
    /// Numbers of batches and shares, those of the started file first.
    pub numbers: Vec<NumberInProgram>,
    /// It was read and reads no options.
    pub no_options: bool,
    /// It computes gradients itself: no framework runs its steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trains: bool,
}

impl NumberInProgram {
    /// Whether its name is of an evaluation.
    pub fn is_of_evaluation(&self) -> bool {
        self.name
            .split('_')
            .any(|part| OF_EVALUATION.contains(&part))
    }
}

impl InProgram {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a program with these files has in its own text.
pub(super) fn in_program(files: &[ModuleFile<'_>]) -> InProgram {
    let mut numbers: Vec<NumberInProgram> = Vec::new();
    let mut tokens = files.iter().flat_map(|file| &file.tokens);
    let loads = tokens.any(|t| t.kind == TokenKind::Name && LOADS.contains(&t.text));
    for file in files {
        let field = |from: usize| loads && file.text[..from].ends_with('.');
        let found = (0..file.tokens.len()).filter_map(|at| number(&file.tokens, at));
        for (name, (from, to)) in found {
            let text = file.text.get(from..to).unwrap_or_default();
            let line = line_and_column(file.text, from).0;
            numbers.push(NumberInProgram {
                is_share: is_share(&name),
                is_switch: is_switch(&name),
                is_device: is_device(&name),
                is_default: field(from),
                name,
                text: text.split_whitespace().collect::<Vec<_>>().join(" "),
                place: format!("{}:{line}", file.path),
            });
        }
    }
    numbers.truncate(MOST);
    InProgram {
        numbers,
        no_options: !files.iter().any(|file| reads_options(&file.tokens)),
        trains: files.iter().any(|file| calls_backward(&file.tokens)),
    }
}

/// Whether the text of a program uses something that reads options.
pub(super) fn reads_options(tokens: &[PythonToken<'_>]) -> bool {
    let reads = |t: &PythonToken<'_>| t.kind == TokenKind::Name && OPTIONS.contains(&t.text);
    tokens.iter().any(reads)
}

/// Whether a name is of the share of a GPU that an inference engine takes.
fn is_share(name: &str) -> bool {
    name.ends_with("memory_utilization") || name.starts_with("mem_frac")
}

/// Whether a name is of a switch that frees memory of a GPU.
fn is_switch(name: &str) -> bool {
    SWITCHES.iter().any(|part| name.contains(part))
}

/// Whether a name is of the device of something: `data_device`. A bare `device` is that of all.
fn is_device(name: &str) -> bool {
    name.ends_with("_device")
}

/// `name = 8` or `name: int = 8` at `at`, a statement, a field of a class or an argument of a call: the name, and the bytes. A
/// batch of 1 can be no lower.
fn number(tokens: &[PythonToken<'_>], at: usize) -> Option<(String, (usize, usize))> {
    let name = tokens[at].text.to_lowercase();
    let is_batch = name.ends_with("batch_size") || NAMES.contains(&name.as_str());
    let is_known = is_share(&name) || is_switch(&name) || is_device(&name) || is_batch;
    if tokens[at].kind != TokenKind::Name || !is_known {
        return None;
    }
    let (value, end) = match &tokens[at + 1..] {
        [equals, value, end, ..] if equals.is("=") => (value, end),
        [colon, _, equals, value, end, ..] if colon.is(":") && equals.is("=") => (value, end),
        _ => return None,
    };
    let line = &tokens[line_of(tokens, at)..at];
    let declares = line.iter().any(|t| t.is("def") || t.is("add_argument"));
    let ends = end.kind == TokenKind::End || [",", ")", ";"].iter().any(|mark| end.is(mark));
    let is_told = match is_switch(&name) {
        true => value.is("False"),
        false if is_device(&name) => {
            value.kind == TokenKind::Text && value.text.starts_with("cuda")
        }
        false => value.kind == TokenKind::Number && !(is_batch && value.is("1")),
    };
    let is_own = ends && !declares && !runs_aside(line);
    (is_told && is_own).then_some((name, (tokens[at].from, value.to)))
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn a_field_of_settings_is_a_default_where_the_program_loads_a_file() {
        let is_default = |text: &str| {
            let file = (&"config.py".to_owned(), &text.to_owned());
            let found = in_program(&[ModuleFile::started(file)]);
            found
                .numbers
                .iter()
                .map(|n| n.is_default)
                .collect::<Vec<_>>()
        };
        let fields = "C.TRAIN.batch_size = 8\nbatch_size = 4\n";
        assert_eq!(is_default(fields), [false, false]);
        assert_eq!(is_default(&format!("import yaml\n{fields}")), [true, false]);
    }

    #[test]
    fn numbers_are_found_below_the_main_guard_in_classes_and_in_calls() {
        let text = "class Config:\n  gpu_memory_utilization: float = 0.75\n  name: str = 'a'\nif __name__ == '__main__':\n  \
            BATCH_SIZE = 16\n  main(batch_size=BATCH_SIZE)\nx = DataLoader(d, batch_size=4, shuffle=True)\n\
            val_loader = DataLoader(d, batch_size=2)\nval_batch_size: int=1\ncpu_offload: bool=False\nuse_checkpointing = True\ndef f(batch_size=8): pass\nbatch_size = 4 * 2\nbatch_size = ";
        let all = tokens(text);
        let found = (0..all.len()).filter_map(|at| number(&all, at));
        let found: Vec<&str> = found.map(|(_, (from, to))| &text[from..to]).collect();
        let expected = [
            "gpu_memory_utilization: float = 0.75",
            "BATCH_SIZE = 16",
            "batch_size=4",
            "cpu_offload: bool=False",
        ];
        assert_eq!(found, expected);
    }
}
