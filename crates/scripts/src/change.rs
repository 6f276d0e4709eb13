//! A change of a text, what is wished for, and why it cannot be.

use super::stack::StackKnob;
use super::traced::Span;
use oomctl_base::Value;

/// Other bytes at a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextEdit {
    /// The bytes that go; none where something is added.
    pub span: Span,
    /// What stands there instead.
    pub text: String,
}

/// How a knob comes to its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The value was changed where it stands.
    InPlace,
    /// The value was not given: it is added to the file, or to the code, that gives the others.
    Added,
    /// The value could not be changed where it stands, or was not given: it is given behind all others, where it
    /// wins.
    Appended,
}

/// A change that cannot be made, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchError {
    /// The knob.
    pub knob: String,
    /// Why, for people.
    pub why: String,
}

impl PatchError {
    /// Why a knob, or the scripts as a whole, cannot be changed.
    pub fn new(knob: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            knob: knob.into(),
            why: why.into(),
        }
    }
}

/// A knob and the value that it is to have.
pub(super) type WantedValue<'a> = (&'a StackKnob, &'a Value);
