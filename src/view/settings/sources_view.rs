//! Where an estimate has the model's dimensions and the GPU's memory from.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DIM, Paint};
use crate::core::recipe::{Recipe, Resolved};
use oomctl_base::{Origin, Value, word_list};

/// Knobs of the set `model`, without their common beginning.
const DIMENSIONS: [&str; 11] =
    word_list("layers hidden intermediate heads kv_heads head_dim vocab params experts tied gated");

/// Which knobs tell of model and GPU, and what is known of the model beyond them.
pub struct SourceKnobs<'a> {
    /// The knob that names the model.
    pub model: Option<&'a str>,
    /// The knob for the memory of a GPU.
    pub gpu_memory: &'a str,
    /// The file that describes the model, as shown to the user, with what it says besides dimensions.
    pub file: Option<(String, Vec<String>)>,
    /// Why the memory of a GPU is not known.
    pub gpu_unknown: Option<String>,
}

/// Where model and GPU are known from; nothing for what is unknown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EstimateSources {
    model: Option<ModelSource>,
    gpu: Option<GpuSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_unknown: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModelSource {
    name: Option<String>,
    dimensions: BTreeMap<&'static str, Value>,
    from: Vec<String>,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct GpuSource {
    memory: String,
    from: String,
}

fn given<'r>(recipe: &'r Recipe, knob: &str) -> Option<&'r Resolved> {
    recipe.values.get(knob).filter(|r| !r.value.is_null())
}

impl EstimateSources {
    /// Those of a configuration.
    pub fn new(recipe: &Recipe, told: SourceKnobs<'_>) -> Self {
        let gpu = given(recipe, told.gpu_memory).map(|r| GpuSource {
            memory: r.value.to_string(),
            from: r.origin.to_string(),
        });
        Self {
            gpu_unknown: told.gpu_unknown.clone(),
            model: ModelSource::new(recipe, told),
            gpu,
        }
    }

    /// Two lines for people; none for what is unknown.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(model) = &self.model {
            model.line(&mut out);
        }
        if let Some(gpu) = &self.gpu {
            let from = format!("from {}", gpu.from);
            let _ = writeln!(out, "  GPU    {} {}", gpu.memory, Paint(DIM, &from));
        }
        if let Some(why) = &self.gpu_unknown {
            let _ = writeln!(out, "  GPU    memory unknown: {why}");
        }
        out
    }
}

impl ModelSource {
    fn new(recipe: &Recipe, told: SourceKnobs<'_>) -> Option<Self> {
        given(recipe, "model.layers")?;
        let name = told.model.and_then(|knob| given(recipe, knob));
        let name = name.map(|r| r.value.to_string());
        let mut dimensions = BTreeMap::new();
        let mut origins: Vec<&Origin> = Vec::new();
        for dimension in DIMENSIONS {
            if let Some(resolved) = given(recipe, &format!("model.{dimension}")) {
                dimensions.insert(dimension, resolved.value.clone());
                origins.push(&resolved.origin);
            }
        }
        let used = |path: &str| origins.iter().any(|o| file_of(o) == Some(path));
        let remarks = told.file.filter(|(path, _)| used(path));
        Some(Self {
            name,
            dimensions,
            from: places(&origins),
            remarks: remarks.map_or_else(Vec::new, |(_, remarks)| remarks),
        })
    }

    fn line(&self, out: &mut String) {
        let of = |key: &str| {
            self.dimensions
                .get(key)
                .map_or_else(|| "?".to_owned(), ToString::to_string)
        };
        let params = match self.dimensions.get("params") {
            Some(Value::Int(n)) => format!("{:.2} B parameters, ", *n as f64 / 1e9),
            _ => String::new(),
        };
        let name = self
            .name
            .as_ref()
            .map_or(String::new(), |n| format!("{n}: "));
        let _ = writeln!(
            out,
            "  model  {name}{params}{} layers, width {}, {} heads of {} ({} for keys and values), MLP {}, vocabulary {}",
            of("layers"),
            of("hidden"),
            of("heads"),
            of("head_dim"),
            of("kv_heads"),
            of("intermediate"),
            of("vocab"),
        );
        let from = format!("from {}", self.from.join(", "));
        let _ = writeln!(out, "         {}", Paint(DIM, &from));
        for remark in &self.remarks {
            let _ = writeln!(out, "         {}", Paint(DIM, remark));
        }
    }
}

fn file_of(origin: &Origin) -> Option<&str> {
    match origin {
        Origin::File { path, .. } => Some(path),
        _ => None,
    }
}

/// Each file once, with the first line of it that gave a value; other origins as they are.
fn places(origins: &[&Origin]) -> Vec<String> {
    let mut files: BTreeMap<&str, u32> = BTreeMap::new();
    let mut others: Vec<String> = Vec::new();
    for origin in origins {
        match origin {
            Origin::File { path, line, .. } => {
                let first = files.entry(path).or_insert(*line);
                *first = (*first).min(*line);
            }
            other if !others.contains(&other.to_string()) => others.push(other.to_string()),
            _ => {}
        }
    }
    let files = files
        .into_iter()
        .map(|(path, line)| format!("{path}:{line}"));
    files.chain(others).collect()
}
