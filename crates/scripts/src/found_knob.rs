//! A value of a knob as it is found in a submission.

use super::settings::SettingsFormat;
use super::traced::{Span, Traced, Why};
use oomctl_base::Value;

/// In which form a value is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnobForm {
    /// A Hydra override; `added` where it has a sign.
    Override {
        /// With `+` or `++`.
        added: bool,
    },
    /// A flag with a value.
    Flag,
    /// A flag without one.
    Switch,
    /// A variable of the environment.
    Variable,
    /// A flag that may have a value and has none, which says `true`.
    Bare,
    /// Code of the program.
    Code {
        /// Its bytes are a literal that says nothing else, in a text that can be changed.
        own: bool,
    },
    /// An option by which the job asks for it, such as `--gres`.
    Asked,
    /// A key of a configuration that is composed of several files, over which the words of the launch win.
    Composed,
    /// A key in a file of settings.
    Setting {
        /// How the file is written.
        format: SettingsFormat,
        /// Its bytes say something else, too.
        shared: bool,
    },
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum KnobState {
    /// This is it.
    Known(Value),
    /// This text, which is no value of the knob's kind: something that the program itself resolves.
    Text(String),
    /// Code computes it, at this place.
    Computed(Span, Why),
}

/// A value of a knob, as a submission gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundKnob {
    /// What is known of it.
    pub state: KnobState,
    /// The bytes of the value.
    pub value: Traced,
    /// In which form.
    pub way: KnobForm,
    /// It is given only under a condition.
    pub maybe: bool,
    /// It stands among the options of what starts the program.
    pub launcher: bool,
}

impl FoundKnob {
    /// Where the value stands that a reader would look for.
    pub fn place(&self) -> Option<Span> {
        self.value.place()
    }
}
