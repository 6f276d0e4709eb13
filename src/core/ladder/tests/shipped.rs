//! The shipped preset for GRPO, put together from its files.

use std::collections::BTreeMap;

use crate::core::config::{parse_data, parse_knob_set, parse_preset};
use crate::core::ladder::{ClimbContext, Policy};
use crate::core::recipe::{
    ClusterFacts, Layer, LayerKind, Preset, Recipe, Setting, Shape, resolve,
};
use oomctl_base::Origin;
use oomctl_memory::Profile;

const PRESET: &str = include_str!("../../../../presets/verl-grpo.yaml");
const PROFILE: &str = include_str!("../../../../presets/memory/verl.yaml");
const SETS: [&str; 5] = [
    include_str!("../../../../presets/sets/slurm.yaml"),
    include_str!("../../../../presets/sets/model.yaml"),
    include_str!("../../../../presets/sets/ray.yaml"),
    include_str!("../../../../presets/sets/verl-rungs.yaml"),
    include_str!("../../../../presets/sets/verl-fsdp.yaml"),
];

/// A job of the preset.
pub struct Stack {
    pub preset: Preset,
    pub profile: Profile,
    pub templates: BTreeMap<String, String>,
    pub cluster: ClusterFacts,
    pub layers: Vec<Layer>,
    pub rungs: Vec<Layer>,
    pub policy: Policy,
}

/// The preset with these settings (`KNOB=VALUE`), under templates that show all words.
pub fn grpo(set: &[String]) -> Stack {
    let file = parse_preset("grpo.yaml", PRESET).unwrap();
    let sets = SETS.map(|text| parse_knob_set("set.yaml", text).unwrap());
    let words =
        "{% for w in overrides %}{{ w }} {% endfor %}{% if mem is not none %}{{ mem }}{% endif %}";
    let templates = file
        .files
        .iter()
        .filter_map(|f| Some((f.template.clone()?, words.to_owned())));
    let templates = templates.collect();
    let preset = Preset::assemble(file, sets.to_vec(), None).unwrap();
    let mut layer = Layer::new(LayerKind::Flags);
    let given = ["model.path=m", "train_files=t", "val_files=v"];
    for text in given.into_iter().chain(set.iter().map(String::as_str)) {
        let (name, value) = text.split_once('=').unwrap();
        let value = preset.knob(name).unwrap().kind.parse(value).unwrap();
        let origin = Origin::Flag {
            text: text.to_owned(),
        };
        layer
            .settings
            .insert(name.to_owned(), Setting { value, origin });
    }
    Stack {
        preset,
        profile: parse_data("profile.yaml", PROFILE).unwrap(),
        templates,
        cluster: ClusterFacts::default(),
        layers: vec![layer],
        rungs: Vec::new(),
        policy: Policy::Ladder,
    }
}

impl Stack {
    pub fn context(&self) -> ClimbContext<'_> {
        let (preset, cluster, templates) = (&self.preset, &self.cluster, &self.templates);
        ClimbContext {
            policy: self.policy,
            ..ClimbContext::new(preset, cluster, templates, &self.layers, &self.rungs)
        }
    }

    /// The values, whatever the rules say.
    pub fn recipe(&self) -> Recipe {
        resolve(&self.preset, &self.layers, &self.cluster).unwrap()
    }

    pub fn shape(&self, rungs: &[Layer]) -> Shape {
        let layers: Vec<Layer> = self.layers.iter().chain(rungs).cloned().collect();
        Shape::new(&self.preset, &layers, &self.cluster, None).unwrap()
    }
}
