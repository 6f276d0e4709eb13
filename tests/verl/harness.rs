//! The verl preset with its sets, profiles and templates, as they stand in the tree.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oomctl::core::config::{ConfigDocument, from_flags, parse_knob_set, parse_preset};
use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, Shape};
use oomctl::core::render::{AttemptPlace, RenderedFile, render};
use oomctl_base::Refusal;

/// Every released version that the preset describes.
pub const VERSIONS: [&str; 10] = [
    "0.4.0", "0.4.1", "0.5.0", "0.6.0", "0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.0", "0.9.1",
];

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Templates by the name under which presets and includes know them.
pub fn templates() -> BTreeMap<String, String> {
    fn walk(dir: &Path, base: &Path, out: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, base, out);
            } else {
                let name = path.strip_prefix(base).unwrap().to_str().unwrap();
                out.insert(name.to_owned(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let base = root().join("templates");
    let mut out = BTreeMap::new();
    walk(&base, &base, &mut out);
    out
}

pub fn preset(name: &str, version: Option<&str>) -> Preset {
    let path = format!("presets/{name}.yaml");
    let file = parse_preset(&path, &read(&path)).unwrap_or_else(|e| panic!("{e:?}"));
    let sets = file
        .uses
        .iter()
        .map(|set| {
            let path = format!("presets/sets/{set}.yaml");
            parse_knob_set(&path, &read(&path)).unwrap_or_else(|e| panic!("{e:?}"))
        })
        .collect();
    Preset::assemble(file, sets, version).unwrap_or_else(|e| panic!("{version:?}: {e:?}"))
}

pub fn profile(preset: &Preset, path: &str, kind: LayerKind) -> Layer {
    let document = ConfigDocument::parse(path, &read(path)).unwrap_or_else(|e| panic!("{e:?}"));
    document
        .layer(kind, preset)
        .unwrap_or_else(|e| panic!("{e:?}"))
}

/// The facts of a cluster profile.
pub fn facts(path: &str) -> ClusterFacts {
    #[derive(serde::Deserialize)]
    struct File {
        facts: ClusterFacts,
    }
    let file: File = serde_yaml::from_str(&read(path)).unwrap();
    file.facts.check().unwrap();
    file.facts
}

pub fn set(preset: &Preset, assignments: &[&str]) -> Layer {
    let words: Vec<String> = assignments.iter().map(|a| (*a).to_owned()).collect();
    from_flags(preset, &words, &[]).unwrap_or_else(|e| panic!("{e:?}"))
}

pub fn shape(preset: &Preset, layers: &[Layer], facts: &ClusterFacts) -> Result<Shape, Refusal> {
    Shape::new(preset, layers, facts, None)
}

pub fn place(backend: &str) -> AttemptPlace {
    AttemptPlace {
        run: "r1".to_owned(),
        number: 1,
        token: "oomctl-r1-1-0badcafe".to_owned(),
        dir: "/scratch/proj/.oomctl/runs/r1/attempt-1".to_owned(),
        workdir: "/scratch/proj".to_owned(),
        backend: backend.to_owned(),
        program: Some("/shared/bin/oomctl".to_owned()),
    }
}

pub fn files(preset: &Preset, shape: &Shape) -> Vec<RenderedFile> {
    render(preset, shape, &templates(), &place("slurm")).unwrap_or_else(|e| panic!("{e}"))
}
