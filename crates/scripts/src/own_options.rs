//! The options by which a program takes a knob that fills its framework's class itself.

use std::borrow::Cow;

use super::adopt::Adoption;
use super::stack::{StackKnob, is_key};
use super::traced::Traced;
use super::walk::Call;
use crate::{SettingsReader, Spelling};
use oomctl_base::{Role, ValueKind};

impl Call {
    /// The knob with the options by which this program takes it: its own, where it fills the framework's class itself.
    pub(super) fn as_read<'k>(&self, knob: &'k StackKnob) -> Cow<'k, StackKnob> {
        let Some(configured) = self.configured.as_ref().filter(|_| is_of_program(knob)) else {
            return Cow::Borrowed(knob);
        };
        let given = |flag: &str| {
            let own = self.words.iter().skip(self.args);
            own.into_iter().any(|w| is_key(&w.text.text(), flag))
        };
        let taken = |spelling: &Spelling| match (spelling, configured.value(spelling)) {
            (_, Some(coded)) => {
                let flag = coded.flag.clone().filter(|_| knob.kind != ValueKind::Bool);
                flag.map(Spelling::Flag)
            }
            (Spelling::Flag(flag) | Spelling::Switch(flag), None) if !given(flag) => None,
            (other, None) => Some(other.clone()),
        };
        let all = knob.spellings.iter().zip(&knob.styles);
        let all = all.filter_map(|(spelling, style)| Some((taken(spelling)?, *style)));
        let (spellings, styles) = all.unzip();
        Cow::Owned(StackKnob {
            spellings,
            styles,
            ..knob.clone()
        })
    }

    /// The value that the program's code gives a knob.
    pub(super) fn coded(&self, knob: &StackKnob) -> Option<&Traced> {
        let configured = self.configured.as_ref().filter(|_| is_of_program(knob))?;
        let mut values = knob.spellings.iter().filter_map(|s| configured.value(s));
        values.next().map(|coded| &coded.value)
    }
}

impl Adoption<'_> {
    /// Whether code of the program gives a knob, and none of its options.
    #[must_use]
    pub fn is_fixed(&self, knob: &StackKnob) -> bool {
        let mut calls = self.calls();
        calls.any(|call| call.coded(knob).is_some() && call.as_read(knob).spellings.is_empty())
    }
}

/// Whether the program itself reads a knob, and not what starts it or a library.
fn is_of_program(knob: &StackKnob) -> bool {
    let others = [SettingsReader::Launcher, SettingsReader::Library];
    !others.contains(&knob.reader) && !knob.role.is_some_and(Role::counts_gpus)
}
