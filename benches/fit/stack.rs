//! The product's side of a case: preset, ladder and templates as they are shipped.

use std::collections::{BTreeMap, BTreeSet};

use oomctl::core::config::{parse_data, parse_knob_set, parse_preset};
use oomctl::core::recipe::{ClusterFacts, Knob, Layer, Preset, RungSpec, Shape};
use oomctl::io::library::{Library, LibraryFolder};
use oomctl_base::{Effect, Refusal};
use oomctl_memory::Profile;

/// A shipped preset, made ready.
pub struct Stack {
    pub preset: Preset,
    pub ladder: Vec<RungSpec>,
    pub templates: BTreeMap<String, String>,
    /// Constants of the training stack, where the preset names them.
    pub profile: Option<Profile>,
}

impl Stack {
    /// The shipped preset `name`, for the version that it takes by default.
    pub fn shipped(name: &str) -> Self {
        let library = Library::new(None);
        let text = |shelf, name: &str| library.get(shelf, name).expect("it is shipped");
        let source = text(LibraryFolder::Presets, name);
        let file = parse_preset(&source.path, &source.text).expect("shipped presets parse");
        let sets = file.uses.iter().map(|set| {
            let source = text(LibraryFolder::Sets, set);
            parse_knob_set(&source.path, &source.text).expect("shipped knob sets parse")
        });
        let sets = sets.collect();
        let preset = Preset::assemble(file, sets, None).expect("shipped presets assemble");
        let profile = preset.memory.as_ref().map(|fields| {
            let source = text(LibraryFolder::Memory, &fields.profile);
            parse_data(&source.path, &source.text).expect("shipped profiles parse")
        });
        Self {
            profile,
            ladder: preset.ladder.clone(),
            templates: library.templates().expect("templates are shipped"),
            preset,
        }
    }

    /// Resolves and checks layers.
    pub fn shape(&self, layers: &[Layer], cluster: &ClusterFacts) -> Result<Shape, Refusal> {
        Shape::new(&self.preset, layers, cluster, Some("bench"))
    }

    /// Knobs that a rung of the ladder moves.
    pub fn moved(&self) -> BTreeSet<String> {
        let moves = self.ladder.iter().flat_map(|rung| &rung.moves);
        moves
            .flat_map(|step| match (&step.role, &step.knob) {
                (Some(role), _) => self.preset.with_role(*role).map(name).collect(),
                (None, Some(knob)) => vec![knob.clone()],
                (None, None) => Vec::new(),
            })
            .collect()
    }

    /// Whether two shapes differ in a knob that changes training.
    pub fn trains_otherwise(&self, before: &Shape, after: &Shape) -> bool {
        let knobs = self.preset.knobs.iter();
        knobs
            .filter(|k| k.effect == Effect::ChangesTraining)
            .any(|k| before.recipe().value(&k.name) != after.recipe().value(&k.name))
    }
}

fn name(knob: &Knob) -> String {
    knob.name.clone()
}
