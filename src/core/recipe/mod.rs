//! Knobs, layers, recipes, shapes: what a configuration is.
//!
//! Rule: a value knows where it came from and what it beat; only a shape (a recipe that passed the
//! framework's own arithmetic) leaves this folder to be rendered or submitted.

mod bounds;
mod check;
mod checkpoint;
mod cluster;
pub mod copies;
mod depends;
mod derived;
pub mod expr;
mod faults;
mod formulas;
mod knob;
mod layer;
mod needs;
mod placed;
mod preset;
mod probe;

mod resolve;
mod resolved;
mod rung;
mod sets;
mod shape;
mod span;
mod stack;
mod unknown;
mod values;
mod when_text;

pub use bounds::bounds;
pub use check::{Checker, Formula, UnderTrial};
pub use checkpoint::{BoundKnobs, CHOSEN, Checkpoint, OnDisk};
pub use cluster::{ClusterFacts, GpuType};
pub use depends::{knobs_in, rules_about};
pub use formulas::{Formulas, PhaseFormulas, TermFormula, UnitFormula};
pub use knob::{Knob, MARK, Scalar, VersionedKnob, default_value};
pub use layer::{Layer, LayerKind, Override, Setting};
pub use needs::Binding;
pub use preset::{
    Derived, FileSpec, Framework, MemoryFields, PresetFile, ProbeSpec, Rule, RuleStage,
};
pub use resolve::{add_ambient, resolve};
pub use resolved::{Recipe, Resolved};
pub use rung::{Move, NumberOrExpr, RungSpec, Tuning, Useless, strongest_effect};
pub use sets::{KnobSetFile, SharedMemory, changed};
pub use shape::{Shape, Shaper, scope_of};
pub use span::{Lack, VersionSpan};
pub use stack::Preset;
pub use values::{KnobPlaces, Values};
pub use when_text::WhenText;
