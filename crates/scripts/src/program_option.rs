//! The options of a program.

use std::collections::BTreeSet;

use super::code_value::CodeValue;
use super::overwritten::{default_set, overwritten};
use super::program_text::{CodeFiles, of_option};

/// An option that a program declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgramOption {
    /// Its first long form.
    pub flag: String,
    /// All its forms.
    pub forms: Vec<String>,
    /// Its default.
    pub value: CodeValue,
    /// What it counts is of all GPUs together.
    pub is_global: bool,
}

impl ProgramOption {
    /// It is a variable of the program, to which words give another value.
    pub(super) fn is_variable(&self) -> bool {
        self.flag.ends_with('=')
    }
}

/// The options of a program, and those that it reads from variables.
pub(super) fn options(text: &CodeFiles<'_, '_>, reads_variables: bool) -> Vec<ProgramOption> {
    let of_program = text.options.iter().filter(|(file, _)| file.is_program);
    let own = of_program.flat_map(|(_, options)| options.iter().map(|o| &*o.flag));
    let own: BTreeSet<&str> = own.collect();
    let declared = text.options.iter().flat_map(|(file, options)| {
        // Another file has it for a tool of its own.
        let options = options.iter();
        let options = options.filter(|o| file.is_program || !own.contains(&*o.flag));
        options.map(|option| ProgramOption {
            flag: option.flag.clone(),
            forms: option.forms.clone(),
            value: overwritten(text.files, option).unwrap_or_else(|| {
                let declared = of_option(file, option);
                match default_set(text.files, option) {
                    Some(set) => CodeValue {
                        option: declared.option,
                        off: declared.off,
                        choices: declared.choices,
                        is_truth: declared.is_truth,
                        may_take_value: declared.may_take_value,
                        is_own: false,
                        ..set
                    },
                    None => declared,
                }
            }),
            is_global: option.is_global,
        })
    });
    let mut all: Vec<ProgramOption> = declared.collect();
    if reads_variables {
        for read in text.read_variables() {
            let is_other = |o: &ProgramOption| o.flag != read.flag || o.forms.is_empty();
            if all.iter().all(is_other) {
                all.push(ProgramOption {
                    flag: read.flag,
                    forms: Vec::new(),
                    value: read.value,
                    is_global: read.is_global,
                });
            }
        }
    }
    all
}
